//! Detects whether little data is made durable again and again.
//!
//! The measure is bytes of other groups, not time: [`OFTEN`] fsyncs while
//! [`WINDOW_BYTES`] of them are written. At the end of such a window half of the fsyncs
//! still count, so that groups do not become large in between.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of other groups in a window.
pub(crate) const WINDOW_BYTES: u64 = 32 << 20;
/// Number of fsyncs in a window from which on other groups are small.
pub(crate) const OFTEN: u64 = 8;

/// Counts of recent small fsyncs. Concurrent updates may be lost: the next fsyncs make up
/// for them.
#[derive(Debug, Default)]
pub(crate) struct SmallSyncs {
    /// Fsyncs of little data.
    syncs: AtomicU64,
    /// Bytes of other groups in this window.
    bytes: AtomicU64,
}

impl SmallSyncs {
    /// True if other groups should be small.
    pub fn are_frequent(&self) -> bool {
        self.syncs.load(Relaxed) >= OFTEN
    }

    /// Counts an fsync of little data.
    pub fn another(&self) {
        let syncs = self.syncs.load(Relaxed);
        self.syncs.store((syncs + 1).min(2 * OFTEN), Relaxed);
    }

    /// Counts `bytes` captured in another group.
    pub fn others(&self, bytes: u64) {
        let bytes = self.bytes.load(Relaxed) + bytes;
        if bytes >= WINDOW_BYTES {
            self.syncs.store(self.syncs.load(Relaxed) / 2, Relaxed);
        }
        self.bytes.store(bytes % WINDOW_BYTES, Relaxed);
    }
}
