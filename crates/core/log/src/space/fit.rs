//! R3: whether everything on the volume fits, and what statfs says.
//!
//! What lives is priced, metadata included, against the segments outside the
//! reserve. It is exact after each checkpoint and pessimistic in between, so a
//! refusal takes a checkpoint first.

use crate::committed::Committed;
use crate::counts::Counts;
use crate::format::ifile::ENTRY_BYTES;
use crate::geometry::Geometry;
use crate::space::{Space, Stock};
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

/// What lives on the volume. Metadata is what the last checkpoint counted, and what
/// folds since then change: *new* ≤ `unfolded`, *gone* ≤ `perhaps_gone`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveCounts {
    /// Segments held back from users.
    pub reserve: u64,
    /// Bytes of all metadata at the last checkpoint.
    base_bytes: u64,
    /// Bytes of index nodes among these.
    node_bytes: u64,
    /// Blocks of the inode map among these.
    map_blocks: u64,
    /// The lowest inode number never given out.
    next_ino: u64,
    /// Upper bound of what the next checkpoint may add for groups appended since.
    unfolded: u64,
    /// Upper bound of what the next checkpoint may find gone.
    perhaps_gone: u64,
    /// Bytes that snapshots have and the tree has not: listed, displaced and not folded
    /// yet, or kept free for entries.
    pub history: u64,
}

#[cfg(test)]
impl LiveCounts {
    /// Of an empty volume with so many segments in reserve.
    pub fn of_nothing(reserve: u64, geometry: &Geometry) -> Self {
        LiveCounts {
            reserve,
            base_bytes: 0,
            node_bytes: 0,
            map_blocks: geometry.entry_blocks(1),
            next_ino: 1,
            unfolded: 0,
            perhaps_gone: 0,
            history: 0,
        }
    }
}

/// Blocks and inodes in `a` beyond those in `b`.
fn entries_beyond(a: Usage, b: Usage) -> u64 {
    a.blocks.saturating_sub(b.blocks) + a.inodes.saturating_sub(b.inodes)
}

/// The price of a tree, and of what metadata may grow by with no block more.
fn price(usage: Usage, geometry: &Geometry) -> u64 {
    let inode = u64::from(geometry.inode_bytes) + INODE_OVERHEAD;
    let sectors = usage.sectors.saturating_mul(512);
    let overhead = BLOCK_OVERHEAD + geometry.node_growth();
    let blocks = usage.blocks.saturating_mul(overhead);
    sectors
        .saturating_add(blocks)
        .saturating_add(usage.inodes.saturating_mul(inode))
}

impl Stock {
    /// Bytes of all segments outside the reserve.
    fn capacity(&self) -> u64 {
        let segments = u64::from(self.geometry.segment_count).saturating_sub(self.lives.reserve);
        segments * self.dependable
    }

    /// Blocks of the inode map of a volume that has come to hold so many inodes, and
    /// those of them with the entry of an inode, at most.
    fn map_blocks(&self, inodes: u64) -> (u64, u64) {
        let inodes = inodes.saturating_add(NUMBERS_BESIDE);
        let all = self.geometry.entry_blocks(self.lives.next_ino.max(inodes));
        (all, all.min(inodes))
    }

    /// Bytes of metadata for which there is always space, in addition to what lives: of
    /// the inode maps the blocks that can change without anything being made, and the
    /// index nodes.
    pub(super) fn spare_metadata_bytes(&self, inodes: u64) -> u64 {
        let (_, used) = self.map_blocks(inodes);
        let maps = SPARE_MAPS * used * crate::counts::ifile_block_bytes(&self.geometry);
        maps + SPARE_NODES * self.lives.node_bytes
    }

    /// Bytes that the tree `total` takes with its metadata, as the last checkpoint
    /// counted that and with what the inode map will have grown by.
    fn known_bytes(&self, total: Usage) -> u64 {
        let (map, _) = self.map_blocks(total.inodes);
        let grown = map.saturating_sub(self.lives.map_blocks);
        let grown = grown * u64::from(self.geometry.block_bytes);
        let metadata = self.lives.base_bytes + grown + self.spare_metadata_bytes(total.inodes);
        price(total, &self.geometry).saturating_add(metadata + self.lives.history)
    }

    /// Whether `total` fits, of which `waiting` waits in memory (R3). No checkpoint makes
    /// the nodes of waiting changes fewer, so none is taken for these.
    pub fn fits(&self, total: Usage, waiting: Counts) -> Fit {
        let (known, capacity) = (self.known_bytes(total), self.capacity());
        // A changed block may displace one that a snapshot has.
        let displaced = match self.lives.history {
            0 => 0,
            _ => waiting.bytes,
        };
        let with_waiting = known.saturating_add(waiting.added + displaced);
        if with_waiting.saturating_add(self.lives.unfolded) <= capacity {
            Fit::Yes
        } else if with_waiting <= capacity.saturating_add(self.lives.perhaps_gone) {
            Fit::PerhapsFolded
        } else {
            Fit::No
        }
    }

    /// Answers for [`varve_fs::Layout::statfs`]: in blocks with all that each
    /// costs, so that as many as are called free can be written.
    pub fn statfs(&self, total: Usage) -> StatFs {
        let geometry = &self.geometry;
        let leaf = geometry.node_bytes(crate::format::node::FANOUT);
        let index = leaf * 31 / 30 / crate::format::node::FANOUT + 1;
        let index = (1 + SPARE_NODES) * index;
        let block = u64::from(geometry.block_bytes) + BLOCK_OVERHEAD + index;
        let capacity = self.capacity();
        let free = capacity.saturating_sub(self.known_bytes(total));
        let entries = (1 + SPARE_MAPS) * ENTRY_BYTES as u64 * 33 / 32;
        let per_inode = u64::from(geometry.inode_bytes) + INODE_OVERHEAD + entries;
        StatFs {
            blocks: capacity / block,
            free: free / block,
            files: total.inodes,
            files_free: free / per_inode,
        }
    }
}

impl Space {
    /// Segments held back from users: as mkfs counted for one head, and two for
    /// each further head, which has one open and one named.
    pub(crate) fn reserve(&self) -> u64 {
        if planted::is(Planted::ReserveForgotten) {
            return 1;
        }
        u64::from(self.geometry.reserve_segments) + 2 * (self.heads() as u64 - 1)
    }

    /// What lives, and what folding the deltas may change of its metadata.
    pub(super) fn lives(&self, committed: &Committed) -> LiveCounts {
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
        // A node is made and freed with its spare ones.
        let with_spare = |bytes: u64| (1 + SPARE_NODES).saturating_mul(bytes);
        let nodes = folds.min(grown.saturating_mul(at_most));
        let (listed, displaced) = self.kept_bytes(committed);
        LiveCounts {
            reserve: self.reserve(),
            base_bytes: base.metadata_bytes,
            node_bytes: self.stored_nodes(base),
            map_blocks: self.geometry.entry_blocks(base.next_ino),
            next_ino: committed.live.next_ino,
            unfolded: with_spare(nodes),
            perhaps_gone: with_spare(perhaps_gone.min(base.metadata_bytes)) + displaced,
            history: listed + displaced,
        }
    }

    /// Bytes that the segments outside the reserve must have for what is on the
    /// volume: an upper bound.
    pub(crate) fn held_bytes(&self) -> u64 {
        let total = self.layers.read().usage;
        let stock = self.stock();
        stock
            .known_bytes(total)
            .saturating_add(stock.lives.unfolded)
    }
}
