//! What changes take at worst, and the limits that it follows from.
//!
//! The log prices what a checkpoint is going to write of the nodes that it has seen
//! change, in bytes (`varve-lfs/src/price`). Here the next transaction writes them,
//! before they are known, and what is short is whole blocks.

use crate::format::Measures;
use varve_fs::Unwritten;

/// What an operation that has not begun asks for, in bytes, counts so many
/// times: how many blocks that will be is not known.
pub const WORST: u64 = 8;
/// Bytes that a file may have: what its index must reach.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 60;

/// Nodes on the way to one block, and its inode, at most.
pub(crate) const PATH_MAX: u64 = 10;
/// Places tried for what is written.
pub(crate) const TRIES: usize = 3;

/// What changes take at worst, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prices {
    /// Index nodes on the way to one block at most.
    nodes: u64,
    units_per_block: u64,
    /// Places in an index node.
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

    /// So many blocks behind each other, and the index nodes that lead to them: a
    /// leaf for as many as it has places, and the nodes above.
    pub fn with_nodes(&self, blocks: u64) -> u64 {
        let nodes = blocks.div_ceil(self.fanout - 1);
        blocks.saturating_add(nodes.div_ceil(self.units_per_block))
    }

    /// The most blocks that have room, with their nodes, in so many.
    pub fn without_nodes(&self, room: u64) -> u64 {
        let in_a_block = (self.fanout - 1) * self.units_per_block;
        room - room.div_ceil(in_a_block + 1).min(room)
    }

    /// Each block takes one, those of attributes beyond a file's first nothing
    /// else: the first one's way has room for the node above them. The way to it
    /// is written anew; the way to both ends of a range; once for each file that a
    /// block or a range makes higher, the way to its first block; each image is
    /// one. Nodes and inodes go to whole blocks while there are any, but for the
    /// last few of a transaction.
    pub fn of_unwritten(&self, waiting: Unwritten) -> u64 {
        let units = self.units_of(waiting);
        let blocks = waiting.blocks.saturating_add(waiting.further);
        blocks.saturating_add(units.div_ceil(self.units_per_block))
    }

    /// The nodes and images among it, in units.
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

    /// Blocks that may be broken, whatever is written over how often, beyond those
    /// that units of the tree fill: as many as units may wait to be free, while
    /// blocks are short.
    pub fn broken_max(&self, measures: &Measures) -> u64 {
        if self.units_per_block == 1 {
            return 0;
        }
        let blocks = measures.group_bytes() / u64::from(measures.block_bytes);
        let group = blocks.saturating_mul(self.nodes + 1);
        let seldom = (measures.reserve_blocks / 4).min(measures.capacity_blocks() / 128);
        group.div_ceil(self.units_per_block).max(seldom)
    }

    /// Blocks that growth leaves: what an overwriting asks for, and what all of
    /// them together may break.
    pub fn margin(&self, measures: &Measures) -> u64 {
        WORST + self.broken_max(measures)
    }
}
