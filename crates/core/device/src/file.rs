//! An image file or block device.
//!
//! Invariants:
//! - A write returns `Ok` only when the host took every byte, a flush only when
//!   `fdatasync` succeeded. A failed flush is never repeated here.
//! - With direct I/O, memory, addresses and lengths given to the host are aligned; a
//!   caller's buffer that is not aligned is copied through a bounce buffer.
//! - The volume is locked from before the first access until the device is dropped.
//! - In [`IoMode::Sync`] the only calls for data are `pread`, `pwrite` and `fdatasync`,
//!   so that a recorder outside of the process sees every change.

mod lock;
mod many;
mod open;
mod ring;
mod size;
mod transfer;

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, FileType, SeekFrom, Stat, fstat, seek};
use rustix::io::Errno;

use crate::counters::DeviceCounters;
use crate::device::{Device, DeviceError, Extent, Geometry, Operation, Result, read_and_part};
use crate::pool::BufferPool;
use crate::request::{check_request, total_length};
pub use open::{OpenError, OpenMode, Preallocate};
use ring::Rings;

/// Size of a bounce buffer, in bytes; a longer transfer uses it in several steps.
const BOUNCE_BYTES: usize = 1 << 20;
/// Number of bounce buffers that are kept while not in use.
const BOUNCE_KEPT: usize = 4;

/// The path of bytes between the process and the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoMode {
    /// Direct I/O, past the host's page cache (`O_DIRECT`). If the host's file system
    /// refuses that, the mode becomes [`IoMode::Buffered`], and [`FileDevice::note`]
    /// says so.
    Direct,
    /// Buffered I/O, through the host's page cache.
    Buffered,
    /// Buffered I/O in plain calls only: no vectored calls, no allocation, no discards.
    Sync,
}

impl std::str::FromStr for IoMode {
    type Err = &'static str;

    /// Parses `direct`, `buffered` or `sync`.
    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        match text {
            "direct" => Ok(IoMode::Direct),
            "buffered" => Ok(IoMode::Buffered),
            "sync" => Ok(IoMode::Sync),
            _ => Err("it is direct, buffered or sync"),
        }
    }
}

/// A device on an image file or a block device.
#[derive(Debug)]
pub struct FileDevice {
    path: PathBuf,
    mode: OpenMode,
    io: IoMode,
    /// The geometry when the device was opened; `size` replaces its size.
    opened: Geometry,
    /// The present size, in bytes.
    size: AtomicU64,
    /// Alignment, in bytes, of addresses and lengths of the memory used for direct I/O.
    memory_align: usize,
    note: Option<String>,
    fd: OwnedFd,
    /// The file behind a loop device, kept open for its lock.
    _backing: Option<OwnedFd>,
    discards: AtomicBool,
    pool: Arc<BufferPool>,
    rings: Rings,
    counters: Arc<DeviceCounters>,
}

impl FileDevice {
    /// Opens an existing image file or block device and locks it: exclusively for
    /// writing, shared for reading.
    ///
    /// # Errors
    /// [`OpenError::InUse`] if it is locked, mounted or used by a volume manager; other
    /// errors if it is neither a file nor a block device, or if the host refuses.
    pub fn open(
        path: impl AsRef<Path>,
        mode: OpenMode,
        io: IoMode,
    ) -> std::result::Result<Self, OpenError> {
        open::open(path.as_ref(), mode, io)
    }

    /// Creates an image file of `size` bytes, a multiple of 512, and opens it for
    /// writing. It reads as zeros; the file and its name are durable.
    ///
    /// # Errors
    /// If the file exists, if the size is not usable, or if the host refuses or has no
    /// space. The incomplete file is removed.
    pub fn create(
        path: impl AsRef<Path>,
        size: u64,
        preallocate: Preallocate<'_>,
        io: IoMode,
    ) -> std::result::Result<Self, OpenError> {
        open::create(path.as_ref(), size, preallocate, io)
    }

    /// Turns the forwarding of discards to the host on or off: a discard becomes a hole
    /// in a file, or a discard of the block device. It is off at first, because a hole
    /// in a preallocated image could not be filled again on a full host.
    pub fn set_discard(&self, on: bool) {
        self.discards.store(on, Ordering::Relaxed);
    }

    /// Returns the mode in effect, which may be [`IoMode::Buffered`] where
    /// [`IoMode::Direct`] was requested.
    pub fn io_mode(&self) -> IoMode {
        self.io
    }

    /// Returns true if the device refuses writes.
    pub fn is_read_only(&self) -> bool {
        self.mode == OpenMode::ReadOnly
    }

    /// Returns a note for the user about how the device was opened, if there is one.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Returns the path by which the device was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the counters of requests to this device.
    pub fn counters(&self) -> &Arc<DeviceCounters> {
        &self.counters
    }

    /// Returns the granule, in bytes, to which a short transfer is rounded down.
    fn granule(&self) -> usize {
        match self.io {
            IoMode::Direct => self.opened.logical_block as usize,
            IoMode::Buffered | IoMode::Sync => 1,
        }
    }

    /// Returns true if the host can use this memory without a copy.
    fn usable(&self, bytes: &[u8]) -> bool {
        let unaligned = (bytes.as_ptr().addr() | bytes.len()) % self.memory_align;
        self.io != IoMode::Direct || unaligned == 0
    }

    fn read_bounced(&self, mut offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.counters.count_copy(buffer.len() as u64);
        let mut bounce = self.pool.take(BOUNCE_BYTES);
        for part in buffer.chunks_mut(BOUNCE_BYTES) {
            let through = &mut bounce[..part.len()];
            transfer::read_whole(&self.fd, offset, through, self.granule())?;
            part.copy_from_slice(through);
            offset += part.len() as u64;
        }
        Ok(())
    }

    fn write_bounced(&self, mut offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        self.counters.count_copy(total_length(buffers));
        let mut bounce = self.pool.take(BOUNCE_BYTES);
        let mut filled = 0;
        for buffer in buffers {
            let mut rest: &[u8] = buffer;
            while !rest.is_empty() {
                let step = rest.len().min(BOUNCE_BYTES - filled);
                bounce[filled..filled + step].copy_from_slice(&rest[..step]);
                rest = &rest[step..];
                filled += step;
                if filled == BOUNCE_BYTES {
                    transfer::write_whole(&self.fd, offset, &bounce, self.granule())?;
                    offset += BOUNCE_BYTES as u64;
                    filled = 0;
                }
            }
        }
        transfer::write_whole(&self.fd, offset, &bounce[..filled], self.granule())
    }

    fn write_plain(&self, mut offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        for buffer in buffers {
            transfer::write_whole(&self.fd, offset, buffer, 1)?;
            offset += buffer.len() as u64;
        }
        Ok(())
    }

    fn write_all(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        if self.io == IoMode::Sync {
            return self.write_plain(offset, buffers);
        }
        if !buffers.iter().all(|buffer| self.usable(buffer)) {
            return self.write_bounced(offset, buffers);
        }
        match buffers {
            [buffer] => transfer::write_whole(&self.fd, offset, buffer, self.granule()),
            _ => transfer::write_vectored(&self.fd, offset, buffers, self.granule()),
        }
    }

    /// Punches a hole if discards are on and the host can do it; returns true if it
    /// did.
    fn punch(&self, operation: Operation, offset: u64, length: u64) -> Result<bool> {
        let wanted = self.discards.load(Ordering::Relaxed) && self.io != IoMode::Sync;
        if !wanted || length == 0 {
            return Ok(false);
        }
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.fd, mode, offset, length) {
            Ok(()) => {
                self.counters.count_discard();
                Ok(true)
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.set_discard(false);
                Ok(false)
            }
            Err(error) => Err(DeviceError::new(self, operation, offset, length, error)),
        }
    }

    fn refuse_if_read_only(&self, operation: Operation, offset: u64, length: u64) -> Result<()> {
        if self.is_read_only() {
            let source = Errno::ROFS;
            return Err(DeviceError::new(self, operation, offset, length, source));
        }
        Ok(())
    }
}

impl Device for FileDevice {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size.load(Ordering::Acquire),
            ..self.opened
        }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let length = buffer.len() as u64;
        check_request(self, Operation::Read, offset, length)?;
        let read = if self.usable(buffer) {
            transfer::read_whole(&self.fd, offset, buffer, self.granule())
        } else {
            self.read_bounced(offset, buffer)
        };
        read.map_err(|error| DeviceError::new(self, Operation::Read, offset, length, error))?;
        self.counters.count_read(length);
        Ok(())
    }

    fn read_vectored(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<()> {
        let length = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        if !buffers.iter().all(|buffer| self.usable(buffer)) {
            self.counters.count_copy(length);
            return read_and_part(self, offset, buffers);
        }
        check_request(self, Operation::Read, offset, length)?;
        let read = transfer::read_vectored(&self.fd, offset, buffers, self.granule());
        read.map_err(|error| DeviceError::new(self, Operation::Read, offset, length, error))?;
        self.counters.count_read(length);
        Ok(())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        let length = total_length(buffers);
        check_request(self, Operation::Write, offset, length)?;
        self.refuse_if_read_only(Operation::Write, offset, length)?;
        self.write_all(offset, buffers)
            .map_err(|error| DeviceError::new(self, Operation::Write, offset, length, error))?;
        self.counters.count_write(length);
        Ok(())
    }

    /// Reads in parallel with direct I/O, if the kernel has io_uring.
    fn read_many(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        self.read_side_by_side(reads)
    }

    /// Writes in parallel, as [`FileDevice::read_many`] reads.
    fn write_many(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.write_side_by_side(writes)
    }

    fn flush(&self) -> Result<()> {
        if !self.is_read_only() {
            rustix::fs::fdatasync(&self.fd)
                .map_err(|error| DeviceError::new(self, Operation::Flush, 0, 0, error))?;
        }
        self.counters.count_flush();
        Ok(())
    }

    /// Punches a hole. On a block device the host converts it into a discard that reads as
    /// zeros. Does nothing unless [`FileDevice::set_discard`] was called, and nothing
    /// once the host has refused because it does not support holes.
    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_request(self, Operation::Discard, offset, length)?;
        self.refuse_if_read_only(Operation::Discard, offset, length)?;
        self.punch(Operation::Discard, offset, length).map(drop)
    }

    /// Punches a hole as [`FileDevice::discard`] does, because a hole reads as zeros.
    fn zero(&self, offset: u64, length: u64) -> Result<bool> {
        check_request(self, Operation::Write, offset, length)?;
        self.refuse_if_read_only(Operation::Write, offset, length)?;
        self.punch(Operation::Write, offset, length)
    }

    /// Asks the host for its map of the file; for a block device there is none.
    fn extent(&self, offset: u64, length: u64) -> Result<Extent> {
        check_request(self, Operation::Read, offset, length)?;
        let end = offset + length;
        let block = u64::from(self.opened.logical_block);
        let whole = |at: u64| at.min(end) / block * block;
        let unknown = Extent {
            length,
            hole: false,
        };
        let from = |hole, to| {
            let length = whole(to).saturating_sub(offset);
            (length > 0).then_some(Extent { length, hole })
        };
        let found = match seek(&self.fd, SeekFrom::Data(offset)) {
            Err(Errno::NXIO) => from(true, end),
            Ok(data) if data > offset => from(true, data),
            Ok(_) => match seek(&self.fd, SeekFrom::Hole(offset)) {
                Ok(hole) => from(false, hole),
                Err(_) => None,
            },
            Err(_) => None,
        };
        Ok(found.unwrap_or(unknown))
    }

    /// Returns true for an image file. The host keeps no map of a block device.
    fn fills_holes_slowly(&self) -> bool {
        let is_file = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        self.io != IoMode::Sync && !self.is_read_only() && fstat(&self.fd).is_ok_and(is_file)
    }

    /// Changes the size of an image file, whose new part is sparse. A block device
    /// keeps its size.
    fn set_size(&self, size: Option<u64>) -> Result<u64> {
        self.set_size_with(size, Preallocate::Sparse)
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

#[cfg(test)]
mod tests;
