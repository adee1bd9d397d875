//! The owners of units: a table in memory, which is learnt from the tree when idle time
//! begins and updated by every write since.
//!
//! An entry is a hint: the tree is consulted before a block is moved. The table covers
//! a window of the volume, so that its size is bounded. The next window is learnt when
//! there is nothing more to gain in this one.
//!
//! The log reads owners in its summaries. Here no information about the owner is stored
//! with the data.

use crate::format::{Extent, NodeId};
use std::collections::HashMap;
use std::ops::Range;

/// The content of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A block (height 0) or an index node of one of a file's forks.
    Tree(NodeId),
    /// An inode.
    Inode(u64),
}

/// The progress of the walk of the tree for the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The next inode to examine.
    pub ino: u64,
    /// Its first block that was not examined.
    pub block: u64,
}

/// The table of owners.
#[derive(Debug, Default)]
pub struct Owners {
    window: Range<u64>,
    of: HashMap<u32, Owner>,
    /// The progress of the walk; `None` once the whole tree has been walked.
    pub progress: Option<Progress>,
}

impl Owners {
    /// Clears the table, which then covers `window` and is to be filled.
    pub fn begin(&mut self, window: Range<u64>) {
        *self = Owners {
            window,
            of: HashMap::new(),
            progress: Some(Progress { ino: 0, block: 0 }),
        };
    }

    /// Returns the window; it is empty before the first use.
    pub fn window(&self) -> &Range<u64> {
        &self.window
    }

    /// Returns the number of units whose owner is known.
    pub fn known(&self) -> u64 {
        self.of.len() as u64
    }

    /// Records that `owner` has been written to `unit`, or was found there.
    pub fn note(&mut self, unit: u64, owner: Owner) {
        if self.window.contains(&unit) {
            self.of.insert(unit as u32, owner);
        }
    }

    /// Records that the tree no longer uses an extent.
    pub fn forget(&mut self, extent: Extent) {
        if self.window.contains(&extent.unit) {
            self.of.remove(&(extent.unit as u32));
        }
    }

    /// Returns the owner that was last seen at a unit, which must be the first one of a
    /// block.
    pub fn of(&self, unit: u64) -> Option<Owner> {
        self.of.get(&(unit as u32)).copied()
    }
}
