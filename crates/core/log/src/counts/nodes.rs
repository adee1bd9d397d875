//! The dirty nodes of one file's index: what a fold may have to write of it.
//!
//! A node is dirty if something below it has changed, or if the cleaner wants it moved;
//! with it the nodes between it and the root. How far up that is depends on the height
//! of the index, which the log knows of files whose image is at hand. Of others the least
//! height is assumed that reaches the blocks that were seen.
//!
//! Invariants:
//! - *closed*: with a node below the root, the node above it is in the set;
//! - `existing` is the number of nodes without pointers that are added, and `added` the
//!   sum of what the others may take;
//! - a node whose pointers may be new adds one to the node above it, so of each node that
//!   does not exist all pointers are counted.

use super::{Counts, EMPTY_NODE, POINTER};
use crate::format::index::height_for;
use crate::format::node::FANOUT;
use crate::geometry::Geometry;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// How a block is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is written for the first time in this delta: nodes that lead to it may come to
    /// be, and the index grow.
    Write,
    /// It is written, and its former copy is in this delta.
    Rewrite,
    /// All blocks of its leaf may be.
    Fill,
    /// The cleaner moves it: what leads to it exists.
    Move,
    /// It ends, or may: beyond the index there is nothing to change.
    End,
}

/// Whether the index below has nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum IndexBelow {
    /// Nothing was said yet.
    #[default]
    Untold,
    /// It has none, so every node is new.
    Flat,
    /// It may have some.
    Nodes,
}

/// The facts about a dirty node that its size follows from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DirtyNode {
    /// Pointers that may be new, [`FANOUT`] at most.
    added: u8,
    /// The image has it.
    exists: bool,
    /// It is to be written even if nothing below it changes.
    touched: bool,
}

impl DirtyNode {
    /// Bytes that it may take beyond what the image has of it.
    fn bytes(self, geometry: &Geometry) -> u64 {
        match self.added {
            0 => 0,
            added => (EMPTY_NODE + u64::from(added) * POINTER).min(geometry.largest_node()),
        }
    }
}

/// Which parts of a file's index a fold may have to write.
#[derive(Clone, Debug, Default)]
pub struct DirtyNodes {
    /// By height and number.
    nodes: BTreeMap<(u8, u64), DirtyNode>,
    /// Of these, nodes to which no pointer is added.
    existing: u64,
    /// Bytes of the others.
    added: u64,
    /// Height of the index, as far as it is known to reach.
    height: u8,
    below: IndexBelow,
    /// The inode must be written again, whatever becomes of the index.
    pub rewrite: bool,
}

impl DirtyNodes {
    /// A block has changed. The index below has the height `below`, if that is
    /// known.
    pub fn block(&mut self, geometry: &Geometry, block: u64, below: Option<u8>, change: Change) {
        let slots = geometry.root_slots();
        self.below = match (self.below, below) {
            // The image below a delta does not change while it lasts.
            (IndexBelow::Untold, Some(0)) | (IndexBelow::Flat, Some(0) | None) => IndexBelow::Flat,
            _ => IndexBelow::Nodes,
        };
        self.raise(geometry, below.unwrap_or(1), below.is_none());
        let needed = height_for(slots, block);
        if needed > self.height {
            if change == Change::End && below.is_some() {
                return; // nothing is there to change
            }
            let former = below.map_or(0, |_| self.height);
            // A moved node shows that the index was as tall.
            self.raise(geometry, needed, change != Change::Move);
            if matches!(change, Change::Write | Change::Fill) {
                // What the root led to hangs below a new node.
                self.add(geometry, (former + 1, 0), 0);
            }
        }
        if self.height == 0 {
            return;
        }
        let leaf = (1, block / FANOUT);
        match change {
            Change::Write => self.add(geometry, leaf, 1),
            Change::Fill => self.add(geometry, leaf, FANOUT as u8),
            Change::Move => self.insert(leaf, true),
            Change::Rewrite | Change::End => self.insert(leaf, false),
        }
    }

    /// A node of an index of this height is to be written anew. Where the index below has
    /// no nodes, it is that of a former file of this number and ends with this fold.
    pub fn touch(&mut self, geometry: &Geometry, node: (u8, u64), height: u8) {
        if self.below == IndexBelow::Flat {
            return;
        }
        self.below = IndexBelow::Nodes;
        self.raise(geometry, height.max(node.0), false);
        self.insert(node, true);
        if let Some(node) = self.nodes.get_mut(&node) {
            node.touched = true;
        }
    }

    /// What another delta may have to write of the same index is to be written, too.
    pub fn unite(&mut self, geometry: &Geometry, other: &DirtyNodes) {
        if other.below == IndexBelow::Nodes {
            self.below = IndexBelow::Nodes;
        }
        self.raise(geometry, other.height, true);
        for (&at, node) in &other.nodes {
            match node.added {
                0 => self.insert(at, node.exists),
                added => self.add(geometry, at, added),
            }
            if let Some(own) = self.nodes.get_mut(&at) {
                own.touched |= node.touched;
            }
        }
        self.rewrite |= other.rewrite;
    }

    /// The height that the index is known to reach.
    pub fn height(&self) -> u8 {
        self.height
    }

    /// True if a fold may have to write this node.
    pub fn contains(&self, node: (u8, u64)) -> bool {
        self.nodes.contains_key(&node)
    }

    /// Nodes that are to be written even if nothing below them changes.
    pub fn touched(&self) -> impl Iterator<Item = (u8, u64)> {
        let touched = self.nodes.iter().filter(|(_, node)| node.touched);
        touched.map(|(&at, _)| at)
    }

    /// True if this node is.
    pub fn is_touched(&self, node: (u8, u64)) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.touched)
    }

    /// Nodes that would be among them if the index turned out to be as tall as `height`.
    pub fn rising_to(&self, height: u8) -> u64 {
        let levels = u64::from(height.saturating_sub(self.height));
        levels * self.nodes.range((self.height, 0)..).count() as u64
    }

    /// How many there are, and the inode.
    pub fn counts(&self) -> Counts {
        let nodes = self.nodes.len() as u64;
        // With a node the pointer to it changes.
        let inodes = u64::from(self.rewrite || nodes > 0);
        let (existing, possible, added, new) = match self.below {
            IndexBelow::Flat => (0, 0, 0, self.added),
            _ => (self.existing, nodes - self.existing, self.added, 0),
        };
        Counts {
            existing,
            possible,
            added,
            new,
            inodes,
            height: self.height,
            ..Counts::default()
        }
    }

    /// Takes in a node to which nothing is added, and those above it. They exist, or
    /// they may not: then nothing is written of them.
    fn insert(&mut self, at: (u8, u64), exists: bool) {
        let (mut height, mut index) = at;
        while height <= self.height {
            let Entry::Vacant(free) = self.nodes.entry((height, index)) else {
                return;
            };
            free.insert(DirtyNode {
                exists,
                ..DirtyNode::default()
            });
            self.existing += 1;
            (height, index) = (height + 1, index / FANOUT);
        }
        debug_assert!(self.is_closed(at));
    }

    /// Takes in a node to which so many pointers are added, and those above it.
    fn add(&mut self, geometry: &Geometry, at: (u8, u64), pointers: u8) {
        let slots = geometry.root_slots() as u64;
        let (mut height, mut index, mut pointers) = (at.0, at.1, u64::from(pointers));
        while height <= self.height {
            let node = self.nodes.entry((height, index)).or_insert_with(|| {
                self.existing += 1;
                DirtyNode::default()
            });
            let before = *node;
            if index == 0 && before.added == 0 {
                pointers += slots; // it may take what the root held
            }
            node.added = (u64::from(node.added) + pointers).min(FANOUT) as u8;
            self.added += node.bytes(geometry) - before.bytes(geometry);
            if before.added > 0 || node.added == 0 {
                break; // the node above leads to it already
            }
            self.existing -= 1;
            if before.exists {
                break;
            }
            (height, index, pointers) = (height + 1, index / FANOUT, 1);
        }
        debug_assert!(self.is_closed(at));
    }

    /// The index reaches this height: it did already, or grows.
    fn raise(&mut self, geometry: &Geometry, height: u8, grows: bool) {
        if height <= self.height {
            return;
        }
        let top = self.height;
        self.height = height;
        let tops: Vec<((u8, u64), DirtyNode)> = (self.nodes.range((top, 0)..))
            .map(|(&at, &node)| (at, node))
            .collect();
        for ((_, index), node) in tops {
            let above = (top + 1, index / FANOUT);
            match grows || (node.added > 0 && !node.exists) {
                true => self.add(geometry, above, 1),
                false => self.insert(above, node.exists),
            }
        }
    }

    /// True if with this node the one above it is in the set.
    fn is_closed(&self, (height, index): (u8, u64)) -> bool {
        height >= self.height || self.contains((height + 1, index / FANOUT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F: u64 = FANOUT;

    /// Inodes of 256 bytes.
    fn geometry() -> Geometry {
        crate::geometry::tests::volume(256 << 20, 4096, true)
    }

    fn change(dirty: &mut DirtyNodes, block: u64, below: Option<u8>, change: Change) {
        dirty.block(&geometry(), block, below, change);
    }

    fn written(blocks: &[u64], below: Option<u8>) -> DirtyNodes {
        let mut dirty = DirtyNodes::default();
        for &block in blocks {
            change(&mut dirty, block, below, Change::Write);
        }
        dirty
    }

    fn nodes(dirty: &DirtyNodes) -> Vec<(u8, u64)> {
        dirty.nodes.keys().copied().collect()
    }

    /// What a node to which so many pointers are added may take.
    fn holding(pointers: u64) -> u64 {
        EMPTY_NODE + pointers * POINTER
    }

    /// Existing and possible nodes, bytes that these are given, bytes of new ones.
    fn counted(dirty: &DirtyNodes) -> (u64, u64, u64, u64) {
        let counts = dirty.counts();
        (counts.existing, counts.possible, counts.added, counts.new)
    }

    #[test]
    fn a_changed_leaf_brings_the_nodes_above_it() {
        let slots = geometry().root_slots() as u64;
        assert_eq!(nodes(&written(&[0], Some(1))), [(1, 0)]);
        assert_eq!(nodes(&written(&[0, F - 1], Some(2))), [(1, 0), (2, 0)]);
        let far = written(&[0, F * F, F * F + F], Some(3));
        let leaves = [(1, 0), (1, F), (1, F + 1)];
        assert_eq!(
            nodes(&far),
            [&leaves[..], &[(2, 0), (2, 1), (3, 0)]].concat()
        );
        // The inode's own pointers need none.
        assert_eq!(nodes(&written(&[0, slots - 1], Some(0))), []);
        // It is not known: there may be one.
        assert_eq!(nodes(&written(&[0], None)), [(1, 0)]);
        let beyond = slots * F;
        let all = [(1, 0), (1, slots), (2, 0)];
        assert_eq!(nodes(&written(&[0, beyond], None)), all);
    }

    #[test]
    fn an_index_that_grows_has_its_old_root_below_a_new_node() {
        let slots = geometry().root_slots() as u64;
        assert_eq!(nodes(&written(&[slots], Some(0))), [(1, 0)]);
        assert_eq!(nodes(&written(&[2 * F], Some(0))), [(1, 0), (1, 2)]);
        let beyond = slots * F;
        let leaf = (1, slots);
        assert_eq!(nodes(&written(&[beyond], Some(1))), [leaf, (2, 0)]);
        assert_eq!(
            nodes(&written(&[0, beyond], Some(1))),
            [(1, 0), leaf, (2, 0)]
        );
        let tall = written(&[slots * F * F * F], Some(1));
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
        // All of these are new, also above a leaf that exists.
        let mut moved = DirtyNodes::default();
        change(&mut moved, 0, Some(1), Change::Move);
        change(&mut moved, slots * F * F * F, Some(1), Change::Write);
        let counts = moved.counts();
        assert_eq!((counts.existing, counts.possible), (1, 6));
        assert!(counts.added >= 6 * holding(1));
    }

    #[test]
    fn a_hole_beyond_the_index_changes_nothing() {
        let mut dirty = DirtyNodes::default();
        change(&mut dirty, 1 << 30, Some(1), Change::End);
        assert_eq!((nodes(&dirty), dirty.height()), (vec![], 1));
        change(&mut dirty, 5, Some(1), Change::End);
        assert_eq!(nodes(&dirty), [(1, 0)]);
        assert_eq!(counted(&dirty), (1, 0, 0, 0));
    }

    /// A hole ends in a leaf that need not exist: what is written there makes it.
    #[test]
    fn what_is_written_into_a_hole_may_make_nodes() {
        let mut dirty = DirtyNodes::default();
        change(&mut dirty, 5 * F, Some(2), Change::End);
        assert_eq!(counted(&dirty), (2, 0, 0, 0));
        change(&mut dirty, 5 * F + 1, Some(2), Change::Write);
        let slots = geometry().root_slots() as u64;
        let added = holding(1) + holding(1 + slots);
        assert_eq!(counted(&dirty), (0, 2, added, 0));
        // One that the cleaner has moved a block of exists, and so does what leads there.
        let mut dirty = DirtyNodes::default();
        change(&mut dirty, 5 * F, Some(2), Change::Move);
        change(&mut dirty, 5 * F + 1, Some(2), Change::Write);
        assert_eq!(counted(&dirty), (1, 1, holding(1), 0));
    }

    #[test]
    fn new_nodes_of_a_flat_file_cost_what_they_hold() {
        let geometry = geometry();
        let slots = geometry.root_slots() as u64;
        let flat = written(&[100, 101, 500], Some(0));
        let leaves = holding(2 + slots) + holding(1);
        assert_eq!(counted(&flat), (0, 0, 0, leaves + holding(2 + slots)));
        // The inode has the few; a long run costs no more than full nodes.
        assert_eq!(counted(&written(&[0, 1, 2], Some(0))), (0, 0, 0, 0));
        let run: Vec<u64> = (slots..4 * F).collect();
        let top = holding(4 + slots);
        assert_eq!(
            counted(&written(&run, Some(0))),
            (0, 0, 0, 4 * geometry.largest_node() + top)
        );
        // The same block again adds nothing.
        let mut again = flat.clone();
        change(&mut again, 100, Some(0), Change::Rewrite);
        assert_eq!(counted(&again), counted(&flat));
        // A reservation may fill its leaf.
        let mut full = flat.clone();
        change(&mut full, 500, Some(0), Change::Fill);
        let more = geometry.largest_node() - holding(1);
        assert_eq!(counted(&full).3, counted(&flat).3 + more);
        // Facts about the index below stay true.
        change(&mut again, 101, None, Change::Rewrite);
        assert_eq!(counted(&again), counted(&flat));
        let mut dirty = flat;
        change(&mut dirty, 102, Some(1), Change::Write);
        assert_eq!(counted(&dirty).1, 3);
    }

    #[test]
    fn a_touched_node_brings_the_inode_and_what_is_above() {
        let mut dirty = DirtyNodes::default();
        for node in [(2, 1), (1, 200), (1, 201)] {
            dirty.touch(&geometry(), node, 3);
        }
        assert_eq!(nodes(&dirty), [(1, 200), (1, 201), (2, 1), (3, 0)]);
        assert_eq!(counted(&dirty), (4, 0, 0, 0));
        assert_eq!(dirty.counts().inodes, 1);
        let touched: Vec<_> = dirty.touched().collect();
        assert_eq!(touched, [(1, 200), (1, 201), (2, 1)]);
        assert!(dirty.is_touched((2, 1)) && !dirty.is_touched((3, 0)));
    }

    /// However deltas are drawn: their union has all nodes of both and is closed, and the
    /// sums are those of its nodes.
    #[test]
    fn a_union_has_all_nodes_of_its_parts() {
        use rand::{RngExt, SeedableRng};
        let geometry = geometry();
        let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(3);
        for _ in 0..500 {
            let below = [None, Some(0), Some(1), Some(3)][rng.random_range(0..4)];
            let mut drawn = || {
                let mut dirty = DirtyNodes::default();
                for _ in 0..rng.random_range(0..30) {
                    let tall = u64::pow(F, rng.random_range(0..4));
                    let block = rng.random_range(0..9) * tall + rng.random_range(0..3);
                    let changes = [
                        Change::Write,
                        Change::Rewrite,
                        Change::Fill,
                        Change::Move,
                        Change::End,
                    ];
                    dirty.block(&geometry, block, below, changes[rng.random_range(0..5)]);
                }
                dirty
            };
            let (mut one, other) = (drawn(), drawn());
            let nodes_before = nodes(&one);
            one.unite(&geometry, &other);
            let all = nodes(&one);
            for node in nodes_before.iter().chain(&nodes(&other)) {
                assert!(one.contains(*node), "{node:?}");
            }
            for &(height, index) in &all {
                assert!(one.is_closed((height, index)));
                let node = one.nodes[&(height, index)];
                assert!(u64::from(node.added) <= F);
            }
            let existing = one.nodes.values().filter(|node| node.added == 0).count();
            let added: u64 = one.nodes.values().map(|node| node.bytes(&geometry)).sum();
            assert_eq!((one.existing, one.added), (existing as u64, added));
        }
    }
}
