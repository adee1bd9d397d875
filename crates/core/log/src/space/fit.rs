//! R3: whether everything on the volume fits, and what statfs says.
//!
//! What lives is priced, metadata included, against the segments outside the
//! reserve. It is exact after each checkpoint and pessimistic in between, so a
//! refusal takes a checkpoint first.

use crate::counts::Counts;
use crate::format::ifile::ENTRY_BYTES;
use crate::geometry::Geometry;
use crate::lfs::Lfs;
use varve_fs::planted::{self, Planted};
use varve_fs::{StatFs, Usage};

/// Summary bytes charged for a block.
const BLOCK_OVERHEAD: u64 = 48;
/// Bytes charged for an inode beside its image: its entry in a summary, padding.
const INODE_OVERHEAD: u64 = 48;
/// Inode maps, beside the one that lives, for which there is always room: one is
/// written while the two before it are kept by the retained records.
const SPARE_MAPS: u64 = 2;
/// The same of index nodes: to move a block the nodes above it are written.
const SPARE_NODES: u64 = 2;
/// Numbers that may be given out beyond those in use.
const NUMBERS_BESIDE: u64 = 64;

/// Whether everything on the volume fits into its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Yes,
    /// Not by the estimate of what has not been folded; a checkpoint will tell.
    PerhapsFolded,
    No,
}

/// Bytes of index, inode map and usage table.
#[derive(Clone, Copy, Debug)]
struct Metadata {
    /// As the last checkpoint counted them, and what the inode map will have grown
    /// by.
    counted: u64,
    /// What the next checkpoint may add for groups appended since, and those
    /// after it for what waits in memory: an upper bound.
    unfolded: u64,
    /// What the next checkpoint may find gone: an upper bound.
    perhaps_gone: u64,
}

/// Blocks and inodes in `a` beyond those in `b`.
fn entries_beyond(a: Usage, b: Usage) -> u64 {
    a.blocks.saturating_sub(b.blocks) + a.inodes.saturating_sub(b.inodes)
}

/// The price of a tree, and of what metadata may grow by with no block more.
pub(super) fn price(usage: Usage, geometry: &Geometry) -> u64 {
    let inode = u64::from(geometry.inode_bytes) + INODE_OVERHEAD;
    let sectors = usage.sectors.saturating_mul(512);
    let overhead = BLOCK_OVERHEAD + geometry.node_growth();
    let blocks = usage.blocks.saturating_mul(overhead);
    sectors
        .saturating_add(blocks)
        .saturating_add(usage.inodes.saturating_mul(inode))
}

impl Lfs {
    /// Segments held back from users: as mkfs counted for one head, and two for
    /// each further head, which has one open and one named.
    pub(crate) fn reserve(&self) -> u64 {
        if planted::is(Planted::ReserveForgotten) {
            return 1;
        }
        u64::from(self.geometry.reserve_segments) + 2 * (self.heads as u64 - 1)
    }

    /// Bytes of all segments outside the reserve.
    fn capacity(&self) -> u64 {
        let segments = u64::from(self.geometry.segment_count).saturating_sub(self.reserve());
        segments * self.dependable_bytes()
    }

    /// Blocks of the inode map of a volume that has come to hold so many inodes, and
    /// those of them with the entry of an inode, at most.
    fn map_blocks(&self, inodes: u64) -> (u64, u64) {
        let next_ino = self.committed.read().live.next_ino;
        let inodes = inodes.saturating_add(NUMBERS_BESIDE);
        let all = self.geometry.entry_blocks(next_ino.max(inodes));
        (all, all.min(inodes))
    }

    /// Bytes of metadata for which there is always room, beside what lives: of the
    /// inode maps the blocks that can change without anything being made, and the
    /// index nodes.
    pub(super) fn spare_metadata_bytes(&self, inodes: u64) -> u64 {
        let (_, used) = self.map_blocks(inodes);
        let maps = SPARE_MAPS * used * crate::counts::ifile_block_bytes(&self.geometry);
        let nodes = self.stored_nodes(&self.committed.read().base);
        maps + SPARE_NODES * nodes
    }

    /// What the index, the inode map and the table take, and the spare maps.
    fn metadata(&self, total: Usage, waiting: Counts) -> Metadata {
        let (map, _) = self.map_blocks(total.inodes);
        let spare = self.spare_metadata_bytes(total.inodes);
        let committed = self.committed.read();
        let (base, logged) = (&committed.base, committed.usage);
        let height = committed.tallest().max(1);
        let at_most = crate::counts::new_node_bytes(height.into(), 1);
        let deltas = [Some(&committed.live), committed.frozen.as_deref()];
        let deltas = || deltas.iter().flatten();
        let folds: u64 = deltas().map(|delta| delta.counts.made_bytes()).sum();
        let written: u64 = deltas().map(|delta| delta.log_bytes).sum();
        let grown = entries_beyond(logged, base.usage);
        let perhaps_gone = if !deltas().any(|delta| delta.removes) {
            0
        } else if written >= u64::from(self.geometry.segment_bytes) {
            base.metadata_bytes
        } else {
            entries_beyond(base.usage, logged).saturating_mul(at_most)
        };
        // A node comes and goes with its spare ones.
        let with_spare = |bytes: u64| (1 + SPARE_NODES).saturating_mul(bytes);
        let nodes = folds.min(grown.saturating_mul(at_most));
        let stored = self.geometry.entry_blocks(base.next_ino);
        let grown_map = map.saturating_sub(stored) * u64::from(self.geometry.block_bytes);
        Metadata {
            counted: base.metadata_bytes + grown_map + spare,
            unfolded: with_spare(nodes).saturating_add(waiting.added),
            perhaps_gone: with_spare(perhaps_gone.min(base.metadata_bytes)),
        }
    }

    /// Whether `total` fits, of which `waiting` waits in memory.
    pub(crate) fn fits(&self, total: Usage, waiting: Counts) -> Fit {
        let (price, capacity) = (price(total, &self.geometry), self.capacity());
        let metadata = self.metadata(total, waiting);
        let known = price.saturating_add(metadata.counted);
        if known.saturating_add(metadata.unfolded) <= capacity {
            Fit::Yes
        } else if known <= capacity.saturating_add(metadata.perhaps_gone) {
            Fit::PerhapsFolded
        } else {
            Fit::No
        }
    }

    /// Bytes that the tree `total` may take, metadata of the log left aside.
    pub(super) fn living_bytes(&self, total: Usage) -> u64 {
        let metadata = self.metadata(total, Counts::default());
        let taken = metadata.counted.saturating_add(metadata.unfolded);
        self.capacity().saturating_sub(taken)
    }

    /// Bytes that the segments outside the reserve must have for what is on the
    /// volume: an upper bound.
    pub(crate) fn held_bytes(&self) -> u64 {
        let total = self.committed.read().usage;
        let metadata = self.metadata(total, Counts::default());
        let known = price(total, &self.geometry).saturating_add(metadata.counted);
        known.saturating_add(metadata.unfolded)
    }

    /// Answers for [`varve_fs::Layout::statfs`]: in blocks with all that each
    /// costs, so that what is said to be free can be had.
    pub(crate) fn answer_statfs(&self, total: Usage) -> StatFs {
        let leaf = self.geometry.node_bytes(crate::format::node::FANOUT);
        let index = leaf * 31 / 30 / crate::format::node::FANOUT + 1;
        let index = (1 + SPARE_NODES) * index;
        let block = u64::from(self.geometry.block_bytes) + BLOCK_OVERHEAD + index;
        let metadata = self.metadata(total, Counts::default());
        let used = price(total, &self.geometry).saturating_add(metadata.counted);
        let capacity = self.capacity();
        let free = capacity.saturating_sub(used);
        let entries = (1 + SPARE_MAPS) * ENTRY_BYTES as u64 * 33 / 32;
        let per_inode = u64::from(self.geometry.inode_bytes) + INODE_OVERHEAD + entries;
        StatFs {
            blocks: capacity / block,
            free: free / block,
            files: total.inodes,
            files_free: free / per_inode,
        }
    }
}
