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

use super::Delta;
use crate::format::SECTOR;
use crate::format::node::{FANOUT, NodeId};
use crate::geometry::Geometry;
use crate::price::{OVERHEAD, POINTER, SMALL_NODE, ifile_block_price, inode_price, new_node_bytes};
use foldhash::HashSet;
use varve_fs::InodeNo;

/// Blocks of the inode map that change because a number beside theirs leaves the
/// list of free ones or joins it: at either end of what was taken from the list's
/// head and of what was taken where the mount found it, and its former head.
const NEIGHBOURS: u64 = 8;

/// What the image below a delta brings to the price of folding it.
#[derive(Clone, Copy, Debug)]
pub struct BelowFold {
    /// Most bytes that the nodes there take when they are written again.
    pub node_bytes: u64,
    /// Inodes on the unfinished list.
    pub unfinished: u64,
    /// Inode numbers that were given out and are in no group: on the list of free
    /// ones they may be neighbours of numbers that are.
    pub loose: u64,
}

/// Changes that a delta does not have yet, at most.
#[derive(Clone, Copy, Debug, Default)]
pub struct Further {
    /// Index nodes that they change, and those above them: some may come to be.
    pub nodes: u64,
    /// The same, all of which are there.
    pub existing: u64,
    /// Blocks among them.
    pub blocks: u64,
    /// Inodes that are written again.
    pub inodes: u64,
    /// Blocks of the inode map that they change.
    pub imap_blocks: u64,
    /// Other blocks of the ifile.
    pub ifile_blocks: u64,
    /// What is known of the price beside that.
    pub bytes: u64,
    /// No index among them is taller.
    pub height: u8,
}

impl Delta {
    /// An upper bound of what folding this delta writes, the usage table left
    /// aside: the checkpoint must find that much room.
    pub fn fold_bytes(&self, geometry: &Geometry, below: BelowFold) -> u64 {
        let (priced, at_most) = self.node_bytes(geometry, below.node_bytes, 0);
        let files = self.file_fold_bytes + self.touched_bytes;
        files.saturating_sub(priced.saturating_sub(at_most))
            + self.ifile_bytes(geometry, below)
            + small_groups(geometry, self.tallest)
    }

    /// The part of the inode map and of the unfinished list.
    fn ifile_bytes(&self, geometry: &Geometry, below: BelowFold) -> u64 {
        let list = (below.unfinished + self.joined) * 8;
        let imap = self.priced_imap_blocks(geometry, below.loose);
        let touched = self.touched_ifile.len() as u64;
        let blocks = imap + touched + list.div_ceil(u64::from(geometry.block_bytes));
        self.ifile_price(geometry, blocks)
    }

    /// So many blocks of the ifile, and the nodes above those of the map; the table's
    /// and those above are priced with the table.
    fn ifile_price(&self, geometry: &Geometry, blocks: u64) -> u64 {
        let all = self.all_imap_blocks(geometry);
        let leaves = blocks.min(all / FANOUT);
        blocks * ifile_block_price(geometry)
            + (leaves + leaves / FANOUT) * geometry.node_price()
            + geometry.node_bytes(all % FANOUT)
    }

    /// What so many more blocks may add to that.
    fn further_ifile_bytes(&self, geometry: &Geometry, further: Further) -> u64 {
        let (all, each) = (self.all_imap_blocks(geometry), self.imap_blocks_for_each());
        let own = (self.imap_blocks.len() as u64 * each).min(all);
        let more = (further.imap_blocks.saturating_mul(each)).min(all - own);
        let now = own + self.touched_ifile.len() as u64;
        let then = now + more + further.ifile_blocks;
        self.ifile_price(geometry, then) - self.ifile_price(geometry, now)
    }

    /// Blocks of the inode map that folding it is priced for, while `loose`
    /// numbers are given out and in no group.
    pub fn priced_imap_blocks(&self, geometry: &Geometry, loose: u64) -> u64 {
        // Numbers are taken from the list of free ones in its order, so what
        // changes beside them is the ends of what was taken, and those among
        // them that are not in use yet, or never will be.
        let own = self.imap_blocks.len() as u64;
        let loose = match self.neighbours_unknown {
            true => 0,
            false => loose,
        };
        let changed = own * self.imap_blocks_for_each() + loose;
        (changed + NEIGHBOURS).min(self.all_imap_blocks(geometry))
    }

    /// Blocks of the inode map that one of its own stands for: itself, and where it is
    /// not known whether numbers beside its own change, both that these may be in.
    fn imap_blocks_for_each(&self) -> u64 {
        match self.neighbours_unknown {
            true => 3,
            false => 1,
        }
    }

    /// What index nodes that may have been there before cost: as priced, each
    /// whole; and as all there is can cost, each that exists written once, and for
    /// each that does not a small node and the pointers that this delta has. The
    /// second with as many `more` that exist.
    fn node_bytes(&self, geometry: &Geometry, existing: u64, more: u64) -> (u64, u64) {
        let reserved = self.reserved_leaves.saturating_mul(geometry.node_price());
        let new = self.perhaps_new.saturating_mul(SMALL_NODE);
        let pointers = self.held_blocks.saturating_mul(POINTER);
        // Touched ones exist, and each has its file's inode written.
        let inodes = self.touched_prices.len() as u64 * inode_price(geometry);
        let touched = (self.touched_bytes.saturating_sub(inodes)) / geometry.node_price();
        let again = self.old_nodes - self.perhaps_new + touched;
        let again = again.saturating_add(more).min(existing / SECTOR);
        let again = inodes + again * OVERHEAD;
        let at_most = [existing / 32, new, pointers, reserved, again]
            .iter()
            .fold(existing, |sum, part| sum.saturating_add(*part));
        let priced = self.old_nodes * geometry.node_price() + self.touched_bytes;
        (priced, at_most)
    }

    /// What folding changes that are still to come may write beyond what it costs
    /// to fold this delta now, over an image whose nodes take `existing` bytes.
    pub fn further_bytes(&self, geometry: &Geometry, existing: u64, further: Further) -> u64 {
        let (priced, at_most) = self.node_bytes(geometry, existing, 0);
        let (_, at_most_then) = self.node_bytes(geometry, existing, further.existing);
        // The first node of a file takes what the inode had.
        let had = further.inodes.saturating_mul(geometry.root_slots() as u64);
        let new = new_node_bytes(further.nodes, further.blocks.saturating_add(had));
        let nodes = further.nodes.saturating_add(further.existing);
        let each = nodes.saturating_mul(geometry.node_price());
        // A node that exists is written once, at most, whatever it is priced by; one
        // that does not exist yet holds what is to come.
        let nodes_then = (priced.saturating_add(each)).min(at_most_then.saturating_add(new));
        let groups = small_groups(geometry, further.height.max(self.tallest));
        nodes_then.saturating_sub(priced.min(at_most)) + groups
            - small_groups(geometry, self.tallest)
            + further.inodes * inode_price(geometry)
            + self.further_ifile_bytes(geometry, further)
            + further.bytes
    }

    /// Nodes and inodes that are written if these are touched, each of an index of
    /// the height beside it.
    pub fn further_touched<'n>(
        &self,
        geometry: &Geometry,
        nodes: impl Iterator<Item = &'n (NodeId, u8)>,
    ) -> (u64, u64) {
        let mut further = Delta::default();
        for (id, height) in nodes.filter(|(id, _)| !self.touched_nodes.contains(id)) {
            further.touch(geometry, *id, *height);
        }
        let inodes = further.touched_prices.len() as u64;
        let bytes = further.touched_bytes - inodes * inode_price(geometry);
        (bytes / geometry.node_price(), inodes)
    }

    /// Blocks of the inode map with the entries of these files, beyond those that
    /// it changes anyway.
    pub fn further_imap_blocks(
        &self,
        geometry: &Geometry,
        files: impl Iterator<Item = InodeNo>,
    ) -> u64 {
        let files = files.filter(|ino| *ino != InodeNo::IFILE);
        let blocks: HashSet<u64> = files.map(|ino| geometry.imap_block(ino.0)).collect();
        blocks.difference(&self.imap_blocks).count() as u64
    }

    /// Blocks among these of the ifile that are not written again anyway.
    pub fn further_ifile_blocks(&self, touched: impl Iterator<Item = u64>) -> u64 {
        let touched: HashSet<u64> = touched.collect();
        touched.difference(&self.touched_ifile).count() as u64
    }

    fn all_imap_blocks(&self, geometry: &Geometry) -> u64 {
        geometry.entry_blocks(self.next_ino)
    }
}

/// The last group of the nodes of each height may be small. Those of three heights are
/// priced with the table.
fn small_groups(geometry: &Geometry, tallest: u8) -> u64 {
    u64::from(tallest.saturating_sub(3)) * geometry.least_group()
}
