//! Limit of the memory that private trees may take.

use varve_device::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Memory for changes of private trees, in bytes.
#[derive(Debug)]
pub(crate) struct Budget {
    pub taken: AtomicU64,
    pub bytes: u64,
    /// Bytes beyond which data is spilled: the rest is for changes that cannot be
    /// spilled.
    pub spills_at: u64,
}

impl Budget {
    pub fn new(bytes: u64) -> Self {
        Budget {
            taken: AtomicU64::new(0),
            bytes,
            spills_at: bytes / 4 * 3,
        }
    }

    pub fn gave_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, SeqCst);
    }
}
