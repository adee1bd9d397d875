//! Admission in a private tree.
//!
//! The layout is asked at the commit, once for the whole transaction. Until then a change
//! is refused only if the volume is full already, or if all private trees of the mount
//! together would exceed their memory limit, spilled data excluded.

use crate::account::{Coming, Operation, difference, sum};
use crate::error::{Error, Result};
use crate::file_system::{Below, FileSystem};
use crate::layout::{Layout, Purpose, Usage};
use crate::locks::assert_none;
use varve_device::sync::atomic::Ordering::Relaxed;

impl<L: Layout> FileSystem<L> {
    /// [`Self::promise`] in a private tree.
    pub(super) fn promise_private(
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

    fn admits_private(
        &self,
        below: &Below<L>,
        growth: Usage,
        coming: Coming,
        purpose: Purpose,
    ) -> Result<()> {
        self.check_writable()?;
        if self.charge(below, coming.bytes) > self.budget.bytes {
            below.too_large.store(true, Relaxed);
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
