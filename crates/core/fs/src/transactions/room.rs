//! Admission of a merge into another tree.

use super::changes::Price;
use crate::account::{Operation, SpaceAccount};
use crate::error::Result;
use crate::file_system::FileSystem;
use crate::layout::{Layout, Purpose, Unwritten, Usage};

/// Most waiting bytes of a merge that adds nothing to the tree and is therefore admitted
/// as a removal.
const SMALL_BYTES: u64 = 64 << 10;

/// A running merge: its operation, and the changes that it will add to those in memory.
pub(super) struct Merge<'a> {
    operation: Option<Operation<'a>>,
    account: &'a SpaceAccount,
    waiting: Unwritten,
}

impl<'a> Merge<'a> {
    /// Passes the target's gate.
    pub fn enter<L: Layout>(mut self, target: &'a FileSystem<L>) -> Self {
        self.operation = self
            .operation
            .take()
            .map(|operation| target.enter(operation));
        self
    }
}

impl Drop for Merge<'_> {
    fn drop(&mut self) {
        self.account.merging.subtract(&self.waiting);
    }
}

impl<L: Layout> FileSystem<L> {
    /// Asks for the space of a private tree that is to be merged into this one.
    ///
    /// # Errors
    /// `NoSpace`, `ReadOnly`.
    pub(super) fn promise_merge(&self, price: &Price) -> Result<Merge<'_>> {
        self.space.reaches(price.highest_block);
        let waiting = &price.unwritten;
        // Small removals succeed on a full volume, as they do outside of transactions.
        let small = price.growth == Usage::default() && waiting.bytes <= SMALL_BYTES;
        let purpose = match small {
            true => Purpose::Shrink,
            false => Purpose::Grow,
        };
        self.space.merging.add(waiting);
        let mut merge = Merge {
            operation: None,
            account: &self.space,
            waiting: *waiting,
        };
        merge.operation = Some(self.promise(price.growth, 0, purpose)?);
        Ok(merge)
    }
}
