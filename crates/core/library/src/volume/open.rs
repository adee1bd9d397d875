//! Creates, opens and closes a volume.

use super::Volume;
use crate::background::{Threads, start_in_place, start_log, start_virtual_log};
use crate::devices::{Superblock, find_superblock, open_file};
use crate::error::{Cause, Error, Result};
use crate::host;
use crate::mounted::{Mounted, Running};
use crate::options::VolumeOptions;
use crate::store;
use crate::tree::Tree;
use crate::verifier::Verifier;
use std::io;
use std::path::Path;
use std::sync::Arc;
use varve_device::{Clock, Device, HostClock, Lanes, MemoryDevice, OpenMode};
use varve_ffs::{Ffs, FfsMountOptions};
use varve_fs::FileSystem;
use varve_lfs::cleaner::Pace;
use varve_lfs::{Lfs, MountOptions};
use varve_vlfs::{Vlfs, VlfsMountOptions};
use varve_vlog::{InOrder, Medium};

impl VolumeOptions {
    /// Creates a volume in `path` and opens it. An image file is created; an existing
    /// block device or blank image file is used with its size.
    ///
    /// # Errors
    /// `AlreadyExists` if the target contains data, `ResourceBusy` if it is in use,
    /// `InvalidInput` if the options give no volume, and errors of the host. No new file
    /// is left behind.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<Volume> {
        let path = path.as_ref();
        crate::format::format(path, self, &mut |_, _| {})?;
        self.open(path)
    }

    /// Opens the volume in an image file or block device, of any layout. If it was not
    /// closed, synced changes are recovered first. Options for creation are ignored.
    ///
    /// # Errors
    /// `ResourceBusy` with the holder, `InvalidData` if there is no usable volume. A
    /// damaged log is not an error: the volume is then read-only, and
    /// [`Volume::read_only_reason`] returns the cause.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Volume> {
        Volume::open_with(path.as_ref(), self)
    }
}

impl Volume {
    /// Opens the volume in an image file or block device with the defaults.
    /// [`VolumeOptions::open`] takes options.
    ///
    /// # Errors
    /// The same as [`VolumeOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        VolumeOptions::new().open(path)
    }

    /// Creates a volume in a new image file of `bytes` bytes and opens it with the
    /// defaults. [`VolumeOptions::create`] takes options.
    ///
    /// ```
    /// # let host = tempfile::tempdir()?;
    /// # std::env::set_current_dir(&host)?;
    /// let volume = varve::Volume::create("new.img", 32 << 20)?;
    /// volume.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`VolumeOptions::create`].
    pub fn create(path: impl AsRef<Path>, bytes: u64) -> Result<Self> {
        VolumeOptions::new().size(bytes).create(path)
    }

    /// Creates a volume of `bytes` bytes in memory, for tests. It has no threads and is
    /// discarded when it is closed.
    ///
    /// ```
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// volume.write("/greeting", b"hello")?;
    /// assert_eq!(volume.read("/greeting")?, b"hello");
    /// # Ok::<(), varve::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` if the size is too small.
    pub fn in_memory(bytes: u64) -> Result<Self> {
        let mut options = VolumeOptions::new();
        options.background(false);
        options.tuning.read_ahead_threads = 0;
        let device = Arc::new(MemoryDevice::new(bytes / 512 * 512));
        crate::format::format_device(device.clone(), &options)?;
        Self::open_on(device, &options)
    }

    /// Opens the volume in an image or device of the host.
    pub(crate) fn open_with(path: &Path, options: &VolumeOptions) -> Result<Self> {
        let mode = match options.read_only {
            true => OpenMode::ReadOnly,
            false => OpenMode::ReadWrite,
        };
        if store::is_url(path) {
            let device = store::open(path, options.store, options.read_only)?;
            let mut options = options.clone();
            // Holes are filled by writing objects anew, and a discard frees objects.
            options.tuning.holes = false;
            options.tuning.discard = true;
            return Self::open_on(device, &options);
        }
        let device = open_file(path, mode, options.io)?;
        if let Some(note) = device.note() {
            tracing::info!(volume = %path.display(), "{note}");
        }
        // The layout decides whether freed space is discarded.
        device.set_discard(true);
        Self::open_on(Arc::new(device), options)
    }

    /// Opens the volume on any device.
    pub(crate) fn open_on(device: Arc<dyn Device>, options: &VolumeOptions) -> Result<Self> {
        let name = device.name();
        // This must follow the lock, because the previous holder may just be unmounting.
        let superblock = find_superblock(&*device)?;
        let owner = match &superblock {
            Superblock::Log(superblock) => Lfs::read_owner(&*device, superblock)?,
            Superblock::VirtualLog(superblock) => Vlfs::read_owner(&*device, superblock)?,
            Superblock::InPlace(superblock) => Ffs::read_owner(&*device, superblock)?,
        };
        host::report_unclean(&*device, owner);
        let verifier = Arc::default();
        let (tree, threads) = match superblock {
            Superblock::Log(_) => mount_log(device, options, &verifier),
            Superblock::VirtualLog(_) => mount_virtual_log(device, options),
            Superblock::InPlace(_) => mount_in_place(device, options),
        }?;
        let running = Running::new(tree, threads, verifier, name);
        let caller = options.caller();
        let mounted = || Arc::new(Mounted::new(&running, caller.clone()));
        Ok(Volume {
            lanes: Arc::new(Lanes::new(mounted)),
        })
    }

    /// Waits for running operations, makes everything durable, takes a checkpoint and
    /// marks the volume as closed. Returns the number of clones, files and listings that
    /// still exist: they fail from now on, and the image stays locked until they are
    /// dropped.
    ///
    /// If this is omitted, the volume is closed in the same manner when the last handle
    /// is dropped, but errors are only logged.
    ///
    /// ```
    /// use std::io::{ErrorKind::NotConnected, Write};
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// let mut file = volume.create_file("/left")?;
    /// assert_eq!(volume.clone().close()?, 2);
    /// assert_eq!(file.write(b"too late").unwrap_err().kind(), NotConnected);
    /// assert_eq!(volume.sync().unwrap_err().to_string(), "cannot sync: the volume was closed");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a write has failed now or before: the volume is closed anyway and is recovered
    /// when it is opened again. `NotConnected` if it was closed before, `InvalidInput`
    /// for the volume of a transaction or of a snapshot.
    pub fn close(self) -> Result<usize> {
        if self.mounted().is_private() {
            let problem = "it is a transaction's or a snapshot's: end that instead";
            return Err(Error::of_volume("close", Cause::Argument(problem)));
        }
        self.mounted().running().close(|| self.shut())?;
        let open = self.lanes.iter().map(|lane| Arc::strong_count(lane) - 1);
        Ok(open.sum::<usize>() + Arc::strong_count(&self.lanes) - 1)
    }

    /// Leaves the volume as after a crash: nothing more is written, and the next opening
    /// recovers. For front ends that no longer trust their memory, and for tests. Other
    /// handles fail from now on.
    pub fn abandon(self) {
        if self.mounted().is_private() {
            return;
        }
        self.mounted().running().abandon(|| self.shut());
    }

    fn shut(&self) {
        self.lanes.iter().for_each(|lane| lane.shut());
    }
}

fn mount_log(
    device: Arc<dyn Device>,
    options: &VolumeOptions,
    verifier: &Arc<Verifier>,
) -> Result<(Tree, Option<Threads>)> {
    let name = device.name();
    let clock: Arc<dyn Clock> = Arc::new(HostClock::default());
    let tuning = options.tuning;
    let threads = if options.background { 2 } else { 0 };
    let mount = MountOptions {
        read_only: options.read_only,
        cache_bytes: options.cache_shares().1,
        discard: tuning.discard,
        policy: tuning.cleaner_policy,
        holes: tuning.holes,
        pace: Pace {
            threaded: options.background,
            ..tuning.cleaner
        },
        owner: host::identity(),
        write_threads: threads,
        read_threads: threads,
        ..MountOptions::default()
    };
    let layout = Lfs::mount(device, Arc::clone(&clock), mount)?;
    for damage in &layout.recovery_report().damage {
        tracing::error!(volume = %name, "{damage}; the volume is read-only");
    }
    let fs = Arc::new(FileSystem::mount(Arc::new(layout), clock, options.tree()).map_err(no_tree)?);
    let mut threads = None;
    if options.background {
        let started = start_log(&fs, verifier);
        threads = Some(started.map_err(no_threads(&name))?);
        if tuning.verify && varve_fsck::verify::is_wanted(fs.layout()) {
            verifier.start_tree();
        }
    }
    Ok((Tree::Log(fs), threads))
}

fn mount_virtual_log(
    device: Arc<dyn Device>,
    options: &VolumeOptions,
) -> Result<(Tree, Option<Threads>)> {
    let name = device.name();
    let clock: Arc<dyn Clock> = Arc::new(HostClock::default());
    let medium: Arc<dyn Medium> = Arc::new(InOrder(device));
    let mount = VlfsMountOptions {
        read_only: options.read_only,
        cache_bytes: options.cache_shares().1,
        owner: host::identity(),
        ..VlfsMountOptions::default()
    };
    let layout = Vlfs::mount(medium, Arc::clone(&clock), mount)?;
    let fs = Arc::new(FileSystem::mount(Arc::new(layout), clock, options.tree()).map_err(no_tree)?);
    let threads = match options.background {
        true => {
            let started = start_virtual_log(&fs, options.tuning.compact);
            Some(started.map_err(no_threads(&name))?)
        }
        false => None,
    };
    Ok((Tree::VirtualLog(fs), threads))
}

fn mount_in_place(
    device: Arc<dyn Device>,
    options: &VolumeOptions,
) -> Result<(Tree, Option<Threads>)> {
    let name = device.name();
    let clock: Arc<dyn Clock> = Arc::new(HostClock::default());
    let mount = FfsMountOptions {
        read_only: options.read_only,
        cache_bytes: options.cache_shares().1,
        owner: host::identity(),
        ..FfsMountOptions::default()
    };
    let layout = Ffs::mount(device, Arc::clone(&clock), mount)?;
    let fs = Arc::new(FileSystem::mount(Arc::new(layout), clock, options.tree()).map_err(no_tree)?);
    let threads = match options.background {
        true => Some(start_in_place(&fs).map_err(no_threads(&name))?),
        false => None,
    };
    Ok((Tree::InPlace(fs), threads))
}

fn no_tree(error: varve_fs::Error) -> Error {
    Error::of_volume("open the tree", Cause::Tree(error))
}

fn no_threads(name: &str) -> impl FnOnce(io::Error) -> Error + '_ {
    move |error| Error::host(name.as_ref(), "start threads for", error)
}
