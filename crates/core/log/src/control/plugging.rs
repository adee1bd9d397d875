//! Whether large groups find holes.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Whether waiting data may be expected to be written into holes.
#[derive(Debug, Default)]
pub(crate) struct Plugging {
    expected: AtomicBool,
    /// Bytes that small groups have written to clean segments since holes were found.
    elsewhere: AtomicU64,
}

impl Plugging {
    /// True if large groups have found holes recently, and small ones have taken little
    /// since.
    pub fn is_expected(&self) -> bool {
        self.expected.load(Relaxed)
    }

    /// Records whether a large group has found enough of them.
    pub(crate) fn looked(&self, enough: bool) {
        self.elsewhere.store(0, Relaxed);
        self.expected.store(enough, Relaxed);
    }

    /// Counts `bytes` of clean segments taken by a small group; up to `most` in sum have
    /// no effect.
    pub(crate) fn passed(&self, bytes: u64, most: u64) {
        if self.elsewhere.fetch_add(bytes, Relaxed) + bytes > most {
            self.expected.store(false, Relaxed);
        }
    }
}
