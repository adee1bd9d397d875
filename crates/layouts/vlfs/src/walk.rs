//! Walking one of a file's indexes.

use crate::error::{Error, Result};
use crate::format::{Fork, Image, Measures, Node, NodeId, Place};
use std::sync::Arc;
use varve_format::index::{Fanout, Index, Spot};
use varve_format::{Malformed, SECTOR};

/// Returns the blocks of a file's extended attributes, in their order.
///
/// # Errors
/// If a node cannot be read, or the blocks are not those of attributes of this length.
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
    // The blocks are adjacent in number, and all but the last are whole.
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

/// Returns the node of an index at a place: from the device alone, or also from newer
/// ones in memory.
pub type Fetch<'a> = dyn Fn(NodeId, &Place) -> Result<Option<Arc<Node>>> + 'a;

/// One of a file's indexes.
pub struct Tree<'a> {
    pub measures: &'a Measures,
    pub image: &'a Image,
    pub fork: Fork,
    pub fetch: &'a Fetch<'a>,
}

impl Tree<'_> {
    /// Returns the identity of the node or block at a spot.
    pub fn id(&self, at: Spot) -> NodeId {
        NodeId {
            ino: self.image.inode.ino.0,
            fork: self.fork,
            height: at.height,
            index: at.index,
        }
    }
}

impl Index for Tree<'_> {
    type Pointer = Place;
    type Node = Arc<Node>;
    type Error = Error;

    fn fanout(&self) -> Fanout {
        self.measures.index()
    }

    fn root(&self) -> (u8, &[Place]) {
        self.image.root(self.fork)
    }

    fn node(&self, at: Spot, place: &Place) -> Result<Option<Arc<Node>>> {
        (self.fetch)(self.id(at), place)
    }

    fn slots(node: &Arc<Node>) -> &[Place] {
        &node.slots
    }
}
