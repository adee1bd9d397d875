//! A mount from beginning to end.

use crate::adapter::{Adapter, Outcome};
use crate::bdi::Bdi;
use crate::device;
use crate::end::End;
use crate::kernel::Kernel;
use crate::options::MountOptions;
use crate::pool::{Pool, deliver};
use crate::protocol::REQUEST_BYTES;
use crate::reply::Reply;
use crate::ring::{self, Crew, Post, Queue};
use crate::transport::{DevFuse, Received, Transport};
use crate::unmounter::Unmounter;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve_fs::{FileSystem, Layout};

/// The kernel may hold back one part in so many of the volume.
const HELD_SHARE: u64 = 64;
/// Room is kept for so many times what the kernel may hold back: writers go on
/// until they are told, and metadata takes its part.
const KEPT_FACTOR: u64 = 2;

/// A mounted file system, ready to be served.
pub struct Session<L: Layout> {
    adapter: Arc<Adapter<L>>,
    transport: Arc<DevFuse>,
    /// Where requests come over io_uring.
    posts: Vec<Post>,
    unmounter: Unmounter,
    threads_max: usize,
    served: bool,
}

impl<L: Layout> Session<L> {
    /// Mounts `fs` at `mountpoint` and agrees with the kernel on the
    /// protocol. Nothing is served before [`Session::run`]: until then,
    /// whoever touches the mount waits.
    ///
    /// # Errors
    /// If the mount point is no directory, the mount is refused, or the
    /// kernel is too old.
    pub fn new(
        fs: Arc<FileSystem<L>>,
        mountpoint: &Path,
        options: MountOptions,
    ) -> io::Result<Self> {
        let mountpoint = std::fs::canonicalize(mountpoint)?;
        if !mountpoint.is_dir() {
            return Err(rustix::io::Errno::NOTDIR.into());
        }
        if options.uring {
            ring::allow();
        }
        let device = device::mount(&mountpoint, &options)?;
        let bdi = Bdi::of(&mountpoint);
        Self::begin(fs, device, Some(mountpoint), bdi, options)
    }

    /// Agrees with the kernel on the protocol over a device that another process
    /// has mounted ([`crate::mount_device`]). Its mount has the device number
    /// `number`, such as `0:52`. The session ends when that process, or whoever
    /// comes to have the mount, unmounts it.
    ///
    /// # Errors
    /// If the kernel is too old, or the device is none or not mounted.
    pub fn on(
        fs: Arc<FileSystem<L>>,
        device: OwnedFd,
        number: &str,
        options: MountOptions,
    ) -> io::Result<Self> {
        let bdi = Bdi::of_device(number);
        Self::begin(fs, device, None, Some(bdi), options)
    }

    fn begin(
        fs: Arc<FileSystem<L>>,
        device: OwnedFd,
        mountpoint: Option<PathBuf>,
        bdi: Option<Bdi>,
        mut options: MountOptions,
    ) -> io::Result<Self> {
        let transport = Arc::new(DevFuse::new(device));
        let posts = match options.uring {
            true => ring::posts(&transport, options.threads_max).unwrap_or_else(|error| {
                tracing::debug!(%error, "no FUSE over io_uring");
                Vec::new()
            }),
            false => Vec::new(),
        };
        options.uring = !posts.is_empty();
        let adapter = Arc::new(Adapter::new(fs, &options));
        let unmounter = Unmounter::new(mountpoint);
        let threads_max = options.threads_max;
        let mut session = Session {
            adapter,
            transport,
            posts,
            unmounter,
            threads_max,
            served: false,
        };
        session.initialise()?;
        if !session.adapter.over_io_uring() {
            session.posts.clear();
        }
        session.turn_knobs(&options, bdi);
        Ok(session)
    }

    /// What INIT cannot say: how far to read ahead, and how much to hold back.
    fn turn_knobs(&self, options: &MountOptions, bdi: Option<Bdi>) {
        let fs = self.adapter.file_system();
        if let Some(bdi) = &bdi {
            bdi.set_read_ahead(options.read_ahead_kib);
        }
        if !self.adapter.write_back() {
            fs.keep_room(0);
            return;
        }
        let block_bytes = u64::from(fs.layout().geometry().block_bytes);
        let share = fs.statfs().blocks.saturating_mul(block_bytes) / HELD_SHARE;
        let wanted = options.held_bytes_max.min(share);
        let held = bdi.map_or(wanted, |bdi| bdi.bound_dirty(wanted));
        fs.keep_room(KEPT_FACTOR * held);
    }

    /// Answers INIT, which always comes first.
    fn initialise(&self) -> io::Result<()> {
        let mut buffer = vec![0; REQUEST_BYTES];
        let mut reply = Reply::new();
        while !self.adapter.is_initialised() {
            let Received::Request(bytes) = self.transport.receive(&mut buffer)? else {
                let what = "it was unmounted before anything was served";
                return Err(io::Error::new(io::ErrorKind::NotConnected, what));
            };
            let (unique, outcome) = self.adapter.handle(&buffer[..bytes], &mut reply);
            let refusal = match outcome {
                Outcome::Error(errno) => Some(io::Error::from_raw_os_error(errno.0)),
                _ => None,
            };
            deliver(&*self.transport, &*self.adapter, unique, &outcome, &reply);
            if let Some(error) = refusal {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Something that unmounts this session from any thread.
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// What translates the requests, and counts them.
    pub fn adapter(&self) -> Arc<Adapter<L>> {
        Arc::clone(&self.adapter)
    }

    /// The kernel, to be told what does not come through this mount.
    pub fn kernel(&self) -> Kernel<L> {
        Kernel {
            adapter: Arc::clone(&self.adapter),
            transport: Arc::clone(&self.transport),
            mountpoint: self.unmounter.mountpoint().map(Path::to_owned),
        }
    }

    /// Serves the mount until it is unmounted, then unmounts the file system.
    ///
    /// # Errors
    /// If the transport, a serving thread or the file system's own unmount
    /// fails. After a panic in a serving thread the connection is cut and the
    /// file system is left as after a crash.
    pub fn run(self) -> io::Result<End> {
        let adapter = self.adapter();
        let (ended, panicked) = self.serve_all();
        if panicked {
            return ended;
        }
        if adapter.is_down() {
            return Ok(End::ShutDown);
        }
        let unmounted = adapter.file_system().unmount();
        unmounted.map_err(io::Error::other)?;
        ended
    }

    /// Serves the mount until it is unmounted, and leaves the file system as it
    /// is then.
    ///
    /// # Errors
    /// If the transport or a serving thread fails.
    pub fn serve(self) -> io::Result<End> {
        self.serve_all().0
    }

    /// True besides if serving a request panicked.
    fn serve_all(mut self) -> (io::Result<End>, bool) {
        self.served = true;
        let cut = || {
            let _ = self.unmounter.cut();
        };
        let (crews, queues): (Vec<Crew>, Vec<Vec<Queue>>) =
            mem::take(&mut self.posts).into_iter().unzip();
        let pool = Pool::new(
            &*self.transport,
            &crews,
            &*self.adapter,
            self.threads_max,
            &cut,
        );
        let mut ended = pool.run(queues);
        if matches!(ended, Ok(End::Unmounted)) && self.unmounter.was_cut() {
            ended = Ok(End::Aborted);
        }
        self.unmounter.finish();
        if !matches!(ended, Ok(End::Unmounted)) {
            // The mount may still be in the tree, dead.
            cut();
        }
        (ended, pool.panicked())
    }
}

impl<L: Layout> Drop for Session<L> {
    fn drop(&mut self) {
        if !self.served {
            let _ = self.unmounter.cut();
            self.unmounter.finish();
        }
    }
}
