//! Volumes on the virtual log: opened by path, served by front ends, closed.
//!
//! The facade's files-by-path ([`crate::Volume`]) is that of the segmented log;
//! a volume on the virtual log is used through its [`FileSystem`] or a mount.

use crate::background::{IDLE, QUIET, Signal, requests_of};
use crate::error::{Error, Result};
use crate::format::{Found, VIRTUAL_LOG, probe};
use crate::host;
use crate::options::OpenOptions;
use crate::unlocked::Unlocked;
use crate::volume::open_device;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use varve_device::{Clock, HostClock, OpenError, OpenMode};
use varve_fs::FileSystem;
use varve_lfs::vlfs::format::Superblock;
use varve_lfs::vlfs::{Vlfs, VlfsMountOptions};
use varve_vlog::{InOrder, Medium};

/// Bytes that the compactor moves in one look of the background thread.
const COMPACT_BYTES: u64 = 4 << 20;

/// True if the image or device begins like a volume on the virtual log, or
/// ends like one and begins like nothing that is known: what was made over such
/// a volume may leave its last block as it was.
pub fn is_virtual_log(path: &Path) -> bool {
    let Ok(device) = Unlocked::open(path) else {
        return false;
    };
    match probe(&device) {
        Ok(Some(Found::Known(name))) => name == VIRTUAL_LOG,
        _ => Vlfs::find_superblock(&device).is_ok(),
    }
}

/// The superblock of a volume on the virtual log, read without locking it.
///
/// # Errors
/// `Layout` if there is no such volume, or what the host answers.
pub fn read_virtual_log_superblock(path: &Path) -> Result<Superblock> {
    Ok(Vlfs::find_superblock(&Unlocked::open(path)?)?)
}

/// An open volume on the virtual log. Dropping it closes it as
/// [`VirtualLogVolume::close`] does, but can only log errors.
pub struct VirtualLogVolume {
    fs: Arc<FileSystem<Vlfs>>,
    signal: Arc<Signal>,
    worker: Option<JoinHandle<()>>,
    closed: bool,
}

impl VirtualLogVolume {
    /// Opens the volume in an image file or block device; what was synced is
    /// recovered if it was not closed. Options of cleaners and heads mean
    /// nothing here.
    ///
    /// # Errors
    /// `InUse` names the holder, `Layout` says why it is no usable volume.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self> {
        let mode = match options.read_only {
            true => OpenMode::ReadOnly,
            false => OpenMode::ReadWrite,
        };
        let device = open_device(path, mode, options.io)?;
        device.set_discard(true);
        let superblock = Vlfs::find_superblock(&device)?;
        // Not before the lock is ours: the last holder may be about to let go.
        host::report_unclean(&device, Vlfs::read_owner(&device, &superblock)?);
        let (_, metadata_bytes) = options.cache_shares();
        let clock: Arc<dyn Clock> = Arc::new(HostClock::default());
        let medium: Arc<dyn Medium> = Arc::new(InOrder(device));
        let mount = VlfsMountOptions {
            read_only: options.read_only,
            cache_bytes: metadata_bytes,
            owner: host::identity(),
            ..VlfsMountOptions::default()
        };
        let layout = Vlfs::mount(medium, Arc::clone(&clock), mount)?;
        let fs = FileSystem::mount(layout, clock, options.tree())
            .map_err(Error::tree("open the tree"))?;
        let mut volume = VirtualLogVolume {
            fs: Arc::new(fs),
            signal: Arc::default(),
            worker: None,
            closed: false,
        };
        if options.background {
            volume.start(options.compact).map_err(|source| {
                Error::Open(OpenError::Io {
                    path: path.to_owned(),
                    action: "start a thread for",
                    source,
                })
            })?;
        }
        Ok(volume)
    }

    /// One thread writes back and takes checkpoints; with `compact` it compacts
    /// while nobody asks for anything.
    fn start(&mut self, compact: bool) -> std::io::Result<()> {
        let (fs, signal) = (Arc::clone(&self.fs), Arc::clone(&self.signal));
        let work = move || {
            // Writing out must never wait for memory that only it can free.
            let _ = rustix::process::configure_io_flusher_behavior(true);
            let mut idle = Idle::default();
            while signal.wait(IDLE) {
                let written = loop {
                    match fs.write_back() {
                        Ok(true) if !signal.stopping() => {}
                        other => break other,
                    }
                };
                if let Err(error) = written.and_then(|_| fs.maintain()) {
                    tracing::warn!(%error, "write-back failed");
                }
                if let Some(reason) = fs.layout().stopped() {
                    fs.refuse_changes(&reason);
                }
                if compact && idle.look(&fs) {
                    idle.compact(&fs, &signal);
                }
            }
        };
        let named = std::thread::Builder::new().name("varve-write".into());
        self.worker = Some(named.spawn(work)?);
        let waker = Arc::clone(&self.signal);
        self.fs.set_waker(Box::new(move || waker.wake()));
        Ok(())
    }

    /// The file system.
    pub fn file_system(&self) -> &Arc<FileSystem<Vlfs>> {
        &self.fs
    }

    /// Why the volume takes no changes, if it does not.
    pub fn read_only_reason(&self) -> Option<String> {
        self.fs.layout().stopped()
    }

    /// Makes everything durable, takes a checkpoint and marks the volume as
    /// closed.
    ///
    /// # Errors
    /// What made a write fail, now or before.
    pub fn close(mut self) -> Result<()> {
        self.close_once()
    }

    /// Leaves the volume as a crash would.
    pub fn abandon(mut self) {
        self.closed = true;
        self.stop();
    }

    fn stop(&mut self) {
        self.signal.stop();
        if let Some(worker) = self.worker.take()
            && worker.join().is_err()
        {
            tracing::error!("a background thread panicked");
        }
    }

    fn close_once(&mut self) -> Result<()> {
        self.closed = true;
        self.stop();
        self.fs.unmount().map_err(Error::tree("close"))?;
        Ok(self.fs.layout().unmount()?)
    }
}

impl Drop for VirtualLogVolume {
    fn drop(&mut self) {
        if !self.closed
            && let Err(error) = self.close_once()
        {
            tracing::error!(%error, "a volume on the virtual log was not closed cleanly");
        }
    }
}

/// Whether nobody asks for anything, and what is done then.
#[derive(Default)]
struct Idle {
    requests: u64,
    quiet: u32,
    failed: bool,
}

impl Idle {
    /// True once so many looks in a row have found no request.
    fn look(&mut self, fs: &FileSystem<Vlfs>) -> bool {
        let requests = requests_of(fs);
        let before = std::mem::replace(&mut self.requests, requests);
        self.quiet = match requests == before {
            true => self.quiet.saturating_add(1),
            false => 0,
        };
        self.quiet >= QUIET && !self.failed
    }

    /// A step of the compactor; it ends as soon as somebody asks for something.
    fn compact(&mut self, fs: &FileSystem<Vlfs>, signal: &Signal) {
        let layout = fs.layout();
        let most = COMPACT_BYTES / u64::from(layout.superblock().unit_bytes.get());
        let may = |_| !signal.stopping() && requests_of(fs) == self.requests;
        if let Err(error) = layout.compact(most, &may) {
            tracing::error!(%error, "cannot compact, and will not until the next mount");
            self.failed = true;
        }
    }
}
