//! What folding a delta may write.
//!
//! A checkpoint that found no room half way would stop the volume. So room is
//! kept for all that it may write, and what that is must be known before, from
//! the delta alone: no device is asked. Too high a price holds back segments that
//! users could fill, too low a one breaks the promise; each checkpoint compares
//! ([`crate::checkpoint`]).
//!
//! - *Files*: index nodes and inodes, file by file ([`FoldPrice`]), but no more
//!   than all nodes there are and can come to be.
//! - *The ifile*: blocks of the inode map, the unfinished list, the index above.
//! - The usage table is the volume's, not the delta's ([`crate::space`]).

mod file;

pub use file::{FoldPrice, inode_price};

use crate::base::imap_block;
use crate::delta::Delta;
use crate::format::node::{FANOUT, NodeId};
use crate::format::{Pointer, SECTOR};
use crate::geometry::Geometry;
use varve_fs::InodeNo;

/// A node's part of a summary and of a group's padding. Of large ones it is more:
/// a 32nd of them covers that.
const OVERHEAD: u64 = 128;
/// Bytes that an index node takes in the log besides its pointers: its header,
/// rounded up to a sector, and its own pointer in the node above.
const SMALL_NODE: u64 = 48 + 511 + 32 + OVERHEAD;
/// Bytes of a pointer in a node that is not packed.
const POINTER: u64 = size_of::<Pointer>() as u64;

/// Blocks of the inode map that the reserve has room for: checkpoints are taken
/// long before so many have changed.
fn most_imap_blocks(geometry: &Geometry) -> u64 {
    2 * crate::checkpoint::imap_limit(geometry.volume_bytes(), geometry.block_bytes)
}

/// Blocks of the inode map that change because a number beside theirs leaves the
/// list of free ones, or was given out and is not in use yet.
const NEIGHBOURS: u64 = 8;

/// Bytes for which writing a block of the ifile is priced, its part of summaries
/// and padding included.
fn ifile_block_price(geometry: &Geometry) -> u64 {
    u64::from(geometry.block_bytes) / 8 * 9
}

/// What the image below a delta brings to the price of folding it.
#[derive(Clone, Copy, Debug)]
pub struct BelowFold {
    /// Most bytes that the nodes there take when they are written again.
    pub node_bytes: u64,
    /// Inodes on the unfinished list.
    pub unfinished: u64,
}

impl Delta {
    /// An upper bound of what folding this delta writes, the usage table left
    /// aside: the checkpoint must find that much room.
    pub fn fold_bytes(&self, geometry: &Geometry, below: BelowFold) -> u64 {
        let (priced, at_most) = self.node_bytes(geometry, below.node_bytes);
        let files = self.file_fold_bytes + self.touched_bytes;
        // A small group for each of three heights is priced with the table.
        let heights = u64::from(self.tallest.saturating_sub(3));
        files.saturating_sub(priced.saturating_sub(at_most))
            + self.ifile_bytes(geometry, below.unfinished)
            + heights * geometry.least_group()
    }

    /// The part of the inode map and of the unfinished list.
    fn ifile_bytes(&self, geometry: &Geometry, unfinished: u64) -> u64 {
        let list = (unfinished + self.joined) * 8;
        let all = self.all_imap_blocks(geometry);
        let imap = self.priced_imap_blocks(geometry);
        let touched = self.touched_ifile.len() as u64;
        let blocks = imap + touched + list.div_ceil(u64::from(geometry.block_bytes));
        // Of the map; the table's and those above are priced with the table.
        let leaves = blocks.min(all / FANOUT);
        blocks * ifile_block_price(geometry)
            + (leaves + leaves / FANOUT) * geometry.node_price()
            + geometry.node_bytes(all % FANOUT)
    }

    /// Blocks of the inode map that folding it is priced for.
    pub fn priced_imap_blocks(&self, geometry: &Geometry) -> u64 {
        // Numbers are taken from the head of the list of free ones, and then
        // those beside them are few; but some come back unused, in any order.
        let changed = 3 * self.imap_blocks.len() as u64 + NEIGHBOURS;
        changed.min(self.all_imap_blocks(geometry))
    }

    /// What index nodes that may have been there before cost: as priced, each
    /// whole; and as all there is can cost, each that exists written once, and for
    /// each that does not a small node and the pointers that this delta has.
    fn node_bytes(&self, geometry: &Geometry, existing: u64) -> (u64, u64) {
        let reserved = self.reserved_leaves.saturating_mul(geometry.node_price());
        let new = self.old_nodes.saturating_mul(SMALL_NODE);
        let pointers = self.held_blocks.saturating_mul(POINTER);
        // Touched ones exist, and each has its file's inode written.
        let inodes = self.touched_prices.len() as u64 * inode_price(geometry);
        let touched = (self.touched_bytes.saturating_sub(inodes)) / geometry.node_price();
        let touched = inodes + touched * OVERHEAD;
        let at_most = [existing / 32, new, pointers, reserved, touched]
            .iter()
            .fold(existing, |sum, part| sum.saturating_add(*part));
        let priced = self.old_nodes * geometry.node_price() + self.touched_bytes;
        (priced, at_most)
    }

    /// The same of `bytes` of blocks that are still to come, beyond what it
    /// costs now.
    pub fn further_leaf_bytes(&self, geometry: &Geometry, existing: u64, bytes: u64) -> u64 {
        let (priced, at_most) = self.node_bytes(geometry, existing);
        // A block adds a leaf's price to the one, and a small node to the other;
        // and no more nodes above leaves than there are of a full volume, but
        // that files may be thin.
        let untouched = at_most.saturating_sub(priced);
        let span = FANOUT * FANOUT * u64::from(geometry.block_bytes);
        let above = (geometry.volume_bytes() / span + 2).min(bytes.div_ceil(4096));
        let leaves = bytes.div_ceil(8) * (geometry.node_price() / SECTOR);
        let small = bytes.div_ceil(16) * ((SMALL_NODE + POINTER).div_ceil(256));
        let priced = leaves + above * geometry.node_price();
        priced.min(untouched + small + above * SMALL_NODE)
    }

    /// What touching these nodes, each of an index of the height beside it, and
    /// changing something of `files` may add to a fold, and so many inodes that are
    /// moved while a checkpoint changes them.
    pub fn further_bytes<'n>(
        &self,
        geometry: &Geometry,
        nodes: impl Iterator<Item = &'n (NodeId, u8)>,
        stale: u64,
        files: impl Iterator<Item = InodeNo>,
    ) -> u64 {
        let mut further = Delta::default();
        for (id, height) in nodes.filter(|(id, _)| !self.touched_nodes.contains(id)) {
            further.touch(geometry, *id, *height);
        }
        let files = files.filter(|ino| *ino != InodeNo::IFILE);
        let blocks = files.map(|ino| imap_block(geometry, ino.0));
        further.imap_blocks.extend(blocks);
        let fresh = further.imap_blocks.difference(&self.imap_blocks).count() as u64;
        further.touched_bytes + stale * inode_price(geometry) + fresh * ifile_block_price(geometry)
    }

    /// The same of the inode map, for changes in memory that count for so many
    /// bytes: each file of which something waits counts for a sector at least.
    pub fn further_imap_bytes(&self, geometry: &Geometry, waiting: u64) -> u64 {
        let all = self.all_imap_blocks(geometry);
        let rest = all.saturating_sub(self.imap_blocks.len() as u64);
        let most = waiting.div_ceil(SECTOR).min(most_imap_blocks(geometry));
        rest.min(most) * ifile_block_price(geometry)
    }

    fn all_imap_blocks(&self, geometry: &Geometry) -> u64 {
        self.next_ino.div_ceil(geometry.entries_per_block())
    }
}
