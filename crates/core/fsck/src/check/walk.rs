//! Walks one file's index without trusting it.
//!
//! The walk ends on any bytes: a node is entered only if its sectors were free until then
//! ([`Visitor::node`] takes them), and its height is one less than its parent's.

use std::sync::Arc;
use varve_fs::{InodeNo, Version};
use varve_lfs::Error;
use varve_lfs::format::inode::Root;
use varve_lfs::format::node::{FANOUT, Node, NodeHeader, NodeId};
use varve_lfs::format::{Malformed, Pointer};
use varve_lfs::internal::{INDEX, MAX_BLOCK, Reader};
use zerocopy::FromBytes;

/// Receives the pointers of an index.
pub trait Visitor {
    /// Visits a node's pointer. Returns true if the node may be read.
    fn node(&mut self, id: NodeId, pointer: &Pointer) -> bool;
    /// Visits a block's pointer, in ascending order.
    fn block(&mut self, block: u64, pointer: &Pointer);
    /// Receives a node that cannot be used.
    fn refused(&mut self, id: NodeId, pointer: &Pointer, error: Error);
    /// Returns true to stop early.
    fn done(&self) -> bool;
}

/// Shows the whole index below `root` to `visitor`.
pub fn walk(
    reader: &Reader,
    ino: InodeNo,
    version: Version,
    root: &Root,
    visitor: &mut dyn Visitor,
) {
    let walk = Walk {
        reader,
        ino,
        version,
    };
    for (index, pointer) in (0..).zip(&root.slots) {
        walk.descend(pointer, root.height, index, visitor);
    }
}

struct Walk<'a> {
    reader: &'a Reader,
    ino: InodeNo,
    version: Version,
}

impl Walk<'_> {
    fn descend(&self, pointer: &Pointer, height: u8, index: u64, visitor: &mut dyn Visitor) {
        if pointer.is_none() || visitor.done() {
            return;
        }
        if height == 0 {
            return visitor.block(index, pointer);
        }
        let id = NodeId {
            ino: self.ino,
            height,
            index,
        };
        if index.saturating_mul(INDEX.span(height)) >= MAX_BLOCK {
            let problem = format!("{id:?} lies beyond the largest file");
            let error = Malformed::new("index node", problem).into();
            return visitor.refused(id, pointer, error);
        }
        if !visitor.node(id, pointer) {
            return;
        }
        match self.read(id, pointer) {
            Ok(node) => {
                for (slot, child) in node.iter() {
                    self.descend(&child, height - 1, index * FANOUT + slot as u64, visitor);
                }
            }
            Err(error) => visitor.refused(id, pointer, error),
        }
    }

    /// Does the same as [`Reader::node`], and requires the version of the file.
    fn read(&self, id: NodeId, pointer: &Pointer) -> Result<Arc<Node>, Error> {
        if let Some(node) = self.reader.patched_node(pointer, id) {
            return Ok(node);
        }
        let bytes = self.reader.block(pointer, id.ino, id.index)?;
        let node = self.reader.decoded_node(&bytes, id)?;
        let version = NodeHeader::ref_from_prefix(&bytes).map_or(0, |(h, _)| h.version.get());
        if version != self.version {
            let problem = format!(
                "{id:?}: its version is {version}, the file's {}",
                self.version
            );
            return Err(Malformed::new("index node", problem).into());
        }
        let node = Arc::new(node);
        self.reader.keep_node(pointer, id, Arc::clone(&node));
        Ok(node)
    }
}
