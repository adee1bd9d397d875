//! A mount from beginning to end.

use crate::adapter::{Adapter, Outcome};
use crate::device;
use crate::mount::MountOptions;
use crate::pool::{Pool, deliver};
use crate::protocol::REQUEST_BYTES;
use crate::reply::Reply;
use crate::transport::{DevFuse, Received, Transport};
use crate::unmounter::Unmounter;
use std::io;
use std::path::Path;
use std::sync::Arc;
use varve_fs::{FileSystem, Layout};

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By an unmount: the kernel held nothing back.
    Unmounted,
    /// The connection was cut: what the kernel still held is lost.
    Aborted,
}

/// A mounted file system, ready to be served.
pub struct Session<L: Layout> {
    adapter: Arc<Adapter<L>>,
    transport: DevFuse,
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
        let transport = DevFuse::new(device::mount(&mountpoint, &options)?);
        let adapter = Arc::new(Adapter::new(fs, &options));
        let unmounter = Unmounter::new(mountpoint);
        let threads_max = options.threads_max;
        let session = Session {
            adapter,
            transport,
            unmounter,
            threads_max,
            served: false,
        };
        session.initialise()?;
        device::set_read_ahead(session.unmounter.mountpoint(), options.read_ahead_kib);
        Ok(session)
    }

    /// Answers INIT, which always comes first.
    fn initialise(&self) -> io::Result<()> {
        let mut buffer = vec![0; REQUEST_BYTES];
        let mut reply = Reply::new();
        while !self.adapter.is_initialised() {
            let Received::Request(bytes) = self.transport.receive(&mut buffer)? else {
                return Err(rustix::io::Errno::NOTCONN.into());
            };
            let (unique, outcome) = self.adapter.handle(&buffer[..bytes], &mut reply);
            let refusal = match outcome {
                Outcome::Error(errno) => Some(io::Error::from_raw_os_error(errno.0)),
                _ => None,
            };
            deliver(&self.transport, &*self.adapter, unique, &outcome, &reply);
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

    /// Serves the mount until it is unmounted, then unmounts the file system.
    ///
    /// # Errors
    /// If the transport, a serving thread or the file system's own unmount
    /// fails. After a panic in a serving thread the connection is cut and the
    /// file system is left as after a crash.
    pub fn run(mut self) -> io::Result<End> {
        self.served = true;
        let cut = || {
            let _ = self.unmounter.cut();
        };
        let pool = Pool::new(&self.transport, &*self.adapter, self.threads_max, &cut);
        let mut ended = pool.run();
        if matches!(ended, Ok(End::Unmounted)) && self.unmounter.was_cut() {
            ended = Ok(End::Aborted);
        }
        self.unmounter.finish();
        if !matches!(ended, Ok(End::Unmounted)) {
            // The mount may still be in the tree, dead.
            cut();
        }
        if pool.panicked() {
            return ended;
        }
        self.adapter
            .file_system()
            .unmount()
            .map_err(io::Error::other)?;
        ended
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
