//! Space for snapshots: what listing displaced blocks may write, and giving way.
//!
//! A block of the newest snapshot is listed at most once, and so is an inode image. So
//! all folds until the next snapshot write at most
//! `64 * blocks_left + (32 + inode_bytes) * images_left` bytes of entries. That many are
//! kept free while there is a snapshot (R1), and no growth takes them (R3); so removals
//! stay admitted, although they free nothing that a snapshot keeps.

use crate::base::Base;
use crate::committed::Committed;
use crate::format::history::{DisplacedBlock, ImageHeader};
use crate::format::node::FANOUT;
use crate::space::Space;
use varve_fs::Usage;

/// Most bytes of runs that one checkpoint merges.
const MERGED_BYTES: u64 = 64 << 20;

impl Space {
    /// Most bytes that folds may write for snapshots until the next one is taken: entries,
    /// the directory, and the index above them. `kept` moved blocks wait for their
    /// entries, and `snapshot` is what a snapshot has that is being taken.
    pub(crate) fn history_bytes(&self, base: &Base, kept: usize, snapshot: Option<Usage>) -> u64 {
        let history = &base.history;
        if history.inode.is_none() && snapshot.is_none() {
            return 0;
        }
        let directory = &history.directory;
        let (new_blocks, new_images) =
            snapshot.map_or((0, 0), |usage| (usage.blocks + usage.inodes, usage.inodes));
        let blocks = directory.blocks_left + new_blocks + kept as u64;
        let images = directory.images_left + new_images;
        let image = size_of::<ImageHeader>() as u64 + u64::from(self.geometry.inode_bytes);
        let entries = blocks
            .saturating_mul(size_of::<DisplacedBlock>() as u64)
            .saturating_add(images.saturating_mul(image));
        let block_bytes = u64::from(self.geometry.block_bytes);
        let rows =
            64 * (directory.runs.len() + 8) as u64 + 296 * (directory.snapshots.len() + 1) as u64;
        let pages = entries / block_bytes + rows / block_bytes + 16;
        let nodes = pages / FANOUT * 2 + 8;
        let bytes = pages
            .saturating_mul(block_bytes)
            .saturating_add(nodes * self.geometry.largest_node());
        bytes + bytes / 8 + 4 * self.geometry.least_group()
    }

    /// [`Space::history_bytes`] of what has been committed.
    pub(super) fn history_of(&self, committed: &Committed) -> u64 {
        let frozen = committed.frozen.as_deref();
        let kept = committed.live.kept.len() + frozen.map_or(0, |frozen| frozen.kept.len());
        let snapshot = frozen.and_then(|frozen| frozen.snapshot);
        self.history_bytes(&committed.base, kept, snapshot)
    }

    /// Bytes that snapshots have in addition to the tree: those that are listed, with what
    /// is kept free for entries, and an upper bound of those that the deltas have
    /// displaced since, which is as many blocks as they have and the tree has lost.
    pub(super) fn kept_bytes(&self, committed: &Committed) -> (u64, u64) {
        let entries = self.history_of(committed);
        if entries == 0 {
            return (0, 0);
        }
        let base = &committed.base;
        let frozen = committed.frozen.as_deref();
        let new = frozen.and_then(|frozen| frozen.snapshot);
        let left = base.history.directory.blocks_left + new.map_or(0, |usage| usage.blocks);
        let written = committed.live.held_blocks + frozen.map_or(0, |delta| delta.held_blocks);
        let lost = base.usage.blocks.saturating_sub(committed.usage.blocks);
        let displaced = left.min(written + lost) * u64::from(self.geometry.block_bytes);
        (base.history.bytes() + entries, displaced)
    }

    /// Bytes of runs that a checkpoint may merge: none where space is short.
    pub(crate) fn merge_allowance(&self) -> u64 {
        let committed = self.layers.read();
        let has_runs = !committed.base.history.directory.runs.is_empty();
        drop(committed);
        let spare = self.segments_to_spare() * self.dependable_bytes();
        match has_runs && spare > 4 * MERGED_BYTES {
            true => MERGED_BYTES,
            false if has_runs => spare / 4,
            false => 0,
        }
    }
}
