//! Ends a session from any thread.

use crate::{apart, mount};
use parking_lot::{Condvar, Mutex};
use rustix::fs::{Mode, OFlags};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a mount in use is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// Unmounts a session. Clones mean the same session.
#[derive(Clone)]
pub struct Unmounter {
    shared: Arc<Shared>,
}

struct Shared {
    /// Nothing if another process mounted it.
    mountpoint: Option<PathBuf>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The session has ended: the path is no longer ours to unmount.
    finished: bool,
    /// Do not wait for those who use the mount.
    hurry: bool,
    /// The connection was cut. The transport sees only that it ended.
    cut: bool,
}

impl Unmounter {
    pub(crate) fn new(mountpoint: Option<PathBuf>) -> Self {
        let shared = Shared {
            mountpoint,
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        };
        Unmounter {
            shared: Arc::new(shared),
        }
    }

    /// Where the session is mounted, if it mounted itself.
    pub fn mountpoint(&self) -> Option<&Path> {
        self.shared.mountpoint.as_deref()
    }

    fn own_mountpoint(&self) -> io::Result<&Path> {
        let other = || io::Error::other("another process mounted it");
        self.mountpoint().ok_or_else(other)
    }

    /// Unmounts. The kernel hands over what it holds back, so the session
    /// must be running; it ends afterwards.
    ///
    /// # Errors
    /// EBUSY while files are open or somebody's working directory is inside.
    pub fn unmount(&self) -> io::Result<()> {
        apart::run(|| self.try_unmount())
    }

    /// Our own mount is not asked whether its server is alive.
    fn try_unmount(&self) -> io::Result<()> {
        if self.shared.state.lock().finished {
            return Ok(());
        }
        mount::plain_unmount(self.own_mountpoint()?)
    }

    /// Unmounts; while the mount is in use tries again until `grace` has
    /// passed, then has the kernel write back and cuts the connection.
    ///
    /// # Errors
    /// Those of umount(2), but for EBUSY.
    pub fn shut_down(&self, grace: Duration) -> io::Result<()> {
        apart::run(|| self.unmount_or_cut(grace))
    }

    fn unmount_or_cut(&self, grace: Duration) -> io::Result<()> {
        let deadline = Instant::now() + grace;
        loop {
            match self.try_unmount() {
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {}
                other => return other,
            }
            let mut state = self.shared.state.lock();
            if !state.hurry && Instant::now() < deadline {
                let next = deadline.min(Instant::now() + RETRY);
                self.shared.changed.wait_until(&mut state, next);
            }
            if state.finished {
                return Ok(());
            }
            if state.hurry || Instant::now() >= deadline {
                break;
            }
        }
        tracing::warn!(mountpoint = %self.own_mountpoint()?.display(), "still in use: cutting the connection");
        self.write_back();
        self.cut()
    }

    /// Cuts the connection: those who use the mount get ENOTCONN.
    pub(crate) fn cut(&self) -> io::Result<()> {
        self.shared.state.lock().cut = true;
        mount::abort(self.own_mountpoint()?)
    }

    /// True if the connection was cut from this side.
    pub(crate) fn was_cut(&self) -> bool {
        self.shared.state.lock().cut
    }

    /// Ends the grace of a [`Unmounter::shut_down`] under way.
    pub fn hurry(&self) {
        self.shared.state.lock().hurry = true;
        self.shared.changed.notify_all();
    }

    /// Waits until the session has ended. False if `timeout` passed first.
    pub fn wait(&self, timeout: Duration) -> bool {
        let mut state = self.shared.state.lock();
        let deadline = Instant::now() + timeout;
        while !state.finished {
            if self
                .shared
                .changed
                .wait_until(&mut state, deadline)
                .timed_out()
            {
                return state.finished;
            }
        }
        true
    }

    /// Has the kernel write its dirty pages back, best effort.
    fn write_back(&self) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = self.mountpoint();
        let root = root.map(|root| rustix::fs::open(root, flags, Mode::empty()));
        if let Some(Ok(root)) = root {
            let _ = rustix::fs::syncfs(root);
        }
    }

    pub(crate) fn finish(&self) {
        self.shared.state.lock().finished = true;
        self.shared.changed.notify_all();
    }
}
