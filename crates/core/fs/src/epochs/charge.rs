//! The memory of a private tree, charged to the budget of all private trees.

use crate::file_system::{Below, FileSystem};
use crate::layout::Layout;
use std::sync::atomic::Ordering::SeqCst;

impl<L: Layout> FileSystem<L> {
    /// Charges the changes that wait in this private tree, and `coming` bytes in
    /// addition. Returns the total of all trees.
    pub(crate) fn charge(&self, below: &Below<L>, coming: u64) -> u64 {
        let now = self.waits.bytes().saturating_add(coming);
        let before = below.charged.swap(now, SeqCst);
        let taken = &self.budget.taken;
        let taken = taken.fetch_add(now.wrapping_sub(before), SeqCst);
        taken.wrapping_add(now).wrapping_sub(before)
    }

    /// Replaces the estimate of an operation by its real memory.
    pub(crate) fn settle_charge(&self) {
        let Some(below) = &self.below else { return };
        self.charge(below, 0);
        // The thread that ends the tree returns its charge, before or after this.
        if below.ended.load(SeqCst) {
            self.budget.gave_back(below.charged.swap(0, SeqCst));
        }
    }
}
