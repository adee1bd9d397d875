//! Space accounting: usage that is present, promised to operations, asked for, and
//! reserved.

pub(crate) mod crowd;
pub(crate) mod held;
pub(crate) mod prices;
pub(crate) mod refusals;

use crate::account::crowd::Crowd;
use crate::account::held::HeldRemovals;
use crate::account::refusals::Refusals;
use crate::layout::Usage;
use crate::locks::Ranked;
use crate::memory::waits::Waits;
use varve_device::sync::RwLockReadGuard;
use varve_device::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
pub(crate) struct Sum {
    inodes: AtomicU64,
    blocks: AtomicU64,
    sectors: AtomicU64,
}

impl Sum {
    pub fn add(&self, usage: Usage) {
        for (sum, by) in self.parts(usage) {
            if by != 0 {
                sum.fetch_add(by, Relaxed);
            }
        }
    }

    pub fn subtract(&self, usage: Usage) {
        for (sum, by) in self.parts(usage) {
            if by != 0 {
                sum.fetch_sub(by, Relaxed);
            }
        }
    }

    fn parts(&self, usage: Usage) -> [(&AtomicU64, u64); 3] {
        [
            (&self.inodes, usage.inodes),
            (&self.blocks, usage.blocks),
            (&self.sectors, usage.sectors),
        ]
    }

    pub fn get(&self) -> Usage {
        Usage {
            inodes: self.inodes.load(Relaxed),
            blocks: self.blocks.load(Relaxed),
            sectors: self.sectors.load(Relaxed),
        }
    }
}

/// Sum of two usages. It saturates, because a damaged image may contain any count.
pub(crate) fn sum(a: Usage, b: Usage) -> Usage {
    Usage {
        inodes: a.inodes.saturating_add(b.inodes),
        blocks: a.blocks.saturating_add(b.blocks),
        sectors: a.sectors.saturating_add(b.sectors),
    }
}

/// Difference of two usages, never below zero.
pub(crate) fn difference(a: Usage, b: Usage) -> Usage {
    Usage {
        inodes: a.inodes.saturating_sub(b.inodes),
        blocks: a.blocks.saturating_sub(b.blocks),
        sectors: a.sectors.saturating_sub(b.sectors),
    }
}

/// The counters of one tree, from which a request to the layout is made.
#[derive(Debug, Default)]
pub(crate) struct SpaceAccount {
    pub present: Sum,
    /// Growth of the tree promised to admitted operations.
    pub promised: Sum,
    /// Growth of the tree asked for by operations that await the layout's answer.
    pub asked: Sum,
    /// Dirty data promised to admitted operations.
    pub promised_coming: ComingSum,
    /// Dirty data asked for by operations that await the layout's answer.
    pub asked_coming: ComingSum,
    /// Highest block of a file that an operation was to reach.
    pub highest_block: AtomicU64,
    /// Changes that merges of private trees are adding to those in memory.
    pub merging: Waits,
    /// Bytes reserved for held writes, see `content/held.rs`.
    pub kept_bytes: AtomicU64,
    pub crowd: Crowd,
    pub refusals: Refusals,
    pub held_removals: HeldRemovals,
}

impl SpaceAccount {
    pub fn new(usage: Usage) -> Self {
        let account = SpaceAccount::default();
        account.present.add(usage);
        account
    }

    pub fn present(&self) -> Usage {
        self.present.get()
    }

    /// Records that an operation is going to reach this block of a file.
    #[inline]
    pub fn reaches(&self, block: u64) {
        if self.highest_block.load(Relaxed) < block {
            self.highest_block.fetch_max(block, Relaxed);
        }
    }

    /// Replaces one inode's share of the present usage.
    #[inline]
    pub fn settle(&self, before: Usage, after: Usage) {
        if before == after {
            return;
        }
        self.present.add(after);
        self.present.subtract(before);
        // Counted after the subtraction, so that a later reader sees both.
        if difference(before, after) != Usage::default() {
            self.refusals.freed();
        }
    }
}

/// Upper bound of the dirty data that one operation can add.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coming {
    pub bytes: u64,
    /// Bytes of extended attributes of one file, included in `bytes`.
    pub attributes: u64,
    /// Blocks that are reserved.
    pub reserved: u64,
}

impl From<u64> for Coming {
    /// Data blocks at any place, by their bytes.
    fn from(bytes: u64) -> Self {
        Coming {
            bytes,
            attributes: 0,
            reserved: 0,
        }
    }
}

impl Coming {
    /// Extended attributes of one file, of `bytes`.
    pub fn attributes(bytes: u64) -> Self {
        Coming {
            attributes: bytes,
            ..bytes.into()
        }
    }

    /// Data of `bytes`, and a reservation of `blocks`.
    pub fn reserving(bytes: u64, blocks: u64) -> Self {
        Coming {
            reserved: blocks,
            ..bytes.into()
        }
    }

    /// Adds `bytes` of other data.
    pub fn and(self, bytes: u64) -> Self {
        Coming {
            bytes: self.bytes + bytes,
            ..self
        }
    }
}

/// Sum of the dirty data of several operations. A reader never sees more attributes than
/// bytes: an addition begins with the bytes, a subtraction and a read begin with the
/// attributes.
#[derive(Debug, Default)]
pub(crate) struct ComingSum {
    bytes: AtomicU64,
    attributes: AtomicU64,
    reserved: AtomicU64,
}

impl ComingSum {
    pub fn add(&self, coming: Coming) {
        self.bytes.fetch_add(coming.bytes, Relaxed);
        if coming.attributes > 0 {
            self.attributes.fetch_add(coming.attributes, Relaxed);
        }
        if coming.reserved > 0 {
            self.reserved.fetch_add(coming.reserved, Relaxed);
        }
    }

    pub fn subtract(&self, coming: Coming) {
        if coming.attributes > 0 {
            self.attributes.fetch_sub(coming.attributes, Relaxed);
        }
        if coming.reserved > 0 {
            self.reserved.fetch_sub(coming.reserved, Relaxed);
        }
        self.bytes.fetch_sub(coming.bytes, Relaxed);
    }

    pub fn get(&self) -> Coming {
        let attributes = self.attributes.load(Relaxed);
        let bytes = self.bytes.load(Relaxed);
        Coming {
            bytes,
            attributes,
            reserved: self.reserved.load(Relaxed),
        }
    }
}

/// A running operation: its promise, and its shared lock of the gate.
pub(crate) struct Operation<'a> {
    pub account: &'a SpaceAccount,
    pub growth: Usage,
    pub coming: Coming,
    pub gate: Option<Ranked<RwLockReadGuard<'a, ()>>>,
}

impl<'a> Operation<'a> {
    /// Promises an operation what it asked for. The operation has entered the crowd.
    pub fn admitted(account: &'a SpaceAccount, growth: Usage, coming: Coming) -> Self {
        account.promised.add(growth);
        account.promised_coming.add(coming);
        Operation {
            account,
            growth,
            coming,
            gate: None,
        }
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.gate = None;
        self.account.promised.subtract(self.growth);
        self.account.promised_coming.subtract(self.coming);
        self.account.crowd.leave();
    }
}
