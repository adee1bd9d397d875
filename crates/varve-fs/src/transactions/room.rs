//! What a private tree may take.
//!
//! The layout is asked at the commit, once for all of it. Until then a change is
//! refused if the volume is full already, or if all private trees of the mount
//! together would take more memory than they may, spilled data left aside.

use super::Below;
use super::changes::Price;
use crate::account::{Coming, Operation, SpaceAccount, difference, sum};
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::{Layout, Purpose, Unwritten, Usage};
use crate::locks::assert_none;
use std::sync::atomic::Ordering::SeqCst;

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
    /// [`Self::promise`] in a private tree.
    pub(crate) fn promise_private(
        &self,
        below: &Below<L>,
        growth: Usage,
        coming: Coming,
        purpose: Purpose,
    ) -> Result<Operation<'_>> {
        assert_none();
        below.goes_on()?;
        self.space.crowd.give_way();
        self.space.crowd.enter();
        let memory = self.make_memory(below, coming.bytes);
        let answer = memory.and_then(|()| self.admits_private(below, growth, coming, purpose));
        match answer {
            Ok(()) => Ok(Operation::admitted(&self.space, growth, coming)),
            Err(error) => {
                self.space.crowd.leave();
                Err(error)
            }
        }
    }

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

    /// Counts what waits in this private tree, and so many bytes more. Answers what all
    /// take.
    pub(super) fn charge(&self, below: &Below<L>, coming: u64) -> u64 {
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

    fn admits_private(
        &self,
        below: &Below<L>,
        growth: Usage,
        coming: Coming,
        purpose: Purpose,
    ) -> Result<()> {
        self.check_writable()?;
        if self.charge(below, coming.bytes) > self.budget.bytes {
            return Err(Error::TransactionTooLarge);
        }
        if purpose == Purpose::Shrink || growth == Usage::default() {
            return Ok(());
        }
        let own = difference(self.space.present(), below.usage);
        match below.target.statfs_beside(sum(own, growth)).free {
            0 => Err(Error::NoSpace),
            _ => Ok(()),
        }
    }
}
