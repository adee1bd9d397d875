//! Room for what becomes part of another tree.

use super::changes::Price;
use crate::account::{Operation, SpaceAccount};
use crate::error::Result;
use crate::file_system::FileSystem;
use crate::layout::{Layout, Purpose, Unwritten, Usage};

/// A merge that adds nothing to the tree and makes so little wait is as sure to go
/// through as a removal is.
const SMALL_BYTES: u64 = 64 << 10;

/// A merge under way: its operation, and what it makes wait.
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
    /// Asks for the room of a private tree that is to become part of this one.
    ///
    /// # Errors
    /// `NoSpace`, `ReadOnly`.
    pub(super) fn promise_merge(&self, price: &Price) -> Result<Merge<'_>> {
        self.space.reaches(price.highest_block);
        let waiting = &price.unwritten;
        // Small removals go through on a full volume, as they do one by one.
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
