//! Makes a volume and protects existing data from being overwritten.
//!
//! Invariants:
//! - Nothing is changed before the options are known to give a volume.
//! - A device with other content than zeros is overwritten only on request, a device in
//!   use never.
//! - A creation that fails leaves no new file behind.

use crate::devices::{Superblock, open_file};
use crate::error::{Cause, Error, Result};
use crate::host;
use crate::options::{Layout, Preallocation, VolumeOptions};
use crate::signature::probe;
use crate::store;
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve_device::size::Bytes;
use varve_device::{
    Clock, Device, DeviceError, FileDevice, Geometry, HostClock, IoMode, OpenMode, Operation,
    Preallocate,
};
use varve_ffs::{Ffs, FreeMap};
use varve_fs::{FileSystem, InodeNo};
use varve_lfs::{FormatOptions, Lfs, MountOptions};
use varve_vlog::{InOrder, Medium};

/// Callback with the bytes of a new image written so far, and their total.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Makes a volume in `path`: in a new image file, or in the existing file or device.
///
/// # Errors
/// The same as [`VolumeOptions::create`].
pub fn format(
    path: impl AsRef<Path>,
    options: &VolumeOptions,
    progress: Progress<'_>,
) -> Result<Superblock> {
    let path = path.as_ref();
    if store::is_url(path) {
        let mut options = options.clone();
        // Segments are objects, if the volume has enough of them.
        let segments = options.size.unwrap_or(0) / u64::from(store::OBJECT_BYTES);
        if options.segment_bytes == 0 && segments >= 256 {
            options.segment_bytes = store::OBJECT_BYTES;
        }
        let device = store::make(path, &options)?;
        return format_device(device, &options).inspect_err(|_| {
            // The first error is the one worth reporting.
            let _ = store::remove(path);
        });
    }
    match path.try_exists() {
        Ok(false) => format_new(path, options, progress),
        Ok(true) => format_existing(path, options),
        Err(source) => Err(Error::host(path, "examine", source)),
    }
}

fn format_new(path: &Path, options: &VolumeOptions, progress: Progress<'_>) -> Result<Superblock> {
    let size = options.size.ok_or_else(|| {
        let advice = "give a size to create an image file";
        Error::refused(path, Errno::NOENT, "does not exist", advice)
    })?;
    let planned = Planned {
        path: path.to_owned(),
        size: size / 512 * 512,
    };
    plan(Arc::new(planned), options)?;
    let preallocate = match options.preallocate {
        Preallocation::Sparse => Preallocate::Sparse,
        Preallocation::Reserve => Preallocate::Reserve,
        Preallocation::Written => Preallocate::Written(progress),
    };
    let device = FileDevice::create(path, size, preallocate, IoMode::Direct)?;
    format_device(Arc::new(device), options).inspect_err(|_| {
        // The first error is the one worth reporting.
        let _ = std::fs::remove_file(path);
    })
}

fn format_existing(path: &Path, options: &VolumeOptions) -> Result<Superblock> {
    let device = Arc::new(open_file(path, OpenMode::ReadWrite, IoMode::Direct)?);
    let refused = |problem: String, advice| Error::refused(path, Errno::EXIST, problem, advice);
    let size = device.geometry().size;
    if options.size.is_some_and(|wanted| wanted != size) {
        let problem = format!("exists already and has {}", Bytes(size));
        return Err(refused(problem, "leave the size out to use it as it is"));
    }
    let shown_by = host::loop_device_of(path);
    if let Some(name) = shown_by.as_deref().filter(|name| host::is_claimed(name)) {
        let problem = format!("is shown by /dev/{name}, which is in use");
        return Err(refused(problem, "unmount that first"));
    }
    if !options.overwrite {
        let advice = "to overwrite it, say so (--force)";
        if let Some(found) = probe(&device)? {
            return Err(refused(found.to_string(), advice));
        }
        if let Some(name) = shown_by {
            return Err(refused(format!("is shown by /dev/{name}"), advice));
        }
    }
    format_device(device, options)
}

/// Checks that the options give a volume on this device.
///
/// # Errors
/// The option that does not fit.
fn plan(device: Arc<dyn Device>, options: &VolumeOptions) -> Result<()> {
    match options.layout {
        Layout::Log => varve_lfs::plan_volume(&*device, &log_options(options), 0).map(drop)?,
        Layout::VirtualLog => {
            varve_vlfs::plan(&InOrder(device), &virtual_log_options(options), 0).map(|_| ())?;
        }
        Layout::InPlace => {
            let superblock = varve_ffs::plan(&*device, &in_place_options(options), 0)?;
            if let Some(map) = &options.aged {
                map.fits(&superblock)?;
            }
        }
    }
    Ok(())
}

/// Makes a volume on any device and overwrites the content of the device.
///
/// # Errors
/// The same as [`VolumeOptions::create`].
pub(crate) fn format_device(
    device: Arc<dyn Device>,
    options: &VolumeOptions,
) -> Result<Superblock> {
    plan(Arc::clone(&device), options)?;
    match options.layout {
        Layout::Log => make_log(device, options).map(Superblock::Log),
        Layout::VirtualLog => make_virtual_log(device, options).map(Superblock::VirtualLog),
        Layout::InPlace => make_in_place(device, options).map(Superblock::InPlace),
    }
}

fn make_virtual_log(
    device: Arc<dyn Device>,
    options: &VolumeOptions,
) -> Result<varve_vlfs::format::Superblock> {
    let clock: Arc<dyn Clock> = Arc::new(HostClock::default());
    let medium: Arc<dyn Medium> = Arc::new(InOrder(device));
    let superblock = varve_vlfs::format(&*medium, &*clock, &virtual_log_options(options))?;
    let mount = varve_vlfs::VlfsMountOptions {
        owner: host::identity(),
        ..varve_vlfs::VlfsMountOptions::default()
    };
    let layout = varve_vlfs::Vlfs::mount(medium, Arc::clone(&clock), mount)?;
    make_root(&layout, &*clock, options)?;
    layout.unmount()?;
    Ok(superblock)
}

fn make_in_place(
    device: Arc<dyn Device>,
    options: &VolumeOptions,
) -> Result<varve_ffs::format::Superblock> {
    let clock: Arc<dyn Clock> = Arc::new(HostClock::default());
    let superblock = varve_ffs::format(&*device, &*clock, &in_place_options(options))?;
    let mount = varve_ffs::FfsMountOptions {
        owner: host::identity(),
        ..varve_ffs::FfsMountOptions::default()
    };
    let layout = Arc::new(Ffs::mount(device, Arc::clone(&clock), mount)?);
    make_root(&*layout, &*clock, options)?;
    let aged = options.aged.as_ref();
    let aged = aged.map_or(Ok(()), |map| age(&layout, &clock, options, map));
    let unmounted = layout.unmount();
    aged?;
    unmounted?;
    Ok(superblock)
}

/// Fills the volume with one file except for the blocks that are free on the map.
fn age(
    layout: &Arc<Ffs>,
    clock: &Arc<dyn Clock>,
    options: &VolumeOptions,
    map: &FreeMap,
) -> Result<()> {
    let failed = |error| Error::of_volume("make the file that ages it", Cause::Tree(error));
    let ino = {
        let fs = FileSystem::mount(
            Arc::clone(layout),
            Arc::clone(clock),
            varve_fs::Options::default(),
        );
        let fs = fs.map_err(failed)?;
        let made = fs.mknod(&options.caller(), InodeNo::ROOT, b"aged", 0o100_400, 0);
        fs.unmount().map_err(failed)?;
        made.map_err(failed)?.ino
    };
    Ok(layout.age(ino, map)?)
}

fn in_place_options(options: &VolumeOptions) -> varve_ffs::FfsFormatOptions {
    let block_bytes = options.bytes_of_block();
    let aged = options.aged.as_deref();
    // A block size of zero is refused later, together with other impossible sizes.
    let blocks = |map: &FreeMap| map.group_bytes().div_ceil(u64::from(block_bytes).max(1));
    varve_ffs::FfsFormatOptions {
        group_data_blocks: aged.map_or(0, blocks),
        block_bytes,
        policy: options.allocation.clone(),
        metadata: options.metadata,
        minfree_percent: options.minfree_percent,
        label: options.label.clone(),
        case_fold: options.case_fold,
        ..varve_ffs::FfsFormatOptions::default()
    }
}

fn make_root<L: varve_fs::Layout>(
    layout: &L,
    clock: &dyn Clock,
    options: &VolumeOptions,
) -> Result<()> {
    let owner = options.caller();
    FileSystem::format(layout, clock, (owner.uid, owner.gid))
        .map_err(|error| Error::of_volume("make the root directory", Cause::Tree(error)))
}

fn virtual_log_options(options: &VolumeOptions) -> varve_vlfs::VlfsFormatOptions {
    varve_vlfs::VlfsFormatOptions {
        block_bytes: options.bytes_of_block(),
        label: options.label.clone(),
        case_fold: options.case_fold,
        ..varve_vlfs::VlfsFormatOptions::default()
    }
}

fn make_log(
    device: Arc<dyn Device>,
    options: &VolumeOptions,
) -> Result<varve_lfs::format::Superblock> {
    let clock: Arc<dyn Clock> = Arc::new(HostClock::default());
    Lfs::format(&*device, &*clock, &log_options(options))?;
    let mount = MountOptions {
        owner: host::identity(),
        ..MountOptions::default()
    };
    let layout = Lfs::mount(device, Arc::clone(&clock), mount)?;
    make_root(&layout, &*clock, options)?;
    layout.unmount()?;
    Ok(*layout.superblock())
}

fn log_options(options: &VolumeOptions) -> FormatOptions {
    FormatOptions {
        block_bytes: options.bytes_of_block(),
        segment_bytes: options.segment_bytes,
        inode_bytes: options.inode_bytes,
        label: options.label.clone(),
        case_fold: options.case_fold,
        ..FormatOptions::default()
    }
}

/// An image that does not exist yet. It serves to check the options before the file is
/// created.
#[derive(Debug)]
struct Planned {
    path: PathBuf,
    size: u64,
}

impl Planned {
    fn refuse(&self, operation: Operation, offset: u64) -> DeviceError {
        DeviceError {
            device: self.name(),
            operation,
            offset,
            length: 0,
            source: io::ErrorKind::NotFound.into(),
        }
    }
}

impl Device for Planned {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size,
            logical_block: 512,
            physical_block: 4096,
        }
    }

    fn read(&self, offset: u64, _: &mut [u8]) -> std::result::Result<(), DeviceError> {
        Err(self.refuse(Operation::Read, offset))
    }

    fn write(&self, offset: u64, _: &[IoSlice<'_>]) -> std::result::Result<(), DeviceError> {
        Err(self.refuse(Operation::Write, offset))
    }

    fn flush(&self) -> std::result::Result<(), DeviceError> {
        Err(self.refuse(Operation::Flush, 0))
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    fn make(path: &Path, options: &VolumeOptions) -> Result<Superblock> {
        format(path, options, &mut |_, _| {})
    }

    fn sized(bytes: u64) -> VolumeOptions {
        VolumeOptions::new().size(bytes).clone()
    }

    #[test]
    fn too_small_an_image_is_refused_before_it_exists() {
        let host = tempfile::tempdir().unwrap();
        let path = host.path().join("tiny");
        for layout in [Layout::Log, Layout::VirtualLog, Layout::InPlace] {
            let error = make(&path, sized(16 << 10).layout(layout)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            assert!(!path.exists());
        }
        let error = make(&path, &VolumeOptions::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }

    #[test]
    fn data_is_overwritten_on_request_only() {
        let host = tempfile::tempdir().unwrap();
        let path = host.path().join("image");
        std::fs::write(&path, vec![b'x'; 16 << 20]).unwrap();
        let options = VolumeOptions::new();
        let refused = make(&path, &options).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), vec![b'x'; 16 << 20]);
        make(&path, VolumeOptions::new().overwrite(true)).unwrap();
        let again = make(&path, &options).unwrap_err();
        assert!(
            again.to_string().contains("holds a Varve volume"),
            "{again}"
        );
    }

    #[test]
    fn a_map_that_does_not_fit_is_refused_before_anything_is_overwritten() {
        let host = tempfile::tempdir().unwrap();
        let path = host.path().join("image");
        std::fs::write(&path, vec![b'x'; 16 << 20]).unwrap();
        let map = |groups| FreeMap::new(8192, 4 << 20, vec![vec![]; groups]).unwrap();
        let buddies = varve_ffs::allocate::Policy::Buddy;
        for (map, policy) in [(map(40), Default::default()), (map(2), buddies)] {
            let mut options = VolumeOptions::new();
            options.layout(Layout::InPlace).overwrite(true);
            options.allocation(policy).aged(map);
            let refused = make(&path, &options).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
            assert_eq!(std::fs::read(&path).unwrap(), vec![b'x'; 16 << 20]);
        }
    }

    #[test]
    fn a_blank_image_is_used_as_it_is() {
        let host = tempfile::tempdir().unwrap();
        let path = host.path().join("image");
        let blank = std::fs::File::create(&path).unwrap();
        blank.set_len(32 << 20).unwrap();
        assert!(make(&path, &sized(16 << 20)).is_err());
        let Superblock::Log(superblock) = make(&path, &VolumeOptions::new()).unwrap() else {
            panic!("not what was asked for");
        };
        assert_eq!(superblock.device_bytes.get(), 32 << 20);
    }
}
