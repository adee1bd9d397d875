//! Control of a verification: stop, rate and progress.

use std::time::Duration;
use varve_device::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use varve_device::sync::{Condvar, Mutex};

/// Stage of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Not started, or waiting for a checkpoint.
    #[default]
    Waiting,
    /// The inode map, inodes and their indexes.
    Inodes,
    /// Directories and the inodes to which names lead.
    Directories,
    /// Live bytes of segments, and totals.
    Accounts,
    /// Data blocks.
    Data,
    /// Search for the paths of findings.
    Names,
    /// Finished.
    Finished,
}

/// Progress of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Progress {
    /// Present stage.
    pub stage: Stage,
    /// Work done in the stage: inode numbers, or bytes of data.
    pub done: u64,
    /// Total work of the stage.
    pub total: u64,
    /// Number of the attempt; more than 1 if the pin on an image was broken.
    pub attempt: u32,
    /// Inodes verified.
    pub inodes: u64,
    /// Directories verified.
    pub directories: u64,
    /// Bytes of data verified.
    pub data_bytes: u64,
    /// Bytes read from the device.
    pub read_bytes: u64,
    /// Number of errors found so far.
    pub errors: u64,
    /// Time since the start, in ns.
    pub elapsed_ns: u64,
}

/// State shared by a verification and its observers.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    rate: AtomicU64,
    progress: Mutex<Progress>,
    lock: Mutex<()>,
    stopped: Condvar,
}

impl Control {
    /// Returns a control that limits reads to `rate` bytes per second; 0 is no limit.
    pub fn new(rate: u64) -> Self {
        Control {
            rate: AtomicU64::new(rate),
            ..Control::default()
        }
    }

    /// Stops the verification after the current read.
    pub fn stop(&self) {
        let _lock = self.lock.lock();
        self.stop.store(true, Relaxed);
        self.stopped.notify_all();
    }

    /// Returns true if the verification must stop.
    pub fn stopping(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Returns the rate in bytes per second; 0 is no limit.
    pub fn rate(&self) -> u64 {
        self.rate.load(Relaxed)
    }

    pub(super) fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Relaxed);
    }

    /// Waits for `time`, or until the verification must stop.
    pub(super) fn wait(&self, time: Duration) {
        let mut lock = self.lock.lock();
        if !self.stopping() {
            self.stopped.wait_for(&mut lock, time);
        }
    }

    /// Returns the progress.
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
