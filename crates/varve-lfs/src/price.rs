//! What writing the pieces of a fold is priced by: arithmetic over the volume's
//! measures. A fold is what a checkpoint writes (`delta/fold.rs`).

mod file;

pub use file::{Change, FoldPrice, inode_price};

use crate::format::Pointer;
use crate::geometry::Geometry;

/// A node's part of a summary and of a group's padding. Of large ones it is more:
/// a 32nd of them covers that.
pub const OVERHEAD: u64 = 128;
/// Bytes that an index node takes in the log besides its pointers: its header,
/// rounded up to a sector, and its own pointer in the node above.
pub const SMALL_NODE: u64 = 48 + 511 + 32 + OVERHEAD;
/// Bytes of a pointer in a node that is not packed.
pub const POINTER: u64 = size_of::<Pointer>() as u64;

/// Bytes for which writing a block of the ifile is priced, its part of summaries
/// included: 32 of them are a group ([`crate::checkpoint::IFILE_CHUNK`]), with a
/// summary of one write unit. That of a group cut in two by the end of a segment
/// is in what [`crate::lfs::Lfs::dependable_bytes`] leaves out.
pub(crate) fn ifile_block_price(geometry: &Geometry) -> u64 {
    u64::from(geometry.block_bytes) + u64::from(geometry.block_bytes.max(geometry.write_unit)) / 32
}

/// Most bytes of so many nodes that do not exist yet and hold so many pointers.
pub(crate) fn new_node_bytes(nodes: u64, blocks: u64) -> u64 {
    let pointers = blocks.saturating_mul(POINTER);
    nodes.saturating_mul(SMALL_NODE).saturating_add(pointers)
}
