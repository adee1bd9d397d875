//! Counts of what a device was asked to do.
//!
//! Only requests that succeeded are counted. The counts are independent of
//! each other: a snapshot taken while requests run may be torn between them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts kept by a device. Cheap enough to be always on.
#[derive(Debug, Default)]
pub struct DeviceCounters {
    reads: AtomicU64,
    writes: AtomicU64,
    flushes: AtomicU64,
    discards: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    bytes_copied: AtomicU64,
}

/// The counts at one moment, since the device was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterSnapshot {
    /// Read requests.
    pub reads: u64,
    /// Write requests; a vectored one counts once.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards that reached the medium.
    pub discards: u64,
    /// Bytes delivered to callers.
    pub bytes_read: u64,
    /// Bytes taken from callers.
    pub bytes_written: u64,
    /// Bytes copied only because a caller's buffer was not aligned.
    pub bytes_copied: u64,
}

impl DeviceCounters {
    /// The counts now.
    pub fn snapshot(&self) -> CounterSnapshot {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CounterSnapshot {
            reads: get(&self.reads),
            writes: get(&self.writes),
            flushes: get(&self.flushes),
            discards: get(&self.discards),
            bytes_read: get(&self.bytes_read),
            bytes_written: get(&self.bytes_written),
            bytes_copied: get(&self.bytes_copied),
        }
    }

    /// Counts one read of `bytes` bytes.
    pub fn count_read(&self, bytes: u64) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts one write of `bytes` bytes.
    pub fn count_write(&self, bytes: u64) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.bytes_written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts one flush.
    pub fn count_flush(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one discard.
    pub fn count_discard(&self) {
        self.discards.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts `bytes` bytes copied for alignment.
    pub fn count_copy(&self, bytes: u64) {
        self.bytes_copied.fetch_add(bytes, Ordering::Relaxed);
    }
}
