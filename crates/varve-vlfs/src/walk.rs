//! Walking one of a file's indexes.

use crate::error::{Error, Result};
use crate::format::{Fork, Image, Measures, Node, NodeId, Place};
use std::sync::Arc;
use varve_format::{Malformed, SECTOR};

/// The blocks of a file's extended attributes, in their order.
///
/// # Errors
/// If a node cannot be read, or they are not what such attributes take.
pub fn attributes(
    measures: &Measures,
    image: &Image,
    fetch: &Fetch<'_>,
) -> Result<Vec<(u64, Place)>> {
    let mut blocks = Vec::new();
    let tree = Tree {
        measures,
        image,
        fork: Fork::Attributes,
        fetch,
    };
    tree.blocks(0, u64::MAX, &mut |block, place| {
        blocks.push((block, place));
        true
    })?;
    let sectors = blocks.iter().map(|(_, place)| u64::from(place.sectors));
    let held = sectors.sum::<u64>() * SECTOR;
    // Whole but for the last, and behind each other.
    let last = blocks.len().saturating_sub(1);
    let in_order = (0..).zip(&blocks).all(|(nth, (block, place))| {
        let whole = u64::from(place.sectors) == measures.block_sectors();
        nth as u64 == *block && (whole || nth == last)
    });
    let bytes = u64::from(image.inode.xattr_bytes);
    if in_order && bytes <= held {
        return Ok(blocks);
    }
    let problem = format!("{bytes} bytes, and {} blocks with {held}", blocks.len());
    Err(Error::BadUnit {
        ino: image.inode.ino,
        unit: image.xattrs.sector / measures.unit_sectors(),
        source: Malformed::new("extended attributes", problem),
    })
}

/// How the nodes of an index are found: on the device alone, or with what is
/// newer in memory.
pub type Fetch<'a> = dyn Fn(NodeId, &Place) -> Result<Option<Arc<Node>>> + 'a;

/// One of a file's indexes.
pub struct Tree<'a> {
    pub measures: &'a Measures,
    pub image: &'a Image,
    pub fork: Fork,
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
        let (height, slots) = self.image.root(self.fork);
        for (index, place) in (0..).zip(slots) {
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
            fork: self.fork,
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
        let (height, slots) = self.image.root(self.fork);
        for (index, place) in (0..).zip(slots) {
            self.visit_place(place, (height, index), from, visit)?;
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
            fork: self.fork,
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
