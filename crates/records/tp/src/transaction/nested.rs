//! Nested transactions: a child's locks are its own until it commits.
//!
//! Source: Moss 1981.

use super::{Granted, Mark, Transaction};
use crate::error::Result;
use varve_locks::{Mode, OwnerId};

/// The state of the transaction around a child, when the child began.
#[derive(Debug)]
pub(crate) struct Outer {
    mark: Mark,
    database: Option<Mode>,
    granted: Vec<Granted>,
}

impl Transaction<'_> {
    /// Begins a child.
    pub(crate) fn begin_child(&mut self) -> Outer {
        let owner = self.owner();
        self.outer.push(owner);
        self.owner = Some(self.engine.locks.begin(Some(owner)));
        Outer {
            mark: self.mark(),
            database: self.database,
            granted: self.granted.clone(),
        }
    }

    /// Passes the child's changes and locks to its parent.
    pub(crate) fn commit_child(&mut self) -> Result<()> {
        self.check()?;
        if let Some(child) = self.end_child() {
            self.engine.locks.hand_to_parent(child);
            self.engine.locks.end(child);
        }
        Ok(())
    }

    fn end_child(&mut self) -> Option<OwnerId> {
        let parent = self.outer.pop()?;
        self.owner.replace(parent)
    }

    /// Undoes the child's changes, and releases the locks that only the child owns.
    pub(crate) fn abort_child(&mut self, outer: Outer) -> Result<()> {
        self.rollback_to(outer.mark)?;
        if let Some(child) = self.end_child() {
            self.engine.locks.end(child);
        }
        self.database = outer.database;
        self.granted = outer.granted;
        Ok(())
    }
}
