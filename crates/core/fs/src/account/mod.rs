//! What is counted of room: what is there, promised, asked for and kept.

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

/// Sums and differences saturate: a damaged image may count anything.
pub(crate) fn sum(a: Usage, b: Usage) -> Usage {
    Usage {
        inodes: a.inodes.saturating_add(b.inodes),
        blocks: a.blocks.saturating_add(b.blocks),
        sectors: a.sectors.saturating_add(b.sectors),
    }
}

/// See [`sum`].
pub(crate) fn difference(a: Usage, b: Usage) -> Usage {
    Usage {
        inodes: a.inodes.saturating_sub(b.inodes),
        blocks: a.blocks.saturating_sub(b.blocks),
        sectors: a.sectors.saturating_sub(b.sectors),
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct SpaceAccount {
    pub present: Sum,
    /// What operations which were admitted may add to the tree.
    pub promised: Sum,
    /// The same of operations that wait for the answer.
    pub asked: Sum,
    /// What operations which were admitted may add to what waits in memory.
    pub promised_coming: ComingSum,
    /// The same of operations that wait for the answer.
    pub asked_coming: ComingSum,
    /// The highest block that an operation was to reach.
    pub highest_block: AtomicU64,
    /// What merges of private trees that are under way make wait.
    pub merging: Waits,
    /// See `content/held.rs`.
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

    /// An operation is going to reach this block of a file.
    #[inline]
    pub fn reaches(&self, block: u64) {
        if self.highest_block.load(Relaxed) < block {
            self.highest_block.fetch_max(block, Relaxed);
        }
    }

    /// One inode's share changed.
    #[inline]
    pub fn settle(&self, before: Usage, after: Usage) {
        if before == after {
            return;
        }
        self.present.add(after);
        self.present.subtract(before);
        // A later reader sees what is present without it.
        if difference(before, after) != Usage::default() {
            self.refusals.freed();
        }
    }
}

/// What an operation adds to what waits in memory at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coming {
    pub bytes: u64,
    /// Of these, extended attributes of one file.
    pub attributes: u64,
    /// Blocks that are reserved.
    pub reserved: u64,
}

impl From<u64> for Coming {
    /// Blocks, wherever they are.
    fn from(bytes: u64) -> Self {
        Coming {
            bytes,
            attributes: 0,
            reserved: 0,
        }
    }
}

impl Coming {
    /// A file's extended attributes.
    pub fn attributes(bytes: u64) -> Self {
        Coming {
            attributes: bytes,
            ..bytes.into()
        }
    }

    /// So many bytes, and so many blocks that are reserved.
    pub fn reserving(bytes: u64, blocks: u64) -> Self {
        Coming {
            reserved: blocks,
            ..bytes.into()
        }
    }

    /// And so many others.
    pub fn and(self, bytes: u64) -> Self {
        Coming {
            bytes: self.bytes + bytes,
            ..self
        }
    }
}

/// What several operations add. The attributes are seen to be no more than all
/// bytes: adding begins with all, taking away and looking with the attributes.
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

/// An operation under way: its promise, and its share of the gate.
pub(crate) struct Operation<'a> {
    pub account: &'a SpaceAccount,
    pub growth: Usage,
    pub coming: Coming,
    pub gate: Option<Ranked<RwLockReadGuard<'a, ()>>>,
}

impl<'a> Operation<'a> {
    /// It will come, and need what it asked for. It has entered the crowd.
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
