//! Upper bounds of the space that changes need, and the limits from which they follow.
//!
//! The log prices the nodes that a checkpoint is going to write, which have changed
//! already, in bytes (`varve-lfs/src/price`). Here the next transaction writes them
//! before they are known, and whole blocks are the scarce resource.

use crate::format::Measures;
use varve_fs::Unwritten;

/// Factor by which the bytes are multiplied that a future operation asks for, because
/// the number of blocks is not known.
pub const WORST: u64 = 8;
/// Maximum size of a file, in bytes, which its index must reach.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 60;

/// Maximum number of nodes on the path to one block, and its inode.
pub(crate) const PATH_MAX: u64 = 10;
/// Number of places that are tried for a write.
pub(crate) const TRIES: usize = 3;

/// Upper bounds of the space for changes, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prices {
    /// Maximum number of index nodes on the path to one block.
    nodes: u64,
    units_per_block: u64,
    /// Number of places in an index node.
    fanout: u64,
}

impl Prices {
    pub fn of(measures: &Measures) -> Self {
        let last = FILE_BYTES_MAX / u64::from(measures.block_bytes) - 1;
        let (index, slots) = (measures.index(), measures.root_slots());
        let nodes = (0..).find(|&height| index.capacity(slots, height) > last);
        Prices {
            nodes: nodes.expect("an index grows until it reaches").into(),
            units_per_block: measures.units_per_block().into(),
            fanout: measures.fanout() as u64,
        }
    }

    /// Returns the number of blocks for `blocks` adjacent ones and the index nodes that
    /// lead to them: a leaf for as many as it has places, and the nodes above.
    pub fn with_nodes(&self, blocks: u64) -> u64 {
        let nodes = blocks.div_ceil(self.fanout - 1);
        blocks.saturating_add(nodes.div_ceil(self.units_per_block))
    }

    /// Returns how many blocks fit, together with their nodes, in `room` blocks.
    pub fn without_nodes(&self, room: u64) -> u64 {
        let in_a_block = (self.fanout - 1) * self.units_per_block;
        room - room.div_ceil(in_a_block + 1).min(room)
    }

    /// Returns an upper bound for pending changes, in blocks. Each block takes one. For
    /// attributes, the blocks beyond a file's first need nothing else, because the path
    /// of the first one includes the node above them. The path to each block is
    /// rewritten; the paths to both ends of a range; the path to a file's first block,
    /// once for each file that a block or a range makes higher; each image is one unit.
    /// Nodes and inodes are written to whole blocks while there are any, except for the
    /// last few of a transaction.
    pub fn of_unwritten(&self, waiting: Unwritten) -> u64 {
        let units = self.units_of(waiting);
        let blocks = waiting.blocks.saturating_add(waiting.further);
        blocks.saturating_add(units.div_ceil(self.units_per_block))
    }

    /// Returns the number of nodes and images among them, in units.
    pub fn units_of(&self, waiting: Unwritten) -> u64 {
        let Unwritten {
            blocks,
            images,
            ranges,
            ..
        } = waiting;
        let ends = ranges.saturating_mul(2);
        let higher = blocks.saturating_add(ranges).min(images);
        let ways = blocks.saturating_add(higher).saturating_add(ends);
        ways.saturating_mul(self.nodes).saturating_add(images)
    }

    /// Returns an upper bound of the blocks that can be broken by any number of
    /// rewrites, in addition to those that units of the tree fill: as many as the units
    /// that may wait to be free while blocks are short.
    pub fn broken_max(&self, measures: &Measures) -> u64 {
        if self.units_per_block == 1 {
            return 0;
        }
        let blocks = measures.group_bytes() / u64::from(measures.block_bytes);
        let group = blocks.saturating_mul(self.nodes + 1);
        let seldom = (measures.reserve_blocks / 4).min(measures.capacity_blocks() / 128);
        group.div_ceil(self.units_per_block).max(seldom)
    }

    /// Returns the number of blocks that growth leaves: those for which an overwrite
    /// asks, and those that all overwrites together may break.
    pub fn margin(&self, measures: &Measures) -> u64 {
        WORST + self.broken_max(measures)
    }
}
