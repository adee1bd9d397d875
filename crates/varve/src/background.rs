//! The threads behind an open volume.
//!
//! One writes back: it is woken when too much is dirty and looks every second
//! for what has grown old. One maintains: checkpoints, cleaning, freeing. It
//! looks often while the log grows and once a second while it does not. They
//! are two so that a checkpoint never keeps dirty data waiting. A third
//! verifies ([`crate::verifier`]).
//!
//! Invariant: after [`Service::stop`] none touches the volume.

use crate::verifier::Verifier;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use varve_fs::{FileSystem, Layout};
use varve_lfs::Lfs;
use varve_lfs::policy::Coalescing;

/// How often an idle volume is looked at.
pub(crate) const IDLE: Duration = Duration::from_secs(1);
/// How often a volume whose log grows is looked at.
const BUSY: Duration = Duration::from_millis(50);
/// How often one that also runs out of clean segments is looked at: the
/// cleaner's rests are its own affair.
const PRESSED: Duration = Duration::from_millis(2);
/// Looks without a request after which a volume counts as idle.
pub(crate) const QUIET: u32 = 10;
/// Bytes put in order at a time, and how often in a look: a foreground request
/// meets one of them at most, and none takes more of a device than this a
/// second, twice (they are read and written).
const ORDER_BYTES: u64 = 1 << 20;
const ORDER_TIMES: u32 = 4;

/// Wakes one thread, or ends it.
#[derive(Default)]
pub(crate) struct Signal {
    woken: Mutex<bool>,
    changed: Condvar,
    stopping: AtomicBool,
}

impl Signal {
    pub(crate) fn wake(&self) {
        *self.woken.lock() = true;
        self.changed.notify_one();
    }

    /// Waits to be woken or for `timeout`. False once it is time to end.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let mut woken = self.woken.lock();
        if !*woken && !self.stopping() {
            self.changed.wait_for(&mut woken, timeout);
        }
        *woken = false;
        !self.stopping()
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Relaxed);
        self.wake();
    }
}

/// The running threads. Dropping it stops them.
pub(crate) struct Service {
    fs: Arc<FileSystem<Lfs>>,
    signals: [Arc<Signal>; 2],
    verifier: Arc<Verifier>,
    threads: Vec<JoinHandle<()>>,
}

impl Service {
    /// Starts the threads, the last of which serves `verifier`, and has the
    /// file system wake the first. With `coalesce`, the second puts files in
    /// order while nobody asks for anything.
    ///
    /// # Errors
    /// If a thread cannot be started; then none is left.
    pub(crate) fn start(
        fs: &Arc<FileSystem<Lfs>>,
        verifier: &Arc<Verifier>,
        coalesce: bool,
    ) -> io::Result<Self> {
        let signals: [Arc<Signal>; 2] = Default::default();
        let [writing, maintaining] = &signals;
        let mut service = Service {
            fs: Arc::clone(fs),
            signals: [Arc::clone(writing), Arc::clone(maintaining)],
            verifier: Arc::clone(verifier),
            threads: Vec::new(),
        };
        let (signal, next) = (Arc::clone(writing), Arc::clone(maintaining));
        service.spawn("varve-write", fs, move |fs| write_back(fs, &signal, &next))?;
        let signal = Arc::clone(maintaining);
        service.spawn("varve-clean", fs, move |fs| {
            maintain(fs, &signal, coalesce);
        })?;
        let serves = Arc::clone(verifier);
        service.spawn("varve-verify", fs, move |fs| serves.serve(fs))?;
        let waker = Arc::clone(writing);
        fs.set_waker(Box::new(move || waker.wake()));
        let summoned = Arc::clone(maintaining);
        fs.layout().on_need(Box::new(move || summoned.wake()));
        Ok(service)
    }

    fn spawn(
        &mut self,
        name: &str,
        fs: &Arc<FileSystem<Lfs>>,
        work: impl FnOnce(&FileSystem<Lfs>) + Send + 'static,
    ) -> io::Result<()> {
        let fs = Arc::clone(fs);
        let run = move || {
            // Writing out must never wait for memory that only it can free.
            let _ = rustix::process::configure_io_flusher_behavior(true);
            work(&fs);
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Ends the threads and waits for them.
    pub(crate) fn stop(&mut self) {
        self.verifier.close();
        self.fs.layout().hurry();
        self.signals.iter().for_each(|signal| signal.stop());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a background thread panicked");
            }
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Tells `maintaining` of what it has written: an idle volume's maintenance
/// sleeps for longer than a busy one takes to make a checkpoint overdue.
fn write_back(fs: &FileSystem<Lfs>, signal: &Signal, maintaining: &Signal) {
    while signal.wait(IDLE) {
        let written = loop {
            match fs.write_back() {
                Ok(true) if !signal.stopping() => maintaining.wake(),
                other => break other,
            }
        };
        if let Err(error) = written {
            tracing::warn!(%error, "write-back failed");
        }
    }
}

fn maintain(fs: &FileSystem<Lfs>, signal: &Signal, coalesce: bool) {
    let mut groups = 0;
    let mut requests = 0;
    let mut quiet = 0_u32;
    let mut pause = IDLE;
    while signal.wait(pause) {
        if let Err(error) = fs.maintain() {
            tracing::warn!(%error, "maintenance failed");
        }
        // A verification may have found something.
        if let Some(reason) = fs.layout().stopped() {
            fs.refuse_changes(&reason);
        }
        let before = std::mem::replace(&mut groups, fs.layout().statistics().groups);
        pause = match groups == before {
            true => IDLE,
            false if fs.layout().wants_cleaning() => PRESSED,
            false => BUSY,
        };
        let before = std::mem::replace(&mut requests, requests_of(fs));
        quiet = match requests == before && pause == IDLE {
            true => quiet.saturating_add(1),
            false => 0,
        };
        if coalesce && quiet >= QUIET {
            put_in_order(fs, signal, requests);
            // Our own groups are no reason to look more often.
            groups = fs.layout().statistics().groups;
        }
    }
}

/// What users have asked for so far.
pub(crate) fn requests_of<L: Layout>(fs: &FileSystem<L>) -> u64 {
    let s = fs.statistics();
    let changes = s.creates + s.unlinks + s.renames + s.setattrs + s.fsyncs;
    s.lookups + s.reads + s.writes + changes
}

/// A step of idle work; it ends as soon as somebody asks for something.
fn put_in_order(fs: &FileSystem<Lfs>, signal: &Signal, requests: u64) {
    let policy = Coalescing::default();
    for _ in 0..ORDER_TIMES {
        if signal.stopping() || requests_of(fs) != requests {
            return;
        }
        match fs.layout().coalesce_found(&policy, ORDER_BYTES) {
            Ok(Some(done)) if !done.short_of_room => {}
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, "putting files in order failed");
                return;
            }
        }
    }
}
