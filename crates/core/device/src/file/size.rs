//! Resizing an image file, and learning the present size of a block device.
//!
//! Invariant: the size seen by other threads is one that the file has durably, so that
//! every request accepted is within the file.

use super::open::{OpenError, Preallocate, fill};
use super::{FileDevice, OpenMode};
use crate::device::{Device, DeviceError, Operation, Result};
use crate::size::Bytes;
use rustix::fs::{FileType, SeekFrom};
use rustix::io::Errno;
use std::io;
use std::sync::atomic::Ordering;

impl FileDevice {
    /// Resizes as [`Device::set_size`] does; `preallocate` says how the space of the
    /// new part is allocated.
    ///
    /// # Errors
    /// As [`Device::set_size`], or if the host has not enough space. The size is then
    /// as before.
    pub fn set_size_with(&self, size: Option<u64>, preallocate: Preallocate<'_>) -> Result<u64> {
        let failed = |error: io::Error| DeviceError {
            device: self.name(),
            operation: Operation::Resize,
            offset: 0,
            length: size.unwrap_or(0),
            source: error,
        };
        let stat = rustix::fs::fstat(&self.fd).map_err(|error| failed(error.into()))?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let present = match is_file {
            true => stat.st_size as u64,
            false => rustix::fs::seek(&self.fd, SeekFrom::End(0)).map_err(|e| failed(e.into()))?,
        };
        let block = u64::from(self.opened.logical_block);
        let whole = |bytes: u64| bytes - bytes % block;
        let wanted = whole(size.unwrap_or(present));
        if wanted == 0 {
            return Err(failed(io::Error::other("no block is left")));
        }
        if wanted != present && size.is_some() {
            if self.mode == OpenMode::ReadOnly {
                return Err(failed(Errno::ROFS.into()));
            }
            match (is_file, wanted > present) {
                (true, true) => self
                    .lengthen(present, wanted, preallocate)
                    .map_err(failed)?,
                (true, false) => {
                    // The size shrinks first, so that no request reaches the bytes
                    // about to be cut off.
                    self.size.fetch_min(wanted, Ordering::AcqRel);
                    rustix::fs::ftruncate(&self.fd, wanted).map_err(|e| failed(e.into()))?;
                    rustix::fs::fsync(&self.fd).map_err(|e| failed(e.into()))?;
                }
                (false, true) => {
                    let text = format!("the device has {}", Bytes(present));
                    return Err(failed(io::Error::other(text)));
                }
                (false, false) => {}
            }
        }
        let now = match is_file {
            true => wanted,
            false => whole(present),
        };
        self.size.store(now, Ordering::Release);
        Ok(now)
    }

    fn lengthen(&self, present: u64, wanted: u64, preallocate: Preallocate<'_>) -> io::Result<()> {
        // The new part includes the incomplete last block, whose missing bytes become
        // zeros.
        let begin = present - present % u64::from(self.opened.logical_block);
        let filled = fill(&self.fd, &self.path, begin..wanted, preallocate, self.io)
            .map_err(|error| match error {
                OpenError::Io { source, .. } => source,
                other => io::Error::other(other),
            })
            .and_then(|()| rustix::fs::fsync(&self.fd).map_err(io::Error::from));
        if filled.is_err() {
            // The first error is the one worth reporting.
            let _ = rustix::fs::ftruncate(&self.fd, present);
        }
        filled
    }
}
