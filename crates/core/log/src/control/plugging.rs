//! Whether large groups find holes.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Whether what waits in memory may be expected to go into holes.
#[derive(Debug, Default)]
pub(crate) struct Plugging {
    expected: AtomicBool,
    /// Bytes that small groups have put elsewhere since holes were found.
    elsewhere: AtomicU64,
}

impl Plugging {
    /// True if large groups have found holes lately, and small ones have not
    /// taken much since.
    pub fn is_expected(&self) -> bool {
        self.expected.load(Relaxed)
    }

    /// A large group has found enough of them, or has not.
    pub(crate) fn looked(&self, enough: bool) {
        self.elsewhere.store(0, Relaxed);
        self.expected.store(enough, Relaxed);
    }

    /// A small group takes so many bytes of clean segments, of which it may be
    /// `most` before that counts.
    pub(crate) fn passed(&self, bytes: u64, most: u64) {
        if self.elsewhere.fetch_add(bytes, Relaxed) + bytes > most {
            self.expected.store(false, Relaxed);
        }
    }
}
