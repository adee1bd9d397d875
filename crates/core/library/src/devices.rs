//! Opens images and devices and identifies the volume on them.

use crate::error::{Error, Result};
use crate::host;
use crate::options::{Layout, StoreOptions};
use crate::signature::{Found, IN_PLACE, VIRTUAL_LOG, probe};
use crate::store;
use crate::unlocked::Unlocked;
use rustix::io::Errno;
use std::path::Path;
use std::sync::Arc;
use varve_device::{Device, FileDevice, IoMode, OpenError, OpenMode};
use varve_ffs::Ffs;
use varve_lfs::Lfs;
use varve_lfs::format::superblock::MAGIC;
use varve_vlfs::Vlfs;

/// Identity and geometry of a volume, from its first block. It never changes while the
/// volume is in use.
#[derive(Clone, Copy, Debug)]
pub enum Superblock {
    /// Superblock of a segmented log.
    Log(varve_lfs::format::Superblock),
    /// Superblock of a virtual log.
    VirtualLog(varve_vlfs::format::Superblock),
    /// Superblock of the layout in place.
    InPlace(varve_ffs::format::Superblock),
}

/// Reads the superblock of a volume without locking it.
///
/// # Errors
/// `InvalidData` if there is no volume, and errors of the host.
pub fn read_superblock(path: impl AsRef<Path>) -> Result<Superblock> {
    find_superblock(&unlocked(path.as_ref())?)
}

/// A device that is opened for reading and not locked.
fn unlocked(path: &Path) -> Result<Arc<dyn Device>> {
    match store::is_url(path) {
        true => store::open(path, StoreOptions::default(), true),
        false => Ok(Arc::new(Unlocked::open(path)?)),
    }
}

/// Returns the layout of the volume in `path`, which may be in use. A file or device
/// without a volume counts as a segmented log.
pub fn layout_of(path: impl AsRef<Path>) -> Layout {
    let device = unlocked(path.as_ref());
    device.map_or(Layout::Log, |device| layout_on(&device))
}

/// Returns another layout than the log if the first sector identifies it, or if the last
/// block does and the first sector is unknown. The first sector has priority because a
/// volume that is made later may leave the last block as it was.
fn layout_on(device: &dyn Device) -> Layout {
    let mut first = [0; 512];
    if device.read(0, &mut first).is_ok() && first.starts_with(&MAGIC) {
        return Layout::Log;
    }
    match probe(device) {
        Ok(Some(Found::Known(VIRTUAL_LOG))) => Layout::VirtualLog,
        Ok(Some(Found::Known(IN_PLACE))) => Layout::InPlace,
        Ok(Some(Found::Known(_))) => Layout::Log,
        _ if Vlfs::find_superblock(device).is_ok() => Layout::VirtualLog,
        _ if Ffs::find_superblock(device).is_ok() => Layout::InPlace,
        _ => Layout::Log,
    }
}

/// Opens an image, a device of the host, or the volume of a URL. If it is in use, the
/// error names the holder.
///
/// # Errors
/// `ResourceBusy`, and errors of the host or of the store.
pub fn open_device(path: impl AsRef<Path>, mode: OpenMode, io: IoMode) -> Result<Arc<dyn Device>> {
    let path = path.as_ref();
    match store::is_url(path) {
        true => store::open(path, StoreOptions::default(), mode == OpenMode::ReadOnly),
        false => Ok(Arc::new(open_file(path, mode, io)?)),
    }
}

/// Does the same as [`open_device`] for a process that serves the volume: a note about
/// how it was opened is logged, and discards are passed on if `discard` is set.
///
/// # Errors
/// The same as [`open_device`].
pub fn open_served(
    path: impl AsRef<Path>,
    mode: OpenMode,
    io: IoMode,
    discard: bool,
) -> Result<Arc<dyn Device>> {
    let path = path.as_ref();
    if store::is_url(path) {
        return open_device(path, mode, io);
    }
    let device = open_file(path, mode, io)?;
    if let Some(note) = device.note() {
        tracing::warn!(volume = %path.display(), "{note}");
    }
    device.set_discard(discard);
    Ok(Arc::new(device))
}

/// Opens an image or device of the host.
pub(crate) fn open_file(path: &Path, mode: OpenMode, io: IoMode) -> Result<FileDevice> {
    FileDevice::open(path, mode, io).map_err(|error| match error {
        OpenError::InUse { path: in_use } => Error::in_use(in_use, host::holder(path)),
        other => Error::from(other),
    })
}

/// Reads the superblock. If there is no volume, the error names what the device contains
/// instead.
pub(crate) fn find_superblock(device: &dyn Device) -> Result<Superblock> {
    match layout_on(device) {
        Layout::Log => {}
        Layout::VirtualLog => return Ok(Superblock::VirtualLog(Vlfs::find_superblock(device)?)),
        Layout::InPlace => return Ok(Superblock::InPlace(Ffs::find_superblock(device)?)),
    }
    let missing = match Lfs::find_superblock(device) {
        Ok(superblock) => return Ok(Superblock::Log(superblock)),
        Err(error) => error,
    };
    match probe(device)? {
        Some(Found::Known(name)) if name != crate::signature::VARVE => Err(Error::refused(
            device.name().as_ref(),
            Errno::INVAL,
            format!("holds {name}, not a Varve volume"),
            "name another image, or make a volume with mkfs",
        )),
        _ => Err(missing.into()),
    }
}
