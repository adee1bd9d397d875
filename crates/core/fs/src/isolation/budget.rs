//! Memory that private trees may take.

use varve_device::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Bytes of memory for what private trees have changed.
#[derive(Debug)]
pub(crate) struct Budget {
    pub taken: AtomicU64,
    pub bytes: u64,
    /// Beyond so many, data is spilled: the rest is for what cannot be.
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
