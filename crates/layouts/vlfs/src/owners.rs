//! Whose a unit is: a table in memory, learnt from the tree when idle time
//! begins and kept up by every write since.
//!
//! An entry is a hint: what is moved is looked up in the tree first. The table
//! covers a window of the volume, so that it is bounded; the next window is
//! learnt when there is nothing more to gain in this one.
//!
//! The log reads owners in its summaries. Here nothing beside data says whose it is.

use crate::format::{Extent, NodeId};
use std::collections::HashMap;
use std::ops::Range;

/// What a unit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A block (height 0) or an index node of one of a file's forks.
    Tree(NodeId),
    /// An inode.
    Inode(u64),
}

/// How far the tree has been walked for the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The inode to look at next.
    pub ino: u64,
    /// Its first block not looked at.
    pub block: u64,
}

/// See the module's head.
#[derive(Debug, Default)]
pub struct Owners {
    window: Range<u64>,
    of: HashMap<u32, Owner>,
    /// `None` once the whole tree has been walked.
    pub progress: Option<Progress>,
}

impl Owners {
    /// Forgets everything, and is to be told what lies in `window`.
    pub fn begin(&mut self, window: Range<u64>) {
        *self = Owners {
            window,
            of: HashMap::new(),
            progress: Some(Progress { ino: 0, block: 0 }),
        };
    }

    /// What it covers; nothing before the first use.
    pub fn window(&self) -> &Range<u64> {
        &self.window
    }

    /// Units whose owner is known.
    pub fn known(&self) -> u64 {
        self.of.len() as u64
    }

    /// `owner` has been written to `unit`, or was found there.
    pub fn note(&mut self, unit: u64, owner: Owner) {
        if self.window.contains(&unit) {
            self.of.insert(unit as u32, owner);
        }
    }

    /// The tree no longer uses it.
    pub fn forget(&mut self, extent: Extent) {
        if self.window.contains(&extent.unit) {
            self.of.remove(&(extent.unit as u32));
        }
    }

    /// Who was last seen at a unit: the first one of a block.
    pub fn of(&self, unit: u64) -> Option<Owner> {
        self.of.get(&(unit as u32)).copied()
    }
}
