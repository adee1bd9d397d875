//! R1 and R2: what the log has room for, and what folding may write.

use crate::base::Base;
use crate::committed::Committed;
use crate::counts::{Counts, ImageCounts, ifile_block_bytes, with_summaries};
use crate::delta::Delta;
use crate::format::UsageDelta;
use crate::format::checkpoint::record_bytes_for;
use crate::format::ifile::ENTRY_BYTES;
use crate::format::node::FANOUT;
use crate::mkfs::Reserve;
use crate::space::{Space, Stock};
use varve_fs::Purpose;

/// Groups of a checkpoint that may be small, one node or block and padding: the
/// last of each of three heights of files' nodes, of the inodes, of the inode map,
/// of the table, and of each height of the nodes above these.
const SMALL_GROUPS: u64 = 9;

/// The part of the room that folding what waits may come to take.
const WAITING_PART: u64 = 4;

impl Stock {
    /// Bytes that `waiting` takes of the log, and what folding it may write once
    /// everything logged has been folded: so a checkpoint may be taken at any moment,
    /// between an answer and the append, too.
    pub fn with_fold(&self, waiting: Counts) -> u64 {
        let fold = waiting.fold_bytes(&self.geometry, &self.image);
        assert!(fold >= self.nothing_bytes, "changes make a fold cheaper");
        fold - self.nothing_bytes
    }

    /// Segments that folding what is logged may fill.
    fn fold_segments(&self) -> u64 {
        self.fold_bytes.div_ceil(self.dependable) + 1
    }

    /// Bytes that can be written while everything so far can still be folded, one
    /// checkpoint more be taken after that, and each further head enter a segment;
    /// `open_bytes` are left of the segment that the log is in.
    pub fn spare_bytes(&self, open_bytes: u64) -> u64 {
        let heads = (self.heads - 1) * u64::from(self.geometry.segment_bytes);
        let kept = self.fold_bytes + self.table_bytes + heads;
        (open_bytes + self.clean * self.dependable).saturating_sub(kept)
    }

    /// True if what folding `waiting` may write leaves most of the space to the
    /// cleaner, what is left of the open segment not counted.
    pub(super) fn may_wait(&self, waiting: Counts) -> bool {
        let fold = Counts {
            bytes: 0,
            ..waiting
        };
        let kept = self.fold_bytes + self.table_bytes;
        let clean = self.clean * self.dependable;
        self.with_fold(fold) <= clean.saturating_sub(kept) / WAITING_PART
    }

    /// Segments that users may not fill: the reserve without the cleaner's slack,
    /// and the spare metadata of so many inodes.
    pub(super) fn low_watermark(&self, inodes: u64) -> u64 {
        let sizes = (self.geometry.segment_bytes, self.geometry.block_bytes);
        let slack = Reserve::of(sizes, self.geometry.segment_count.into()).slack;
        let metadata = self.spare_metadata_bytes(inodes);
        let reserve = self.lives.reserve;
        reserve - slack.min(reserve / 2) + metadata.div_ceil(self.dependable)
    }

    /// Clean segments that an operation must find, the open one left aside.
    pub fn goal(&self, waiting: Counts, purpose: Purpose) -> u64 {
        let least = 3 + self.heads + self.fold_segments();
        let needs = |waiting| self.with_fold(waiting).div_ceil(self.dependable);
        if purpose == Purpose::Shrink {
            return least - 2 + needs(waiting);
        }
        let watermark = self.watermark.max(least);
        if purpose == Purpose::Grow && self.plugs {
            // Most of it is written into holes. If that should fail after all, the
            // reserve has space for it.
            let half = (watermark / 2).max(least);
            let quarter = Counts {
                bytes: waiting.bytes / 4,
                ..waiting
            };
            return (watermark + needs(quarter)).max(half + needs(waiting));
        }
        watermark + needs(waiting)
    }
}

impl Space {
    /// Bytes of a segment that can be counted on: what is lost to a superblock
    /// copy, the tail and padding is left out.
    pub(crate) fn dependable_bytes(&self) -> u64 {
        u64::from(self.geometry.segment_bytes) - 4 * u64::from(self.geometry.write_unit)
    }

    /// Segments that can be written.
    pub fn clean_segments_now(&self) -> u64 {
        u64::from(self.segments.lock().clean_count())
    }

    /// Bytes that are left of the segment that the log is in.
    fn open_bytes(&self) -> u64 {
        let offset = self.log.lock().end.at(0).offset.get();
        let left = self.geometry.segment_bytes.saturating_sub(offset);
        left.saturating_sub(2 * self.geometry.write_unit).into()
    }

    /// Bytes that the log takes before it has no segment to name as the next: what
    /// is left of the one it is in, and every clean one, as one is named already.
    pub(crate) fn room_bytes(&self) -> u64 {
        self.open_bytes() + self.clean_segments_now() * self.dependable_bytes()
    }

    /// Bytes that can be written while R1 stays true.
    pub(crate) fn spare_bytes(&self) -> u64 {
        self.stock().spare_bytes(self.open_bytes())
    }

    /// True if there is space for `waiting` and for all that folding it may write, and
    /// still left what the purpose must leave.
    pub(crate) fn has_room(&self, waiting: Counts, purpose: Purpose) -> bool {
        let stock = self.stock();
        match purpose {
            Purpose::Shrink => stock.with_fold(waiting) <= stock.spare_bytes(self.open_bytes()),
            Purpose::Grow | Purpose::Rewrite => stock.clean >= stock.goal(waiting, purpose),
        }
    }

    /// True if the cleaner may append `bytes` now: what waits, its fold and the
    /// fold of what is there already must fit beside it, and `fold`, what moving
    /// costs the fold.
    pub(crate) fn may_move(&self, bytes: u64, fold: Counts) -> bool {
        let waiting = self.segments.lock().waiting;
        let folding = self.further_bytes(&fold);
        let stock = self.stock();
        stock.with_fold(waiting) + with_summaries(bytes) + folding
            <= stock.spare_bytes(self.open_bytes())
    }

    /// The sums that decide whether a removal is admitted, for messages.
    pub(crate) fn told(&self, waiting: Counts) -> String {
        let stock = self.stock();
        format!(
            "{} clean segments, room {}, fold {}, what waits {} of {waiting:?}",
            stock.clean,
            self.room_bytes(),
            stock.fold_bytes,
            stock.with_fold(waiting)
        )
    }

    /// True if further heads must not enter segments: a group may have each of
    /// them take one.
    pub(crate) fn is_crowded(&self) -> bool {
        self.heads() > 1 && self.clean_segments_now() <= self.fold_segments() + self.heads() as u64
    }

    /// Clean segments beyond what must be kept.
    pub(crate) fn segments_to_spare(&self) -> u64 {
        let stock = self.stock();
        let kept = stock.goal(Counts::default(), Purpose::Grow);
        stock.clean.saturating_sub(kept)
    }

    /// Bytes of the usage table and the index above it, written anew by every
    /// checkpoint at worst, and the rounding of its groups to write units.
    pub(crate) fn table_bytes(&self, next_ino: u64) -> u64 {
        let block_bytes = u64::from(self.geometry.block_bytes);
        let table = u64::from(self.geometry.segment_count) * ENTRY_BYTES as u64;
        let blocks = table.div_ceil(block_bytes);
        let node = self.geometry.largest_node();
        let index = blocks / FANOUT * 2 * node + self.geometry.node_bytes(blocks % FANOUT);
        // What is written before corrections are too many for a record is
        // written again.
        let map = next_ino / self.geometry.entries_per_block() / FANOUT;
        let moved = blocks + blocks / FANOUT + map + 8;
        let times = 1 + u64::from(moved > self.record_room() as u64);
        let table = blocks * ifile_block_bytes(&self.geometry);
        times * (table + index) + SMALL_GROUPS * self.geometry.least_group()
    }

    /// Corrections of the usage table that a record has room for.
    pub(crate) fn record_room(&self) -> usize {
        let slot = self.superblock.record_bytes.get() as usize;
        let fixed = record_bytes_for(self.geometry.inode_bytes as usize, 0, 1);
        (slot - fixed) / size_of::<UsageDelta>()
    }

    /// No index is known to be taller than this.
    pub(crate) fn tallest(&self) -> u8 {
        self.layers.read().tallest()
    }

    /// What a fold may have to write for so many blocks of one file that are moved
    /// together.
    pub(crate) fn fold_of_run(&self, blocks: u64) -> Counts {
        let leaves = blocks.div_ceil(FANOUT) + 1;
        Counts {
            existing: leaves * u64::from(self.tallest()),
            height: self.tallest(),
            inodes: 1,
            map_blocks: 1,
            ..Counts::default()
        }
    }

    /// Most bytes that the files' nodes of the image take when they are written
    /// again.
    pub(crate) fn base_nodes(&self, base: &Base) -> u64 {
        let each = self.geometry.node_growth();
        let growth = base.usage.blocks.saturating_mul(each);
        self.stored_nodes(base).saturating_add(growth)
    }

    /// Bytes that these take as they are.
    pub(super) fn stored_nodes(&self, base: &Base) -> u64 {
        let geometry = &self.geometry;
        let map = geometry.entry_blocks(base.next_ino);
        let table = geometry.entry_blocks(geometry.segment_count.into());
        let ifile = (map + table) * u64::from(geometry.block_bytes);
        base.metadata_bytes.saturating_sub(ifile)
    }

    /// What `delta` is folded into, of which the nodes of all files have so many bytes.
    fn image_of(&self, base: &Base, delta: &Delta, stored: u64) -> ImageCounts {
        let (loose, map_blocks_for_each) = match delta.neighbours_unknown {
            true => (0, 3),
            false => (self.loose_numbers().max(delta.loose), 1),
        };
        ImageCounts {
            stored,
            map_blocks: self.geometry.entry_blocks(delta.next_ino),
            map_blocks_for_each,
            loose,
            unfinished: base.unfinished.len() as u64,
        }
    }

    /// What the live delta is folded into: nodes of the image, and those that a running
    /// checkpoint makes.
    pub(super) fn image_below(&self, committed: &Committed) -> ImageCounts {
        let base = &committed.base;
        let frozen = committed.frozen.as_ref();
        let made = frozen.map_or(0, |frozen| frozen.counts.made_bytes());
        self.image_of(base, &committed.live, self.base_nodes(base) + made)
    }

    /// Most bytes that `more` adds to the fold of the live delta.
    pub(crate) fn further_bytes(&self, more: &Counts) -> u64 {
        let committed = self.layers.read();
        let image = self.image_below(&committed);
        let counts = committed.live.counts();
        counts.further_bytes(more, &self.geometry, &image)
    }

    /// Segments that folding what has changed so far may fill.
    pub(crate) fn fold_segments(&self) -> u64 {
        self.whole_fold_bytes().div_ceil(self.dependable_bytes()) + 1
    }

    /// Most bytes that folding what has changed so far may write, a table included.
    pub(crate) fn whole_fold_bytes(&self) -> u64 {
        let committed = self.layers.read();
        self.fold_without_history(&committed) + self.history_of(&committed)
    }

    /// Most bytes that the next checkpoints write of everything but the history of
    /// snapshots.
    fn fold_without_history(&self, committed: &Committed) -> u64 {
        self.folds_bytes(committed) + self.table_bytes(committed.live.next_ino)
    }

    /// Most bytes that folding both deltas may write, the table and the history left
    /// aside.
    pub(super) fn folds_bytes(&self, committed: &Committed) -> u64 {
        let frozen = committed.frozen.as_ref();
        let frozen = frozen.map_or(0, |frozen| self.fold_bytes(&committed.base, frozen));
        let image = self.image_below(committed);
        let live = committed.live.counts();
        live.fold_bytes(&self.geometry, &image) + frozen
    }

    /// Most bytes that folding `delta` into this image may write, the usage table
    /// left aside.
    pub(crate) fn fold_bytes(&self, base: &Base, delta: &Delta) -> u64 {
        let image = self.image_of(base, delta, self.base_nodes(base));
        delta.counts().fold_bytes(&self.geometry, &image)
    }

    /// True if as many as `checkpoints`, taken now, are sure to find room in the segments
    /// that are known to be clean.
    pub(crate) fn checkpoints_fit_now(&self, checkpoints: u32) -> bool {
        let (fold, history) = {
            let committed = self.layers.read();
            (
                self.fold_without_history(&committed),
                self.history_of(&committed),
            )
        };
        self.room_bytes() >= u64::from(checkpoints) * fold + history
    }

    /// True if what a checkpoint may write is about to take the segments that
    /// users could fill.
    pub(crate) fn checkpoint_presses(&self) -> bool {
        let bytes = self.fold_without_history(&self.layers.read());
        let fold = bytes.div_ceil(self.dependable_bytes()) + 1;
        fold > 3 && self.clean_segments_now() < fold + fold / 4 + 5
    }
}
