//! Counters of a device's requests and bytes.
//!
//! Only requests that succeeded are counted. The counts are independent of
//! each other: a snapshot taken while requests run may be torn between them.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of one device. They cost little enough to be always enabled.
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

/// Values of the counters at one moment, counted since the device was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterSnapshot {
    /// Number of read requests.
    pub reads: u64,
    /// Number of write requests; a vectored write counts once.
    pub writes: u64,
    /// Number of flushes.
    pub flushes: u64,
    /// Number of discards that reached the medium.
    pub discards: u64,
    /// Bytes read by callers.
    pub bytes_read: u64,
    /// Bytes written by callers.
    pub bytes_written: u64,
    /// Bytes copied only because a caller's buffer was not aligned.
    pub bytes_copied: u64,
}

impl DeviceCounters {
    /// Returns the current values of the counters.
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
