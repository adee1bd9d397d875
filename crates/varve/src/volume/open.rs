//! Creating, opening and closing a volume.

use super::{Mounted, Volume};
use crate::background::Service;
use crate::error::{Error, Result};
use crate::format::{Found, VARVE, probe};
use crate::host;
use crate::options::{CreateOptions, OpenOptions};
use crate::unlocked::Unlocked;
use crate::verifier::Verifier;
use std::path::Path;
use std::sync::Arc;
use varve_device::{
    Clock, Device, FileDevice, HostClock, Lanes, MemoryDevice, OpenError, OpenMode,
};
use varve_fs::FileSystem;
use varve_lfs::cleaner::Pace;
use varve_lfs::format::Superblock;
use varve_lfs::{Lfs, MountOptions};

impl Volume {
    /// Makes a volume in `path` and opens it with the defaults. An image file
    /// is created; a block device or blank image file is taken as it is.
    ///
    /// ```
    /// # let host = tempfile::tempdir()?;
    /// let image = host.path().join("new.varve");
    /// let volume = varve::Volume::create(&image, &varve::CreateOptions::new(32 << 20))?;
    /// volume.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Refused` if something is there already, `InUse`, or what the host
    /// answers. No new file is left behind.
    pub fn create(path: impl AsRef<Path>, options: &CreateOptions) -> Result<Self> {
        crate::format::format(path.as_ref(), options, &mut |_, _| {})?;
        Self::open(path, &OpenOptions::default())
    }

    /// Opens the volume in an image file or block device. If it was not
    /// closed, what was synced is recovered first.
    ///
    /// # Errors
    /// `InUse` names the holder, `Layout` says why it is no usable volume. A
    /// damaged log is no error: the volume is then read-only, and
    /// [`Volume::recovery_report`] says what is lost.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let path = path.as_ref();
        let mode = match options.read_only {
            true => OpenMode::ReadOnly,
            false => OpenMode::ReadWrite,
        };
        let device = open_device(path, mode, options.io)?;
        if let Some(note) = device.note() {
            tracing::info!(volume = %path.display(), "{note}");
        }
        // Whether segments are told as they become clean is the log's affair.
        device.set_discard(true);
        Self::open_on(Arc::new(device), options)
    }

    /// A new volume of `size` bytes in memory, for tests. It has no threads of
    /// its own and is gone when it is closed.
    ///
    /// ```
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// volume.write("/greeting", b"hello")?;
    /// assert_eq!(volume.read("/greeting")?, b"hello");
    /// # Ok::<(), varve::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Layout` if the size is too small.
    pub fn in_memory(size: u64) -> Result<Self> {
        let device = Arc::new(MemoryDevice::new(size / 512 * 512));
        crate::format::format_device(device.clone(), &CreateOptions::default())?;
        let options = OpenOptions {
            background: false,
            read_ahead_threads: 0,
            ..OpenOptions::default()
        };
        Self::open_on(device, &options)
    }

    /// Opens the volume on any device.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub fn open_on(device: Arc<dyn Device>, options: &OpenOptions) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(HostClock::default());
        let superblock = find_superblock(&*device)?;
        host::report_unclean(&*device, Lfs::read_owner(&*device, &superblock)?);
        let (_, metadata_bytes) = options.cache_shares();
        let mount = MountOptions {
            read_only: options.read_only,
            cache_bytes: metadata_bytes,
            discard: options.discard,
            policy: options.cleaner_policy,
            heads: options.heads,
            holes: options.holes,
            pace: Pace {
                threaded: options.background,
                ..options.cleaner
            },
            owner: host::identity(),
            write_threads: if options.background { 2 } else { 0 },
            read_threads: if options.background { 2 } else { 0 },
            ..MountOptions::default()
        };
        let layout = Lfs::mount(Arc::clone(&device), Arc::clone(&clock), mount)?;
        for damage in &layout.recovery_report().damage {
            tracing::error!(volume = %device.name(), "{damage}; the volume is read-only");
        }
        let fs = FileSystem::mount(layout, clock, options.tree())
            .map_err(Error::tree("open the tree"))?;
        let fs = Arc::new(fs);
        let verifier = Arc::new(Verifier::default());
        let service = match options.background {
            true => Some(
                Service::start(&fs, &verifier, options.coalesce).map_err(|source| {
                    Error::Open(OpenError::Io {
                        path: device.name().into(),
                        action: "start threads for",
                        source,
                    })
                })?,
            ),
            false => None,
        };
        if options.background && options.verify && varve_fsck::verify::is_wanted(fs.layout()) {
            verifier.start_tree();
        }
        let mounted = || Mounted {
            fs: Arc::clone(&fs),
            device: Arc::clone(&device),
            caller: options.caller(),
        };
        Ok(Volume {
            mounted: Lanes::new(|| Arc::new(mounted())),
            service,
            verifier,
            closed: false,
        })
    }

    /// Makes everything durable, takes a checkpoint and marks the volume as
    /// closed. Files that are still open can only be read afterwards; the
    /// image stays locked until they are dropped.
    ///
    /// # Errors
    /// What made a write fail, now or before. The volume is closed anyway and
    /// will be recovered when it is opened again.
    pub fn close(mut self) -> Result<()> {
        self.close_once()
    }

    /// Leaves the volume as a crash would: nothing more is written, and the
    /// next to open it recovers. For front ends that no longer trust what they
    /// hold in memory, and for tests.
    pub fn abandon(mut self) {
        self.closed = true;
        drop(self.service.take());
    }

    fn close_once(&mut self) -> Result<()> {
        self.closed = true;
        if let Some(mut service) = self.service.take() {
            service.stop();
        }
        self.fs().unmount().map_err(Error::tree("close"))?;
        Ok(self.layout().unmount()?)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if !self.closed
            && let Err(error) = self.close_once()
        {
            tracing::error!(volume = %self.mounted.device.name(), %error, "not closed cleanly");
        }
    }
}

/// The superblock of a volume, read without locking it: it never changes while
/// the volume is in use.
///
/// # Errors
/// `Layout` if there is no volume, or what the host answers.
pub fn read_superblock(path: impl AsRef<Path>) -> Result<Superblock> {
    find_superblock(&Unlocked::open(path.as_ref())?)
}

/// Opens an image or device, naming the holder if it is in use.
///
/// # Errors
/// As [`Volume::open`].
pub fn open_device(path: &Path, mode: OpenMode, io: varve_device::IoMode) -> Result<FileDevice> {
    FileDevice::open(path, mode, io).map_err(|error| match error {
        OpenError::InUse { path: in_use } => Error::InUse {
            holder: host::holder(path).map(Box::new),
            path: in_use,
        },
        other => Error::Open(other),
    })
}

/// Says what is there instead, where there is no volume.
fn find_superblock(device: &dyn Device) -> Result<Superblock> {
    let missing = match Lfs::find_superblock(device) {
        Ok(superblock) => return Ok(superblock),
        Err(error) => error,
    };
    match probe(device)? {
        Some(Found::Known(name)) if name != VARVE => Err(Error::Refused {
            path: device.name().into(),
            problem: format!("holds {name}, not a Varve volume"),
            advice: "name another image, or make a volume with mkfs",
        }),
        _ => Err(missing.into()),
    }
}
