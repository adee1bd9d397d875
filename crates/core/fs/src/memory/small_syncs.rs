//! Whether little data is made durable again and again.
//!
//! That is measured in bytes of other groups, not in time: [`OFTEN`] fsyncs while
//! [`WINDOW_BYTES`] of them are written. At the end of such a window half of the fsyncs
//! count on, so that groups do not become large in between.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of other groups in a window.
pub(crate) const WINDOW_BYTES: u64 = 32 << 20;
/// Fsyncs in a window from which on other groups are small.
pub(crate) const OFTEN: u64 = 8;

/// Counts of bytes made durable lately. Updates of several threads may be lost: the next
/// fsyncs make up for them.
#[derive(Debug, Default)]
pub(crate) struct SmallSyncs {
    /// Fsyncs of little data.
    syncs: AtomicU64,
    /// Bytes of other groups in this window.
    bytes: AtomicU64,
}

impl SmallSyncs {
    /// True if other groups are to be small.
    pub fn are_frequent(&self) -> bool {
        self.syncs.load(Relaxed) >= OFTEN
    }

    /// Little data has been made durable.
    pub fn another(&self) {
        let syncs = self.syncs.load(Relaxed);
        self.syncs.store((syncs + 1).min(2 * OFTEN), Relaxed);
    }

    /// So many bytes of another group have been captured.
    pub fn others(&self, bytes: u64) {
        let bytes = self.bytes.load(Relaxed) + bytes;
        if bytes >= WINDOW_BYTES {
            self.syncs.store(self.syncs.load(Relaxed) / 2, Relaxed);
        }
        self.bytes.store(bytes % WINDOW_BYTES, Relaxed);
    }
}
