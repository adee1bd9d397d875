//! The changes of one group, collected apart from the state that readers see, so that
//! either all of them take effect or none does.
//!
//! Changes are made in nodes and inodes, which the log does only when it folds (its
//! `delta.rs` holds pointers by block). The space that a group gives up here is free
//! with the next transaction, so it must be known when the group is appended.

mod cut;

use crate::error::Result;
use crate::format::{Extent, Fork, Image, Node, NodeId, Place};
use crate::lookup::{Store, Tables};
use std::collections::{BTreeMap, HashMap};
use varve_fs::{FileKind, Inode, InodeNo, Timestamp, Version};

/// The tables, and the changes of a group over them.
pub struct Stage<'a> {
    pub store: &'a Store,
    pub tables: &'a Tables,
    pub changes: Changes,
}

/// The changes of a group.
#[derive(Default)]
pub struct Changes {
    /// Numbers freed, with the version of the next file. They take effect before
    /// `images`.
    pub freed: BTreeMap<u64, Version>,
    /// Inodes that changed; `None` for those that are freed.
    pub images: HashMap<u64, Option<Image>>,
    /// Index nodes that changed; `None` for those that are removed.
    pub nodes: BTreeMap<NodeId, Option<Node>>,
    /// Extents of data that the tree no longer uses.
    pub released: Vec<Extent>,
    /// Extents of index nodes and inodes that the tree no longer uses.
    pub retired: Vec<Extent>,
    /// Growth of the number of stored blocks.
    pub stored: i64,
    /// Growth of the number of blocks of extended attributes that take more than a
    /// unit.
    pub long_xattrs: i64,
}

impl<'a> Stage<'a> {
    /// Creates a stage without changes.
    pub fn new(store: &'a Store, tables: &'a Tables) -> Self {
        Stage {
            store,
            tables,
            changes: Changes::default(),
        }
    }

    /// Takes the inode out of the group's changes to be changed further. A number that
    /// has no inode gets one without blocks, because its attributes arrive after its
    /// blocks.
    ///
    /// # Errors
    /// If the inode cannot be read.
    pub fn take_image(&mut self, ino: InodeNo, version: Version) -> Result<Image> {
        let present = match self.changes.images.remove(&ino.0) {
            Some(staged) => staged,
            None if self.changes.freed.contains_key(&ino.0) => None,
            None if self.tables.has(ino.0) => {
                Some((*self.tables.image(self.store, ino.0)?).clone())
            }
            None => None,
        };
        let mode = FileKind::Regular.mode_bits();
        let blank = || Inode::new(ino, version, mode, Timestamp::default());
        Ok(present.unwrap_or_else(|| Image::new(blank(), &self.store.measures)))
    }

    /// Puts a changed inode into the group's changes.
    pub fn put_image(&mut self, image: Image) {
        self.changes.images.insert(image.inode.ino.0, Some(image));
    }

    /// Gives up the data at `place`, which is free once the group is durable.
    pub fn give_up(&mut self, place: &Place) {
        if place.is_stored() {
            let extent = self.store.measures.extent_of(place);
            self.changes.released.push(extent);
        }
    }

    /// Gives up an index node, which is free once a full transaction is durable.
    pub fn give_up_node(&mut self, place: &Place) {
        if place.is_stored() {
            let extent = self.store.measures.extent_of(place);
            self.changes.retired.push(extent);
        }
    }

    /// Gives up a block of one of a file's forks, stored or reserved.
    pub fn give_up_block(&mut self, fork: Fork, place: &Place) {
        self.count(fork, place, -1);
        self.give_up(place);
    }

    /// Adds `by` to the counts of blocks at such a place.
    fn count(&mut self, fork: Fork, place: &Place, by: i64) {
        match fork {
            Fork::Content => self.changes.stored += by * i64::from(place.is_stored()),
            Fork::Attributes => {
                self.changes.long_xattrs += by * i64::from(self.store.measures.is_long(place));
            }
        }
    }

    /// Sets the place of all extended attributes, or that there are none.
    ///
    /// # Errors
    /// If the node of the former attributes cannot be read.
    pub fn set_xattrs(&mut self, image: &mut Image, place: Place) -> Result<()> {
        self.cut(image, Fork::Attributes, 0, u64::MAX)?;
        image.xattrs_height = 0;
        self.set(image, Fork::Attributes, 0, place)
    }

    /// Takes a copy of a node, to be changed and put back; `None` if there is none.
    pub fn take_node(&mut self, id: NodeId, place: &Place) -> Result<Option<Node>> {
        if let Some(staged) = self.changes.nodes.remove(&id) {
            return Ok(staged);
        }
        let node = self.tables.node(self.store, id, place)?;
        Ok(node.map(|node| (*node).clone()))
    }

    /// Sets the place of `block`, on an index that grows as necessary.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn set(&mut self, image: &mut Image, fork: Fork, block: u64, place: Place) -> Result<()> {
        let measures = self.store.measures;
        let shape = measures.index();
        let reach = |(height, slots): (u8, &[Place])| shape.capacity(slots.len(), height);
        while reach(image.root(fork)) <= block {
            self.grow(image, fork);
        }
        let ino = image.inode.ino.0;
        let (&mut mut height, slots) = image.root_mut(fork);
        let at = shape.number(height, block) as usize;
        if height == 0 {
            let old = std::mem::replace(&mut slots[at], place);
            self.settle(fork, &old, &place);
            return Ok(());
        }
        let mut above = slots[at];
        loop {
            let id = NodeId {
                ino,
                fork,
                height,
                index: shape.number(height, block),
            };
            let node = self.take_node(id, &above)?;
            let mut node = node.unwrap_or_else(|| Node::empty(&measures));
            let slot = &mut node.slots[shape.slot(height, block)];
            above = *slot;
            if height == 1 {
                *slot = place;
            }
            self.changes.nodes.insert(id, Some(node));
            if height == 1 {
                self.settle(fork, &above, &place);
                return Ok(());
            }
            height -= 1;
        }
    }

    /// Marks a node and those above it to be rewritten unchanged.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn touch(&mut self, image: &Image, id: NodeId) -> Result<()> {
        let shape = self.store.measures.index();
        let first = id.index.saturating_mul(shape.span(id.height));
        let (mut height, slots) = image.root(id.fork);
        let mut place = slots[shape.number(height, first) as usize];
        while height >= id.height {
            let at = NodeId {
                height,
                index: shape.number(height, first),
                ..id
            };
            let Some(node) = self.take_node(at, &place)? else {
                return Ok(());
            };
            place = node.slots[shape.slot(height, first)];
            self.changes.nodes.insert(at, Some(node));
            height -= 1;
        }
        Ok(())
    }

    fn settle(&mut self, fork: Fork, old: &Place, new: &Place) {
        self.give_up_block(fork, old);
        self.count(fork, new, 1);
    }

    /// Inserts a node between the root and the places that it has.
    fn grow(&mut self, image: &mut Image, fork: Fork) {
        let mut node = Node::empty(&self.store.measures);
        let ino = image.inode.ino.0;
        let (height, slots) = image.root_mut(fork);
        for (slot, root) in node.slots.iter_mut().zip(slots) {
            *slot = std::mem::take(root);
        }
        *height += 1;
        let id = NodeId {
            ino,
            fork,
            height: *height,
            index: 0,
        };
        self.changes.nodes.insert(id, Some(node));
    }
}
