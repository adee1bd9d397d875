//! Removing blocks of a file: truncation, holes, and files that are freed.

use super::Stage;
use crate::error::Result;
use crate::format::{Fork, Image, NodeId, Place};
use varve_fs::{InodeNo, Version};

impl Stage<'_> {
    /// Removes the blocks `from..to` of a fork.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn cut(&mut self, image: &mut Image, fork: Fork, from: u64, to: u64) -> Result<()> {
        let ino = image.inode.ino.0;
        let (&mut height, slots) = image.root_mut(fork);
        for (index, slot) in (0..).zip(slots) {
            let id = NodeId {
                ino,
                fork,
                height,
                index,
            };
            self.cut_slot(slot, id, from, to)?;
        }
        Ok(())
    }

    /// Removes the part of `from..to` at or below one place; height 0 is a block.
    fn cut_slot(&mut self, slot: &mut Place, id: NodeId, from: u64, to: u64) -> Result<()> {
        let index = self.store.measures.index();
        let span = index.span(id.height);
        let first = id.index.saturating_mul(span);
        let end = first.saturating_add(span);
        if first >= to || end <= from {
            return Ok(());
        }
        if first >= from && end <= to {
            self.drop_tree(id, slot)?;
            *slot = Place::NONE;
            return Ok(());
        }
        let Some(mut node) = self.take_node(id, slot)? else {
            return Ok(());
        };
        for (nth, slot) in node.slots.iter_mut().enumerate() {
            let below = id.at(index.below(id.spot(), nth));
            self.cut_slot(slot, below, from, to)?;
        }
        self.changes.nodes.insert(id, Some(node));
        Ok(())
    }

    /// Removes everything at and below a place.
    fn drop_tree(&mut self, id: NodeId, place: &Place) -> Result<()> {
        if id.height == 0 {
            self.give_up_block(id.fork, place);
            return Ok(());
        }
        let Some(node) = self.take_node(id, place)? else {
            return Ok(());
        };
        let index = self.store.measures.index();
        for (nth, slot) in node.slots.iter().enumerate() {
            self.drop_tree(id.at(index.below(id.spot(), nth)), slot)?;
        }
        self.changes.nodes.insert(id, None);
        self.give_up_node(place);
        Ok(())
    }

    /// Frees the inode and everything it has.
    ///
    /// # Errors
    /// If its index cannot be read.
    pub fn free(&mut self, ino: InodeNo, next_version: Version) -> Result<()> {
        let mut image = self.take_image(ino, 0)?;
        for fork in Fork::ALL {
            self.cut(&mut image, fork, 0, u64::MAX)?;
        }
        // Otherwise the number was freed before in this group, or has no inode yet.
        let fresh = !self.changes.freed.contains_key(&ino.0);
        if let Some(unit) = self.tables.entry(ino.0).unit().filter(|_| fresh) {
            self.changes
                .retired
                .push(crate::format::Extent { unit, units: 1 });
        }
        self.changes.images.insert(ino.0, None);
        self.changes.freed.insert(ino.0, next_version);
        Ok(())
    }
}
