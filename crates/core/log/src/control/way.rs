//! Running user requests, counted by generation (`mechanism/way.rs`).

use varve_device::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Numbers of running user requests, by generation.
#[derive(Debug, Default)]
pub(crate) struct Way {
    turn: AtomicUsize,
    under_way: [AtomicU32; 2],
}

/// A user request runs while this exists.
pub(crate) struct RunningRequest<'w>(&'w AtomicU32);

impl Drop for RunningRequest<'_> {
    fn drop(&mut self) {
        let running = self.0.fetch_sub(1, Relaxed);
        assert!(running > 0, "a request ends twice");
    }
}

impl Way {
    /// Counts a user request that begins.
    pub fn begin(&self) -> RunningRequest<'_> {
        let count = &self.under_way[self.turn.load(Relaxed) & 1];
        count.fetch_add(1, Relaxed);
        RunningRequest(count)
    }

    /// Starts a new generation for later requests. The result returns true until all
    /// earlier ones have ended.
    pub(crate) fn turn(&self) -> impl Fn() -> bool {
        let former = &self.under_way[self.turn.fetch_add(1, Relaxed) & 1];
        || former.load(Relaxed) > 0
    }
}
