//! Requests of users that are under way, counted by turns (`mechanism/way.rs`).

use varve_device::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Requests of users that are under way, by turns.
#[derive(Debug, Default)]
pub(crate) struct Way {
    turn: AtomicUsize,
    under_way: [AtomicU32; 2],
}

/// A request of a user is under way for as long as this lives.
pub(crate) struct UnderWay<'w>(&'w AtomicU32);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Way {
    /// A request of a user begins.
    pub fn begin(&self) -> UnderWay<'_> {
        let count = &self.under_way[self.turn.load(Relaxed) & 1];
        count.fetch_add(1, Relaxed);
        UnderWay(count)
    }

    /// What begins from now on is of the next turn. True until all that began
    /// before is through.
    pub(crate) fn turn(&self) -> impl Fn() -> bool {
        let former = &self.under_way[self.turn.fetch_add(1, Relaxed) & 1];
        || former.load(Relaxed) > 0
    }
}
