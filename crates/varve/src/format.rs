//! Making a volume, and what it refuses to overwrite.
//!
//! Invariants:
//! - Nothing is changed before the options are known to give a volume.
//! - What holds anything but zeros is overwritten only on request, what is in
//!   use never.
//! - A creation that fails leaves no new file behind.

mod signature;

pub use signature::{Found, VARVE, VIRTUAL_LOG, probe};

use crate::error::{Error, Result};
use crate::host;
use crate::options::{CreateOptions, Preallocation};
use crate::volume::open_device;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve_device::{
    Clock, Device, DeviceError, FileDevice, Geometry, HostClock, IoMode, OpenError, OpenMode,
    Operation, Preallocate,
};
use varve_fs::FileSystem;
use varve_lfs::format::Superblock;
use varve_lfs::{FormatOptions, Lfs, MountOptions, vlfs};
use varve_vlog::{InOrder, Medium};

/// Called with the bytes of a new image written so far, and in all.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Makes a volume in `path`: a new image file, or what is there already.
///
/// # Errors
/// `Refused` if something is there, `InUse`, `Layout` if the options give no
/// volume, or what the host answers.
pub fn format(path: &Path, options: &CreateOptions, progress: Progress<'_>) -> Result<Superblock> {
    let plan = |device: Arc<dyn Device>| {
        varve_lfs::plan_volume(&*device, &layout_options(options), 0)?;
        Ok(())
    };
    let make = |device| format_device(device, options);
    make_in(path, options, progress, &plan, &make)
}

/// The same, of a volume on the virtual log (`docs/vlfs.md`).
///
/// # Errors
/// As [`format()`].
pub fn format_virtual_log(
    path: &Path,
    options: &CreateOptions,
    progress: Progress<'_>,
) -> Result<vlfs::format::Superblock> {
    let plan = |device| {
        vlfs::plan(&InOrder(device), &virtual_log_options(options), 0)?;
        Ok(())
    };
    let make = |device| make_virtual_log(device, options);
    make_in(path, options, progress, &plan, &make)
}

type Plan<'a> = &'a dyn Fn(Arc<dyn Device>) -> Result<()>;
type Make<'a, T> = &'a dyn Fn(Arc<dyn Device>) -> Result<T>;

fn make_in<T>(
    path: &Path,
    options: &CreateOptions,
    progress: Progress<'_>,
    plan: Plan<'_>,
    make: Make<'_, T>,
) -> Result<T> {
    match path.try_exists() {
        Ok(false) => format_new(path, options, progress, plan, make),
        Ok(true) => format_existing(path, options, plan, make),
        Err(source) => Err(Error::Open(OpenError::Io {
            path: path.to_owned(),
            action: "examine",
            source,
        })),
    }
}

fn format_new<T>(
    path: &Path,
    options: &CreateOptions,
    progress: Progress<'_>,
    plan: Plan<'_>,
    make: Make<'_, T>,
) -> Result<T> {
    let size = options.size.ok_or_else(|| Error::Refused {
        path: path.to_owned(),
        problem: "does not exist".into(),
        advice: "give a size to create an image file",
    })?;
    plan(Arc::new(Planned {
        path: path.to_owned(),
        size: size / 512 * 512,
    }))?;
    let preallocate = match options.preallocate {
        Preallocation::Sparse => Preallocate::Sparse,
        Preallocation::Reserve => Preallocate::Reserve,
        Preallocation::Written => Preallocate::Written(progress),
    };
    let device = FileDevice::create(path, size, preallocate, IoMode::Direct)?;
    make(Arc::new(device)).inspect_err(|_| {
        // The first error is the one worth reporting.
        let _ = std::fs::remove_file(path);
    })
}

fn format_existing<T>(
    path: &Path,
    options: &CreateOptions,
    plan: Plan<'_>,
    make: Make<'_, T>,
) -> Result<T> {
    let device = Arc::new(open_device(path, OpenMode::ReadWrite, IoMode::Direct)?);
    let refused = |problem: String, advice| Error::Refused {
        path: path.to_owned(),
        problem,
        advice,
    };
    let size = device.geometry().size;
    if options.size.is_some_and(|wanted| wanted != size) {
        let problem = format!("exists already and has {size} bytes");
        return Err(refused(problem, "leave the size out to use it as it is"));
    }
    plan(Arc::clone(&device) as Arc<dyn Device>)?;
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
    make(device)
}

fn make_virtual_log(
    device: Arc<dyn Device>,
    options: &CreateOptions,
) -> Result<vlfs::format::Superblock> {
    let clock: Arc<dyn Clock> = Arc::new(HostClock::default());
    let medium: Arc<dyn Medium> = Arc::new(InOrder(device));
    let superblock = vlfs::format(&*medium, &*clock, &virtual_log_options(options))?;
    let mount = vlfs::VlfsMountOptions {
        owner: host::identity(),
        ..vlfs::VlfsMountOptions::default()
    };
    let layout = vlfs::Vlfs::mount(medium, Arc::clone(&clock), mount)?;
    let owner = options.root_owner.unwrap_or_else(host::user_and_group);
    FileSystem::format(&layout, &*clock, owner).map_err(Error::tree("make the root directory"))?;
    layout.unmount()?;
    Ok(superblock)
}

fn virtual_log_options(options: &CreateOptions) -> vlfs::VlfsFormatOptions {
    vlfs::VlfsFormatOptions {
        block_bytes: options.block_bytes,
        label: options.label.clone(),
        case_fold: options.case_fold,
        ..vlfs::VlfsFormatOptions::default()
    }
}

/// Makes a volume on any device, whatever it holds.
///
/// # Errors
/// As [`format()`].
pub fn format_device(device: Arc<dyn Device>, options: &CreateOptions) -> Result<Superblock> {
    let clock: Arc<dyn Clock> = Arc::new(HostClock::default());
    Lfs::format(&*device, &*clock, &layout_options(options))?;
    let mount = MountOptions {
        owner: host::identity(),
        ..MountOptions::default()
    };
    let layout = Lfs::mount(device, Arc::clone(&clock), mount)?;
    let owner = options.root_owner.unwrap_or_else(host::user_and_group);
    FileSystem::format(&layout, &*clock, owner).map_err(Error::tree("make the root directory"))?;
    layout.unmount()?;
    Ok(*layout.superblock())
}

fn layout_options(options: &CreateOptions) -> FormatOptions {
    FormatOptions {
        block_bytes: options.block_bytes,
        segment_bytes: options.segment_bytes,
        inode_bytes: options.inode_bytes,
        label: options.label.clone(),
        case_fold: options.case_fold,
        ..FormatOptions::default()
    }
}

/// An image that does not exist yet, to ask what volume it would hold.
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

    #[test]
    fn too_small_an_image_is_refused_before_it_exists() {
        let host = tempfile::tempdir().unwrap();
        let path = host.path().join("tiny");
        let error = format(&path, &CreateOptions::new(64 << 10), &mut |_, _| {}).unwrap_err();
        assert!(error.to_string().contains("use a larger device"), "{error}");
        assert!(!path.exists());
    }

    #[test]
    fn data_is_overwritten_on_request_only() {
        let host = tempfile::tempdir().unwrap();
        let path = host.path().join("image");
        std::fs::write(&path, vec![b'x'; 16 << 20]).unwrap();
        let options = CreateOptions::default();
        let refused = format(&path, &options, &mut |_, _| {}).unwrap_err();
        assert!(matches!(refused, Error::Refused { .. }), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), vec![b'x'; 16 << 20]);
        let forced = CreateOptions {
            overwrite: true,
            ..options
        };
        format(&path, &forced, &mut |_, _| {}).unwrap();
        let again = format(&path, &CreateOptions::default(), &mut |_, _| {}).unwrap_err();
        assert!(
            again.to_string().contains("holds a Varve volume"),
            "{again}"
        );
    }

    #[test]
    fn a_blank_image_is_used_as_it_is() {
        let host = tempfile::tempdir().unwrap();
        let path = host.path().join("image");
        std::fs::File::create(&path)
            .unwrap()
            .set_len(32 << 20)
            .unwrap();
        let wrong = CreateOptions::new(16 << 20);
        assert!(format(&path, &wrong, &mut |_, _| {}).is_err());
        let superblock = format(&path, &CreateOptions::default(), &mut |_, _| {}).unwrap();
        assert_eq!(superblock.device_bytes.get(), 32 << 20);
    }
}
