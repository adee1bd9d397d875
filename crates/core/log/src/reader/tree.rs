//! Walking the index of one file at a checkpoint.

use super::Reader;
use crate::error::{Error, Result};
use crate::format::Pointer;
use crate::format::index::{Fanout, INDEX, Index, Spot};
use crate::format::inode::{MAX_HEIGHT, Root};
use crate::format::node::{Node, NodeId};
use std::sync::Arc;
use varve_fs::InodeNo;

/// The index of one file at a checkpoint.
pub struct Tree<'a> {
    /// Reader of its nodes.
    pub reader: &'a Reader,
    /// Number of the file.
    pub ino: InodeNo,
    /// Root of the index.
    pub root: &'a Root,
}

impl Index for Tree<'_> {
    type Pointer = Pointer;
    type Node = Arc<Node>;
    type Error = Error;

    fn fanout(&self) -> Fanout {
        INDEX
    }

    fn root(&self) -> (u8, &[Pointer]) {
        (self.root.height, &self.root.slots)
    }

    fn node(&self, at: Spot, pointer: &Pointer) -> Result<Option<Arc<Node>>> {
        if pointer.is_none() {
            return Ok(None);
        }
        self.reader
            .node(pointer, NodeId::of(self.ino, at))
            .map(Some)
    }

    fn slots(node: &Arc<Node>) -> &[Pointer] {
        node.slots()
    }
}

impl Tree<'_> {
    /// The pointer of `block`.
    ///
    /// # Errors
    /// If a node on the path cannot be read.
    pub fn get(&self, block: u64) -> Result<Option<Pointer>> {
        self.cursor().get(block)
    }

    /// A cursor for looking up several blocks one after the other.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor {
            tree: self,
            path: Default::default(),
        }
    }
}

/// Keeps the path to the previous block, as neighbours share most of it.
pub struct Cursor<'t> {
    tree: &'t Tree<'t>,
    /// By height, from 1: number and content of the node.
    path: [Option<(u64, Arc<Node>)>; MAX_HEIGHT as usize],
}

impl Cursor<'_> {
    /// The pointer of `block`.
    ///
    /// # Errors
    /// If a node on the path cannot be read.
    pub fn get(&mut self, block: u64) -> Result<Option<Pointer>> {
        let Tree { reader, ino, root } = *self.tree;
        let slot = usize::try_from(INDEX.number(root.height, block)).unwrap_or(usize::MAX);
        let mut pointer = root.slots.get(slot).copied().unwrap_or(Pointer::NONE);
        let steps = self.path[..root.height.into()].iter_mut();
        for (height, step) in (1..=root.height).zip(steps).rev() {
            if pointer.is_none() {
                break;
            }
            let index = INDEX.number(height, block);
            let node = match step {
                Some((at, node)) if *at == index => node,
                _ => {
                    let id = NodeId { ino, height, index };
                    &mut step.insert((index, reader.node(&pointer, id)?)).1
                }
            };
            pointer = node.get(INDEX.slot(height, block));
        }
        Ok((!pointer.is_none()).then_some(pointer))
    }
}
