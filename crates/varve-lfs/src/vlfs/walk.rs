//! Walking a file's index.

use super::format::{Image, Measures, Node, NodeId, Place};
use crate::error::Result;
use std::sync::Arc;

/// How the nodes of an index are found: on the device alone, or with what is
/// newer in memory.
pub type Fetch<'a> = dyn Fn(NodeId, &Place) -> Result<Option<Arc<Node>>> + 'a;

/// One file's index.
pub struct Tree<'a> {
    pub measures: &'a Measures,
    pub image: &'a Image,
    pub fetch: &'a Fetch<'a>,
}

impl Tree<'_> {
    /// Visits the blocks in `from..to` that exist, ascending, until `visit`
    /// says false.
    ///
    /// # Errors
    /// If a node cannot be read.
    pub fn blocks(
        &self,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(u64, Place) -> bool,
    ) -> Result<()> {
        let height = self.image.height;
        for (index, place) in (0..).zip(&self.image.slots) {
            if !self.descend(place, height, index, (from, to), visit)? {
                break;
            }
        }
        Ok(())
    }

    fn descend(
        &self,
        place: &Place,
        height: u8,
        index: u64,
        (from, to): (u64, u64),
        visit: &mut dyn FnMut(u64, Place) -> bool,
    ) -> Result<bool> {
        let span = self.measures.span(height);
        let first = index.saturating_mul(span);
        if first >= to || first.saturating_add(span) <= from {
            return Ok(true);
        }
        if height == 0 {
            return Ok(place.is_none() || visit(index, *place));
        }
        let id = NodeId {
            ino: self.image.inode.ino.0,
            height,
            index,
        };
        let Some(node) = (self.fetch)(id, place)? else {
            return Ok(true);
        };
        let below = index.saturating_mul(self.measures.fanout() as u64);
        for (slot, place) in (0..).zip(&node.slots) {
            let index = below.saturating_add(slot);
            if !self.descend(place, height - 1, index, (from, to), visit)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Visits every place of the index, blocks and nodes, parents first; below
    /// a node for which `visit` says false nothing is looked at.
    ///
    /// # Errors
    /// If a node cannot be read, or what `visit` says.
    pub fn places(&self, visit: &mut dyn FnMut(NodeId, Place) -> Result<bool>) -> Result<()> {
        self.places_from(0, visit)
    }

    /// The same, but for what lies wholly before a block.
    ///
    /// # Errors
    /// As [`Tree::places`].
    pub fn places_from(
        &self,
        from: u64,
        visit: &mut dyn FnMut(NodeId, Place) -> Result<bool>,
    ) -> Result<()> {
        for (index, place) in (0..).zip(&self.image.slots) {
            self.visit_place(place, (self.image.height, index), from, visit)?;
        }
        Ok(())
    }

    fn visit_place(
        &self,
        place: &Place,
        (height, index): (u8, u64),
        from: u64,
        visit: &mut dyn FnMut(NodeId, Place) -> Result<bool>,
    ) -> Result<()> {
        let span = self.measures.span(height);
        if index.saturating_mul(span).saturating_add(span) <= from {
            return Ok(());
        }
        let id = NodeId {
            ino: self.image.inode.ino.0,
            height,
            index,
        };
        // A node that was never written has no place, and is in memory.
        if (!place.is_none() && !visit(id, *place)?) || height == 0 {
            return Ok(());
        }
        let Some(node) = (self.fetch)(id, place)? else {
            return Ok(());
        };
        let below = index.saturating_mul(self.measures.fanout() as u64);
        for (slot, place) in (0..).zip(&node.slots) {
            let below = (height - 1, below.saturating_add(slot));
            self.visit_place(place, below, from, visit)?;
        }
        Ok(())
    }
}
