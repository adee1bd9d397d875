//! What a private tree counts for in the memory that all may take.

use crate::file_system::{Below, FileSystem};
use crate::layout::Layout;
use std::sync::atomic::Ordering::SeqCst;

impl<L: Layout> FileSystem<L> {
    /// Counts what waits in this private tree, and so many bytes more. Answers what all
    /// take.
    pub(crate) fn charge(&self, below: &Below<L>, coming: u64) -> u64 {
        let now = self.waits.bytes().saturating_add(coming);
        let before = below.charged.swap(now, SeqCst);
        let taken = &self.budget.taken;
        let taken = taken.fetch_add(now.wrapping_sub(before), SeqCst);
        taken.wrapping_add(now).wrapping_sub(before)
    }

    /// What was expected of an operation is no longer counted, but what came of it.
    pub(crate) fn settle_charge(&self) {
        let Some(below) = &self.below else { return };
        self.charge(below, 0);
        // Whoever ends it gives back what is charged, before or after this.
        if below.ended.load(SeqCst) {
            self.budget.gave_back(below.charged.swap(0, SeqCst));
        }
    }
}
