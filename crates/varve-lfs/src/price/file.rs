//! What folding the changes of one file into the image below may write.
//!
//! A node of an index is written again if something below it has changed, and
//! with it the nodes on its way to the root. So a price is a set of nodes that
//! is closed upwards; how far up that is depends on the height of the index,
//! which the log knows of files whose image is at hand. Of others it assumes
//! the least that reaches the blocks it has seen.

use super::{POINTER, SMALL_NODE};
use crate::format::index::height_for;
use crate::format::node::FANOUT;
use crate::geometry::Geometry;
use std::collections::BTreeSet;

/// What the nodes of a file that must be written are priced by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Below {
    /// Nothing was said yet.
    #[default]
    Untold,
    /// The index below has no nodes: new ones hold only blocks of this delta,
    /// which are at most this many.
    Flat(u64),
    /// It may have nodes, and each of these may be full.
    Nodes,
}

/// How a block is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is written: nodes that lead to it may come to be, and the index grow.
    Write,
    /// The cleaner moves it: what leads to it is there.
    Move,
    /// It ends, or may: beyond the index there is nothing to change.
    End,
}

/// Bytes for which writing an inode is priced, its part of a summary included.
pub fn inode_price(geometry: &Geometry) -> u64 {
    u64::from(geometry.inode_bytes) + 64
}

/// Which parts of a file's index a fold may have to write.
#[derive(Clone, Debug, Default)]
pub struct FoldPrice {
    /// Index nodes by height and number: with each the one above it.
    nodes: BTreeSet<(u8, u64)>,
    /// Of these, nodes that are there already if anything is, as nothing was
    /// written below them.
    existing: u64,
    /// Height of the index, as far as it is known to reach.
    height: u8,
    below: Below,
    /// The inode must be written again.
    pub rewrite: bool,
}

impl FoldPrice {
    /// A block has changed. The index below has the height `below`, if that is
    /// known.
    pub fn block(&mut self, geometry: &Geometry, block: u64, below: Option<u8>, change: Change) {
        let slots = geometry.root_slots();
        self.below = match (self.below, below) {
            (Below::Untold, Some(0)) => Below::Flat(slots as u64 + 1),
            (Below::Flat(blocks), Some(0)) => Below::Flat(blocks + 1),
            _ => Below::Nodes,
        };
        let needed = height_for(slots, block);
        let known = below.unwrap_or(1);
        let had = match change {
            Change::Write => 0,
            Change::Move | Change::End => self.on_way(block),
        };
        self.raise(known);
        if needed > self.height {
            if change == Change::End && below.is_some() {
                return; // nothing is there to change
            }
            let former = below.map_or(0, |_| self.height);
            self.raise(needed);
            if change == Change::Write {
                // What the root led to hangs below a new node.
                self.node(former + 1, 0);
            }
        }
        if self.height > 0 {
            self.node(1, block / FANOUT);
            if change != Change::Write {
                self.existing += self.on_way(block) - had;
            }
        }
    }

    /// Nodes among these that lead to a block.
    fn on_way(&self, block: u64) -> u64 {
        let mut index = block;
        let mut is_there = |height| {
            index /= FANOUT;
            self.nodes.contains(&(height, index))
        };
        (1..=self.height).filter(|&height| is_there(height)).count() as u64
    }

    /// Nodes that would be among them, beside the ways to further blocks, if the index
    /// turned out to be as tall as `height`.
    pub fn rising_to(&self, height: u8) -> u64 {
        let levels = u64::from(height.saturating_sub(self.height));
        levels * self.nodes.range((self.height, 0)..).count() as u64
    }

    /// New nodes hold more than the blocks that this delta writes.
    pub fn may_be_full(&mut self) {
        self.below = Below::Nodes;
    }

    /// A node of an index of this height is to be written anew.
    pub fn touch(&mut self, node: (u8, u64), height: u8) {
        self.may_be_full();
        self.rewrite = true;
        self.raise(height.max(node.0));
        self.node(node.0, node.1);
    }

    /// Whatever the other may have to write is to be written, too.
    pub fn unite(&mut self, other: &FoldPrice) {
        self.raise(other.height);
        for &(height, index) in &other.nodes {
            self.node(height, index);
        }
    }

    /// The newest image of the inode has its whole index, without nodes.
    pub fn is_in_the_inode(&mut self) {
        self.nodes.clear();
        (self.existing, self.height) = (0, 0);
    }

    /// The height that the index is known to reach.
    pub fn height(&self) -> u8 {
        self.height
    }

    /// Takes in a node and those above it.
    fn node(&mut self, height: u8, mut index: u64) {
        let mut at = height;
        while at <= self.height && self.nodes.insert((at, index)) {
            at += 1;
            index /= FANOUT;
        }
    }

    fn raise(&mut self, height: u8) {
        if height <= self.height {
            return;
        }
        let top = self.height;
        self.height = height;
        let tops: Vec<u64> = self.nodes.range((top, 0)..).map(|node| node.1).collect();
        for index in tops {
            self.node(top + 1, index / FANOUT);
        }
    }

    /// Nodes that may have been there before, and those of them that may not.
    pub fn old_nodes(&self) -> (u64, u64) {
        let nodes = self.nodes.len() as u64;
        match self.below {
            Below::Flat(_) => (0, 0),
            _ => (nodes, nodes - self.existing),
        }
    }

    /// Bytes that folding it writes at most, summaries and padding included.
    pub fn bytes(&self, geometry: &Geometry) -> u64 {
        let nodes = self.nodes.len() as u64;
        let full = nodes * geometry.node_price();
        let inode = u64::from(self.rewrite) * inode_price(geometry);
        inode
            + match self.below {
                // A node stores the pointers it has, in whole sectors, and where there
                // is none they are in the inode.
                Below::Flat(blocks) => full.min(nodes * SMALL_NODE + blocks * POINTER),
                _ => full,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::SECTOR;

    /// Inodes of 256 bytes.
    fn geometry() -> Geometry {
        crate::geometry::tests::volume(256 << 20, 4096, true)
    }

    fn price(blocks: &[u64], below: Option<u8>) -> FoldPrice {
        let mut price = FoldPrice::default();
        for &block in blocks {
            price.block(&geometry(), block, below, Change::Write);
        }
        price
    }

    fn nodes(price: &FoldPrice) -> Vec<(u8, u64)> {
        price.nodes.iter().copied().collect()
    }
    const F: u64 = FANOUT;

    #[test]
    fn a_changed_leaf_brings_the_nodes_above_it() {
        let slots = geometry().root_slots() as u64;
        assert_eq!(nodes(&price(&[0], Some(1))), [(1, 0)]);
        assert_eq!(nodes(&price(&[0, F - 1], Some(2))), [(1, 0), (2, 0)]);
        let far = price(&[0, F * F, F * F + F], Some(3));
        let leaves = [(1, 0), (1, F), (1, F + 1)];
        assert_eq!(
            nodes(&far),
            [&leaves[..], &[(2, 0), (2, 1), (3, 0)]].concat()
        );
        // The inode's own pointers need none.
        assert_eq!(nodes(&price(&[0, slots - 1], Some(0))), []);
        // Nobody knows: there may be one.
        assert_eq!(nodes(&price(&[0], None)), [(1, 0)]);
        let beyond = slots * F;
        let all = [(1, 0), (1, slots), (2, 0)];
        assert_eq!(nodes(&price(&[beyond], None)), all);
    }

    #[test]
    fn an_index_that_grows_has_its_old_root_below_a_new_node() {
        let slots = geometry().root_slots() as u64;
        assert_eq!(nodes(&price(&[slots], Some(0))), [(1, 0)]);
        assert_eq!(nodes(&price(&[2 * F], Some(0))), [(1, 0), (1, 2)]);
        let beyond = slots * F;
        let leaf = (1, slots);
        assert_eq!(nodes(&price(&[beyond], Some(1))), [leaf, (2, 0)]);
        assert_eq!(nodes(&price(&[0, beyond], Some(1))), [(1, 0), leaf, (2, 0)]);
        let tall = price(&[slots * F * F * F], Some(1));
        assert_eq!(tall.height(), 4);
        let path = [
            (1, slots * F * F),
            (2, 0),
            (2, slots * F),
            (3, 0),
            (3, slots),
            (4, 0),
        ];
        assert_eq!(nodes(&tall), path);
    }

    #[test]
    fn a_hole_beyond_the_index_changes_nothing() {
        let mut price = FoldPrice::default();
        price.block(&geometry(), 1 << 30, Some(1), Change::End);
        assert_eq!((nodes(&price), price.height()), (vec![], 1));
        price.block(&geometry(), 5, Some(1), Change::End);
        assert_eq!(nodes(&price), [(1, 0)]);
    }

    #[test]
    fn new_nodes_of_a_flat_file_cost_what_they_hold() {
        let geometry = geometry();
        let flat = price(&[100, 101, 500], Some(0));
        assert_eq!((flat.nodes.len(), flat.old_nodes()), (3, (0, 0)));
        let slots = geometry.root_slots() as u64;
        assert_eq!(
            flat.bytes(&geometry),
            3 * SMALL_NODE + (slots + 3) * POINTER
        );
        // The inode has the few; a long run costs no more than full nodes.
        assert_eq!(price(&[0, 1, 2], Some(0)).bytes(&geometry), 0);
        let run: Vec<u64> = (slots..4 * F).collect();
        assert_eq!(
            price(&run, Some(0)).bytes(&geometry),
            5 * geometry.node_price()
        );
        // Once it is not known any more, each may be full.
        let mut full = flat.clone();
        full.may_be_full();
        full.block(&geometry, 7, Some(0), Change::Write);
        assert_eq!(full.bytes(&geometry), 3 * geometry.node_price());
        let mut price = flat;
        price.block(&geometry, 100, None, Change::Write);
        assert_eq!(price.old_nodes(), (3, 3));
        let node = geometry.node_bytes(FANOUT) + SECTOR;
        assert_eq!(price.bytes(&geometry), 3 * node);
        // What is in the inode needs none.
        price.is_in_the_inode();
        assert_eq!(price.bytes(&geometry), 0);
    }

    #[test]
    fn what_leads_to_a_moved_block_is_there_unless_something_was_written_below() {
        let mut price = price(&[F * F], Some(3));
        assert_eq!(price.old_nodes(), (3, 3));
        price.block(&geometry(), 0, Some(3), Change::Move);
        // A leaf, and the one above it; the root was written.
        assert_eq!(price.old_nodes(), (5, 3));
        price.block(&geometry(), 1, Some(3), Change::Write);
        assert_eq!(price.old_nodes(), (5, 3));
        price.is_in_the_inode();
        assert_eq!(price.old_nodes(), (0, 0));
    }

    #[test]
    fn a_touched_node_brings_the_inode_and_what_is_above() {
        let mut price = FoldPrice::default();
        price.touch((2, 1), 3);
        price.touch((1, 200), 3);
        price.touch((1, 201), 3);
        let all = [(1, 200), (1, 201), (2, 1), (3, 0)];
        assert_eq!(nodes(&price), all);
        let geometry = geometry();
        let bytes = 4 * geometry.node_price() + inode_price(&geometry);
        assert_eq!(price.bytes(&geometry), bytes);
    }
}
