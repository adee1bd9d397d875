//! Both forms of block accounting, and the reserve (thesis §6.2.2).
//!
//! The first form asks whether everything on the volume fits: the price of
//! what lives, metadata included, against the segments outside the reserve.
//! It is exact after each checkpoint and pessimistic in between, so a refusal
//! takes a checkpoint first. The second form asks whether the *clean* segments
//! can take what waits in memory; if not, the caller helps to clean.

use crate::allowance::Grant;
use crate::base::Base;
use crate::cleaner::{PATIENCE_NS, Urgency};
use crate::committed::Committed;
use crate::delta::Delta;
use crate::error::{Error, Result};
use crate::format::ifile::ENTRY_BYTES;
use crate::format::node::FANOUT;
use crate::lfs::Lfs;
use crate::price::BelowFold;
use varve_device::sync::atomic::Ordering::Relaxed;
use varve_fs::{Purpose, StatFs, Usage, Waiting};

/// Summary bytes charged for a block.
const BLOCK_OVERHEAD: u64 = 48;
/// Bytes charged for an inode beside its image: entry, map entry, padding.
const INODE_OVERHEAD: u64 = 80;
/// Groups of a checkpoint that may be small, one node or block and padding: the
/// last of each of three heights of files' nodes, of the inodes, of the inode map,
/// of the table, and of each height of the nodes above these.
const SMALL_GROUPS: u64 = 9;
/// Metadata bytes assumed for a block or inode that no group holds yet.
const PENDING_ENTRY: u64 = 48;
/// Metadata bytes one block can cost: an index node that holds only it, and
/// its share of the nodes above.
const ENTRY_AT_MOST: u64 = 700;
/// Rounds of cleaning one caller helps with before giving up.
const MAX_ROUNDS: u32 = 64;
/// Rounds without gain after which the volume counts as full.
const MAX_IDLE_ROUNDS: u32 = 3;

/// Whether everything on the volume fits into its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Yes,
    /// Not by the estimate of what has not been folded; a checkpoint will tell.
    PerhapsFolded,
    No,
}

/// Bytes of index, inode map and usage table.
#[derive(Clone, Copy, Debug)]
struct Metadata {
    /// As the last checkpoint counted them.
    counted: u64,
    /// What the next checkpoint may add for groups appended since: an upper
    /// bound.
    unfolded: u64,
    /// An estimate for what waits in memory.
    unlogged: u64,
    /// What the next checkpoint may find gone: an upper bound.
    perhaps_gone: u64,
}

/// When a caller was refused although everything would have fitted: asking
/// again is in vain until something has changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    bytes: u64,
    data_bytes: u64,
    sectors: u64,
}

/// Blocks and inodes in `a` beyond those in `b`.
fn entries_beyond(a: Usage, b: Usage) -> u64 {
    a.blocks.saturating_sub(b.blocks) + a.inodes.saturating_sub(b.inodes)
}

impl Lfs {
    /// Bytes of a segment that can be counted on: what is lost to a superblock
    /// copy, the tail and padding is left out.
    pub(crate) fn dependable_bytes(&self) -> u64 {
        u64::from(self.geometry.segment_bytes) - 4 * u64::from(self.geometry.write_unit)
    }

    /// Segments held back from users: as mkfs counted for one head, and two for
    /// each further head, which has one open and one named.
    pub(crate) fn reserve(&self) -> u64 {
        u64::from(self.geometry.reserve_segments) + 2 * (self.heads as u64 - 1)
    }

    fn capacity(&self) -> u64 {
        let segments = u64::from(self.geometry.segment_count).saturating_sub(self.reserve());
        segments * self.dependable_bytes()
    }

    /// The price of what lives, and what metadata may grow by with no block more.
    fn price(&self, usage: Usage) -> u64 {
        let inode = u64::from(self.geometry.inode_bytes) + INODE_OVERHEAD;
        let sectors = usage.sectors.saturating_mul(512);
        let overhead = BLOCK_OVERHEAD + self.geometry.node_growth();
        let blocks = usage.blocks.saturating_mul(overhead);
        sectors
            .saturating_add(blocks)
            .saturating_add(usage.inodes.saturating_mul(inode))
    }

    /// What the index, the inode map and the table take.
    fn metadata(&self, total: Usage) -> Metadata {
        let logged = self.log.lock().usage;
        let committed = self.committed.read();
        let base = &committed.base;
        let deltas = [Some(&committed.live), committed.frozen.as_deref()];
        let deltas = || deltas.iter().flatten();
        let folds: u64 = deltas().map(|delta| delta.file_fold_bytes).sum();
        let written: u64 = deltas().map(|delta| delta.log_bytes).sum();
        let grown = entries_beyond(logged, base.usage);
        let perhaps_gone = if !deltas().any(|delta| delta.removes) {
            0
        } else if written >= u64::from(self.geometry.segment_bytes) {
            base.metadata_bytes
        } else {
            entries_beyond(base.usage, logged) * ENTRY_AT_MOST
        };
        Metadata {
            counted: base.metadata_bytes,
            unfolded: folds.min(grown * ENTRY_AT_MOST),
            unlogged: entries_beyond(total, logged) * PENDING_ENTRY,
            perhaps_gone: perhaps_gone.min(base.metadata_bytes),
        }
    }

    fn fits(&self, total: Usage) -> Fit {
        let (price, capacity) = (self.price(total), self.capacity());
        let at_most = {
            let base = &self.committed.read().base;
            base.metadata_bytes + entries_beyond(total, base.usage) * ENTRY_AT_MOST
        };
        if price.saturating_add(at_most) <= capacity {
            return Fit::Yes;
        }
        let metadata = self.metadata(total);
        let known = price.saturating_add(metadata.counted + metadata.unlogged);
        if known.saturating_add(metadata.unfolded) <= capacity {
            Fit::Yes
        } else if known <= capacity.saturating_add(metadata.perhaps_gone) {
            Fit::PerhapsFolded
        } else {
            Fit::No
        }
    }

    /// Bytes of the usage table and the index above it, written anew by every
    /// checkpoint at worst, and the rounding of its groups to write units.
    pub(crate) fn table_bytes(&self, next_ino: u64) -> u64 {
        let block_bytes = u64::from(self.geometry.block_bytes);
        let table = u64::from(self.geometry.segment_count) * ENTRY_BYTES as u64;
        let blocks = table.div_ceil(block_bytes);
        let node = self.geometry.node_price();
        let index = blocks / FANOUT * 2 * node + self.geometry.node_bytes(blocks % FANOUT);
        // What is written before corrections are too many for a record is
        // written again.
        let map = next_ino / self.geometry.entries_per_block() / FANOUT;
        let moved = blocks + blocks / FANOUT + map + 8;
        let times = 1 + u64::from(moved > self.record_room() as u64);
        times * (blocks * block_bytes / 8 * 9 + index) + SMALL_GROUPS * self.geometry.least_group()
    }

    /// Bytes that `bytes` more take of the log, and what folding those may write
    /// on top of what folding everything so far may; `waiting` of these, and of
    /// which files they are is not known.
    fn with_fold(&self, bytes: u64, waiting: u64) -> u64 {
        let committed = self.committed.read();
        let existing = self.existing_nodes(&committed);
        bytes
            + bytes / 8
            + committed
                .live
                .further_leaf_bytes(&self.geometry, existing, bytes)
            + committed.live.further_imap_bytes(&self.geometry, waiting)
    }

    /// Most bytes that the nodes of the image take when they are written again.
    pub(crate) fn base_nodes(&self, base: &Base) -> u64 {
        let each = self.geometry.node_growth();
        let growth = base.usage.blocks.saturating_mul(each);
        base.metadata_bytes.saturating_add(growth)
    }

    /// The same of all nodes that the live delta can find below it: those of the
    /// image, and those that a running checkpoint makes.
    fn existing_nodes(&self, committed: &Committed) -> u64 {
        let frozen = committed.frozen.as_ref();
        let frozen = frozen.map_or(0, |frozen| frozen.file_fold_bytes);
        self.base_nodes(&committed.base) + frozen
    }

    /// Segments that folding what has changed so far may fill.
    pub(crate) fn fold_segments(&self) -> u64 {
        let committed = self.committed.read();
        let base = &committed.base;
        let frozen = committed.frozen.as_ref();
        let frozen = frozen.map_or(0, |frozen| self.fold_bytes(base, frozen));
        let below = BelowFold {
            node_bytes: self.existing_nodes(&committed),
            unfinished: base.unfinished.len() as u64,
        };
        let live = committed.live.fold_bytes(&self.geometry, below);
        (live + frozen + self.table_bytes(committed.live.next_ino))
            .div_ceil(self.dependable_bytes())
            + 1
    }

    /// Most bytes that folding `delta` into this image may write, the usage table
    /// left aside.
    pub(crate) fn fold_bytes(&self, base: &Base, delta: &Delta) -> u64 {
        let below = BelowFold {
            node_bytes: self.base_nodes(base),
            unfinished: base.unfinished.len() as u64,
        };
        delta.fold_bytes(&self.geometry, below)
    }

    /// True if a checkpoint taken now is sure to find room.
    pub(crate) fn checkpoint_fits(&self) -> bool {
        self.checkpoints_fit(1)
    }

    /// True if as many as `checkpoints`, taken now, are sure to find room.
    pub(crate) fn checkpoints_fit(&self, checkpoints: u32) -> bool {
        self.checkpoints_fit_now(checkpoints) || {
            self.look_for_room();
            self.checkpoints_fit_now(checkpoints)
        }
    }

    /// The same, of the segments that are known to be clean.
    pub(crate) fn checkpoints_fit_now(&self, checkpoints: u32) -> bool {
        self.clean_segments_now() + 1 >= u64::from(checkpoints) * self.fold_segments()
    }

    /// True if what a checkpoint may write is about to take the segments that
    /// users could fill.
    pub(crate) fn checkpoint_presses(&self) -> bool {
        let fold = self.fold_segments();
        fold > 3 && self.clean_segments_now() < fold + fold / 4 + 5
    }

    /// The reserve without the cleaner's slack: segments users may not fill.
    pub(crate) fn floor(&self) -> u64 {
        let reserve = self.reserve();
        reserve
            - crate::mkfs::slack_segments(u64::from(self.geometry.segment_count)).min(reserve / 2)
    }

    /// Answers for [`varve_fs::Layout::admit`].
    ///
    /// # Errors
    /// `OutOfSegments`, or what a checkpoint or the cleaner failed with.
    pub(crate) fn make_room(&self, total: Usage, waiting: Waiting, purpose: Purpose) -> Result<()> {
        let purpose = match purpose {
            // What is written anew takes as much of the log as what is new.
            Purpose::Rewrite => Purpose::Grow,
            other => other,
        };
        let bytes = waiting.certain() + waiting.asked;
        if self.allowance.covers(total, bytes) {
            return Ok(());
        }
        self.control.asked();
        let state = self.allowance.state();
        self.take_checkpoint_if(Lfs::delta_overdue)?;
        if purpose == Purpose::Grow {
            self.fit(total)?;
        }
        self.segments.lock().waiting_bytes = waiting.certain();
        if self.has_room(bytes, purpose) {
            self.segments.lock().waiting_bytes = bytes;
            if purpose != Purpose::Grow || !self.pay_toll() {
                self.clean_ahead(bytes, purpose)?;
            }
            self.allow_beyond(state, total, bytes);
            return Ok(());
        }
        let _in_need = self.control.in_need();
        let patience_ns = match purpose {
            Purpose::Grow | Purpose::Rewrite => PATIENCE_NS,
            Purpose::Shrink => 0,
        };
        let waited = self.wait_for_cleaner(patience_ns, || self.has_room(bytes, purpose));
        let Some(mut cleaning) = waited else {
            return Ok(());
        };
        let refusal = Refusal {
            bytes,
            data_bytes: self.counters.data_bytes.load(Relaxed),
            sectors: self.log.lock().usage.sectors,
        };
        let again = cleaning
            .refused
            .is_some_and(|last| self.nothing_changed(last, refusal));
        if again && purpose == Purpose::Grow && !self.has_room(bytes, purpose) {
            return Err(Error::OutOfSegments);
        }
        let (mut idle, mut most) = (0, self.clean_segments_now());
        for _ in 0..MAX_ROUNDS {
            if self.has_room(bytes, purpose) {
                cleaning.refused = None;
                return Ok(());
            }
            // A round may only prepare the next one's gain: copies and nodes
            // displaced now come back two checkpoints later.
            let goal = self.goal(bytes, purpose) + self.batch_segments();
            let cleaned = self.gain_segments(&cleaning, Urgency::Waiting, goal)?;
            let clean = self.clean_segments_now();
            idle = if clean > most { 0 } else { idle + 1 };
            most = most.max(clean);
            if idle > MAX_IDLE_ROUNDS || (idle > 1 && cleaned == 0) {
                break;
            }
        }
        if self.has_room(bytes, purpose) {
            return Ok(());
        }
        cleaning.refused = Some(refusal);
        Err(Error::OutOfSegments)
    }

    /// Allows more than was asked for, if there is so much room that nobody
    /// needs to fold or clean for it. `state` was read before that was asked.
    fn allow_beyond(&self, state: u64, total: Usage, bytes: u64) {
        let grant = Grant::beyond(state, total, bytes);
        let ample = self.fits(grant.total) == Fit::Yes
            && self.clean_segments_now()
                >= self.goal(grant.bytes, Purpose::Grow) + self.batch_segments() / 2
            && !self.delta_overdue();
        if ample {
            self.segments.lock().waiting_bytes = grant.bytes;
            self.allowance.grant(grant);
        }
    }

    /// The first form of accounting: `total` fits, folded if need be.
    fn fit(&self, total: Usage) -> Result<()> {
        // A refusal costs nothing, however often it is asked for.
        if self.fits(total) == Fit::PerhapsFolded {
            let _in_need = self.control.in_need();
            let folded = || self.fits(total) != Fit::PerhapsFolded;
            let _one_at_a_time = self.wait_for_cleaner(0, folded);
            self.take_checkpoint_if(|lfs| lfs.fits(total) == Fit::PerhapsFolded)?;
        }
        match self.fits(total) {
            Fit::Yes => Ok(()),
            Fit::PerhapsFolded | Fit::No => Err(Error::OutOfSegments),
        }
    }

    fn nothing_changed(&self, last: Refusal, now: Refusal) -> bool {
        let segment = u64::from(self.geometry.segment_bytes);
        now.bytes >= last.bytes
            && now.data_bytes - last.data_bytes < segment
            && now.sectors + segment / 2048 > last.sectors
    }

    /// Cleans before it is needed, if nobody else does and enough has been
    /// used up since the last time.
    fn clean_ahead(&self, bytes: u64, purpose: Purpose) -> Result<()> {
        let goal = self.goal(bytes, Purpose::Grow);
        let clean = self.clean_segments_now();
        let batch = match purpose {
            Purpose::Grow | Purpose::Rewrite => self.batch_segments() / 2,
            // Only what has been taken from the reserve is made good.
            Purpose::Shrink => 0,
        };
        if clean >= goal + batch {
            return Ok(());
        }
        let Some(mut cleaning) = self.try_lock_cleaning() else {
            return Ok(());
        };
        let step = (batch / 2).max(1);
        if cleaning
            .rested_at
            .is_some_and(|at| clean.abs_diff(at) < step)
        {
            return Ok(());
        }
        let outcome = self.gain_segments(&cleaning, Urgency::Ahead, goal + 2 * batch + 1);
        cleaning.rested_at = Some(self.clean_segments_now());
        outcome.map(|_| ())
    }

    pub(crate) fn clean_segments_now(&self) -> u64 {
        u64::from(self.segments.lock().clean_count())
    }

    /// True if clean segments can take `bytes`, what folding them later may
    /// write, and what folding everything so far may write, and still leave
    /// what the purpose must leave.
    fn has_room(&self, bytes: u64, purpose: Purpose) -> bool {
        let goal = self.goal(bytes, purpose);
        self.clean_segments_now() >= goal
    }

    /// Clean segments that [`Lfs::has_room`] asks for.
    pub(crate) fn goal(&self, bytes: u64, purpose: Purpose) -> u64 {
        let fold = self.fold_segments();
        let floor = match purpose {
            Purpose::Grow | Purpose::Rewrite => self.floor().max(3 + self.heads as u64 + fold),
            Purpose::Shrink => 1 + self.heads as u64 + fold,
        };
        let needs = |bytes: u64| {
            self.with_fold(bytes, bytes)
                .div_ceil(self.dependable_bytes())
        };
        if purpose == Purpose::Grow && self.control.plugs.is_expected() {
            // Most of it goes into holes. If that should fail after all, the
            // reserve has room for it.
            let least = (floor / 2).max(3 + self.heads as u64 + fold);
            return (floor + needs(bytes / 4)).max(least + needs(bytes));
        }
        floor + needs(bytes)
    }

    /// True if further heads must not enter segments: a group may have each of
    /// them take one.
    pub(crate) fn is_crowded(&self) -> bool {
        self.heads > 1 && self.clean_segments_now() <= self.fold_segments() + self.heads as u64
    }

    /// Clean segments beyond what must be kept.
    pub(crate) fn segments_to_spare(&self) -> u64 {
        let kept = self.goal(0, Purpose::Grow);
        self.clean_segments_now().saturating_sub(kept)
    }

    /// True if the cleaner may append `bytes` now: moving a block may cost a
    /// node in the next fold, and what waits, its fold and the fold of what is
    /// there already must fit beside it, and a segment that each head enters.
    /// `fold_bytes` are what is known of the fold beside that.
    pub(crate) fn may_move(&self, bytes: u64, fold_bytes: u64) -> bool {
        let (fold, heads) = (self.fold_segments(), self.heads as u64);
        let (clean, waiting) = {
            let segments = self.segments.lock();
            (u64::from(segments.clean_count()), segments.waiting_bytes)
        };
        let free = clean.saturating_sub(fold + heads) * self.dependable_bytes();
        self.with_fold(bytes + waiting, waiting) + fold_bytes <= free
    }

    /// True if this part of the capacity is neither used nor going to be.
    pub(crate) fn has_slack(&self, part: u64) -> bool {
        let total = self.log.lock().usage;
        let metadata = self.metadata(total);
        let used = self.price(total).saturating_add(metadata.counted);
        self.capacity().saturating_sub(used) >= self.capacity() / part
    }

    pub(crate) fn answer_statfs(&self, total: Usage) -> StatFs {
        let block = u64::from(self.geometry.block_bytes);
        let metadata = self.metadata(total);
        let used = self
            .price(total)
            .saturating_add(metadata.counted + metadata.unlogged);
        let capacity = self.capacity();
        let free = capacity.saturating_sub(used);
        let per_inode = u64::from(self.geometry.inode_bytes) + INODE_OVERHEAD;
        StatFs {
            blocks: capacity / block,
            free: free / block,
            files: total.inodes,
            files_free: free / per_inode,
        }
    }
}
