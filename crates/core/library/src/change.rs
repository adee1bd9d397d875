//! Changes the size, label or UUID of a volume that is not in use.
//!
//! The layout decides what is changed, in which order, and what a power cut leaves
//! (`docs/design/resize.md`). This module only lengthens the image file before the change
//! and truncates it after.

use crate::devices::{Superblock, find_superblock, open_device, open_file};
use crate::error::{Error, Result};
use crate::host;
use crate::options::Preallocation;
use crate::store;
use rustix::io::Errno;
use std::path::Path;
use std::sync::Arc;
use varve_device::{Device, DeviceError, FileDevice, HostClock, IoMode, OpenMode, Preallocate};
use varve_format::identity::Tune;
use varve_lfs::ResizeOptions;

/// Size that a volume is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewSize {
    /// This number of bytes, rounded down to what the layout can use. An image file grows
    /// or shrinks with it.
    Bytes(u64),
    /// The present size of the file or block device.
    Max,
}

/// Phase of a running [`resize`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeStage {
    /// The image file is extended; progress is in bytes.
    Writing,
    /// Live blocks behind the new end are moved; progress is in segments.
    Moving,
}

/// Result of [`resize`].
#[derive(Clone, Copy, Debug)]
pub struct Resized {
    /// Superblock before the change.
    pub before: varve_lfs::format::Superblock,
    /// Superblock after the change.
    pub after: varve_lfs::format::Superblock,
    /// Size of the file or block device, in bytes.
    pub device_bytes: u64,
}

/// Changes the label or the UUID of a volume that is not in use, or lets it have snapshots.
/// If `tune` is empty, the superblock is only read. A power cut leaves either the old or the new values.
///
/// ```
/// use varve::{Volume, admin::{self, Superblock, Tune}};
/// # let host = tempfile::tempdir()?;
/// # std::env::set_current_dir(&host)?;
/// Volume::create("lake.img", 32 << 20)?.close()?;
/// let tune = Tune { label: Some("lake".into()), ..Tune::default() };
/// let Superblock::Log(superblock) = admin::tune("lake.img", &tune)? else { unreachable!() };
/// assert_eq!(superblock.label_text(), "lake");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `ResourceBusy` if the volume is in use, `InvalidInput` if the label is too long or the layout has no snapshots,
/// `InvalidData` if there is no volume, and errors of the host.
pub fn tune(path: impl AsRef<Path>, tune: &Tune) -> Result<Superblock> {
    let mode = match tune.is_empty() {
        true => OpenMode::ReadOnly,
        false => OpenMode::ReadWrite,
    };
    let device = open_device(path.as_ref(), mode, IoMode::Direct)?;
    let found = find_superblock(&device)?;
    if mode == OpenMode::ReadOnly {
        return Ok(found);
    }
    Ok(match found {
        Superblock::Log(_) => Superblock::Log(varve_lfs::tune(&device, tune)?),
        Superblock::VirtualLog(_) => Superblock::VirtualLog(varve_vlfs::tune(&device, tune)?),
        Superblock::InPlace(_) => Superblock::InPlace(varve_ffs::tune(&device, tune)?),
    })
}

/// Changes the size of a volume that is not in use. A power cut leaves the volume intact
/// with either the old or the new size; repeating the call completes the change.
///
/// ```
/// use varve::{Preallocation, Volume, admin::{self, NewSize}};
/// # let host = tempfile::tempdir()?;
/// # std::env::set_current_dir(&host)?;
/// Volume::create("lake.img", 32 << 20)?.close()?;
/// let sparse = Preallocation::Sparse;
/// admin::resize("lake.img", NewSize::Bytes(64 << 20), sparse, &mut |_, _, _| {})?;
/// admin::resize("lake.img", NewSize::Bytes(16 << 20), sparse, &mut |_, _, _| {})?;
/// assert_eq!(std::fs::metadata("lake.img")?.len(), 16 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `ResourceBusy` if the volume is in use, `StorageFull` if the live data does not fit,
/// `InvalidInput` if the size is impossible, `Unsupported` on another layout than the
/// log, `InvalidData` if there is no volume, and errors of the host.
pub fn resize(
    path: impl AsRef<Path>,
    size: NewSize,
    preallocate: Preallocation,
    progress: &mut dyn FnMut(ResizeStage, u64, u64),
) -> Result<Resized> {
    let path = path.as_ref();
    // The added part of an image may be written once. A volume in a store is thin.
    let file = match store::is_url(path) {
        true => None,
        false => Some(Arc::new(open_file(
            path,
            OpenMode::ReadWrite,
            IoMode::Direct,
        )?)),
    };
    let device: Arc<dyn Device> = match &file {
        Some(file) => Arc::clone(file) as _,
        None => open_device(path, OpenMode::ReadWrite, IoMode::Direct)?,
    };
    let Superblock::Log(before) = find_superblock(&device)? else {
        let problem = "is a volume of another layout than the log, whose size cannot be changed";
        let advice = "make another one and copy";
        return Err(Error::refused(path, Errno::OPNOTSUPP, problem, advice));
    };
    let present = device.geometry().size;
    let bytes = match size {
        NewSize::Bytes(bytes) => bytes,
        NewSize::Max => present,
    };
    // The request is checked before anything is changed.
    let planned = varve_lfs::plan_resize(&before, bytes)?.device_bytes.get();
    if planned > present {
        let mut written = |done, total| progress(ResizeStage::Writing, done, total);
        match &file {
            Some(file) => lengthen(file, planned, preallocate, &mut written),
            None => device.set_size(Some(planned)),
        }
        .map_err(varve_lfs::Error::Device)?;
    }
    let told = std::cell::RefCell::new(progress);
    let options = ResizeOptions {
        owner: host::identity(),
        progress: &|done, total| (*told.borrow_mut())(ResizeStage::Moving, done, total),
        ..ResizeOptions::default()
    };
    let resized = varve_lfs::resize(&device, Arc::new(HostClock::default()), bytes, &options);
    let after = match resized {
        Ok(after) => after,
        Err(error) => {
            // The image gets its old size back unless a superblock already records a
            // larger one.
            let said = varve_lfs::newest_bytes(&device);
            if planned > present && said.is_ok_and(|bytes| bytes <= present) {
                // The first error is the one worth reporting.
                let _ = device.set_size(Some(present));
            }
            return Err(error.into());
        }
    };
    let shrunk = after.device_bytes.get() <= before.device_bytes.get();
    if shrunk && size != NewSize::Max {
        let end = after.device_bytes.get();
        device
            .set_size(Some(end))
            .map_err(varve_lfs::Error::Device)?;
    }
    Ok(Resized {
        before,
        after,
        device_bytes: device.geometry().size,
    })
}

fn lengthen(
    device: &FileDevice,
    size: u64,
    preallocate: Preallocation,
    progress: &mut dyn FnMut(u64, u64),
) -> std::result::Result<u64, DeviceError> {
    let preallocate = match preallocate {
        Preallocation::Sparse => Preallocate::Sparse,
        Preallocation::Reserve => Preallocate::Reserve,
        Preallocation::Written => Preallocate::Written(progress),
    };
    device.set_size_with(Some(size), preallocate)
}

#[cfg(test)]
mod tests;
