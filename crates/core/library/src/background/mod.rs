//! The threads of an open volume, one module for each layout.
//!
//! Invariant: after [`Threads`] is dropped, no thread uses the volume.

mod in_place;
mod log;
mod virtual_log;

pub(crate) use in_place::start as start_in_place;
pub(crate) use log::start as start_log;
pub(crate) use virtual_log::start as start_virtual_log;

use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use varve_fs::{FileSystem, Layout};

/// Interval of maintenance for an idle volume.
const IDLE: Duration = Duration::from_secs(1);
/// Number of intervals without a request after which a volume counts as idle.
const QUIET: u32 = 10;

/// Wakes one thread, or stops it.
#[derive(Default)]
struct Signal {
    woken: Mutex<bool>,
    changed: Condvar,
    stopping: AtomicBool,
}

impl Signal {
    fn wake(&self) {
        *self.woken.lock() = true;
        self.changed.notify_one();
    }

    /// Waits for a wake-up or for `timeout`. Returns false when the thread must exit.
    fn wait(&self, timeout: Duration) -> bool {
        let mut woken = self.woken.lock();
        if !*woken && !self.stopping() {
            self.changed.wait_for(&mut woken, timeout);
        }
        *woken = false;
        !self.stopping()
    }

    /// Waits for a wake-up. Returns false when the thread must exit.
    fn wait_woken(&self) -> bool {
        let mut woken = self.woken.lock();
        while !*woken && !self.stopping() {
            self.changed.wait(&mut woken);
        }
        *woken = false;
        !self.stopping()
    }

    fn stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    fn stop(&self) {
        self.stopping.store(true, Relaxed);
        self.wake();
    }
}

/// Running threads. Dropping this stops them and waits for their exit.
pub(crate) struct Threads {
    stop: Box<dyn Fn() + Send>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Creates the empty set; `stop` asks all threads to exit.
    fn new(stop: impl Fn() + Send + 'static) -> Self {
        Threads {
            stop: Box::new(stop),
            threads: Vec::new(),
        }
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let run = move || {
            // Write-back must never wait for memory that only write-back can free.
            let _ = rustix::process::configure_io_flusher_behavior(true);
            work();
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        (self.stop)();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a background thread panicked");
            }
        }
    }
}

/// Returns the number of requests from users so far.
fn requests_of<L: Layout>(fs: &FileSystem<L>) -> u64 {
    let s = fs.statistics();
    let changes = s.creates + s.unlinks + s.renames + s.setattrs + s.fsyncs;
    s.lookups + s.reads + s.writes + changes
}
