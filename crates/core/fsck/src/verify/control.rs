//! Telling a verification to stop, how fast to go, and asking how far it is.

use std::time::Duration;
use varve_device::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use varve_device::sync::{Condvar, Mutex};

/// What a verification is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Has not begun, or waits for a checkpoint.
    #[default]
    Waiting,
    /// The inode map, inodes and their indexes.
    Inodes,
    /// Directories and what their names lead to.
    Directories,
    /// Live bytes of segments, and totals.
    Accounts,
    /// Data blocks.
    Data,
    /// Looking for the names of what was found.
    Names,
    /// Over.
    Finished,
}

/// How far a verification is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Progress {
    /// What it is doing.
    pub stage: Stage,
    /// How much of that is done: inode numbers, or bytes of data.
    pub done: u64,
    /// How much there is.
    pub total: u64,
    /// How often it began; more than once if the image could not be held.
    pub attempt: u32,
    /// Inodes verified.
    pub inodes: u64,
    /// Directories verified.
    pub directories: u64,
    /// Bytes of data verified.
    pub data_bytes: u64,
    /// Bytes read from the device.
    pub read_bytes: u64,
    /// What was found wrong so far.
    pub errors: u64,
    /// Nanoseconds since it began.
    pub elapsed_ns: u64,
}

/// Shared by a verification and whoever watches it.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    rate: AtomicU64,
    progress: Mutex<Progress>,
    lock: Mutex<()>,
    stopped: Condvar,
}

impl Control {
    /// At most `rate` bytes per second are read from the device; 0 is without
    /// limit.
    pub fn new(rate: u64) -> Self {
        Control {
            rate: AtomicU64::new(rate),
            ..Control::default()
        }
    }

    /// Ends the verification as soon as the read under way has returned.
    pub fn stop(&self) {
        let _lock = self.lock.lock();
        self.stop.store(true, Relaxed);
        self.stopped.notify_all();
    }

    /// True once it is to end.
    pub fn stopping(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Bytes per second, 0 for no limit.
    pub fn rate(&self) -> u64 {
        self.rate.load(Relaxed)
    }

    pub(super) fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Relaxed);
    }

    /// Waits, or until it is to end.
    pub(super) fn wait(&self, time: Duration) {
        let mut lock = self.lock.lock();
        if !self.stopping() {
            self.stopped.wait_for(&mut lock, time);
        }
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        *self.progress.lock()
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock());
    }

    pub(super) fn enter(&self, stage: Stage, total: u64) {
        self.update(|p| (p.stage, p.done, p.total) = (stage, 0, total));
    }
}
