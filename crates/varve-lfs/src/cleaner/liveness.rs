//! Whether a block lives: judged by committed pointers, under no lock.

use super::mechanism::Found;
use crate::chain::ChainItem;
use crate::error::Result;
use crate::format::Pointer;
use crate::format::node::NodeId;
use crate::lfs::Lfs;
use std::sync::Arc;
use varve_fs::{InodeNo, Version};

/// How a block lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// A data block, attributes or an inode: its copy is appended.
    Moves,
    /// A node of an index of this height: the next checkpoint writes it anew,
    /// and the nodes above it.
    Node(u8),
    /// A block of the ifile, likewise.
    Ifile,
}

/// A file that is gone has no blocks.
fn gone<T>(error: crate::Error) -> Result<Option<T>> {
    match error {
        crate::Error::NoInode(_) => Ok(None),
        error => Err(error),
    }
}

impl Lfs {
    /// Whether a block lives, and how, judged against committed pointers only.
    /// `found` is told which checkpoint that was judged against.
    ///
    /// # Errors
    /// Device errors while reading the index.
    pub(super) fn life_of(&self, item: &ChainItem, found: &mut Found) -> Result<Option<Life>> {
        Ok(match *item {
            ChainItem::Record { .. } | ChainItem::Map { .. } => None,
            ChainItem::Block {
                ino: InodeNo::IFILE,
                block,
                pointer,
                ..
            } => self
                .lookup()
                .steady(|| self.ifile_holds(block, &pointer))?
                .then_some(Life::Ifile),
            ChainItem::Block {
                ino,
                version,
                block,
                pointer,
                xattrs,
                ..
            } => self
                .is_live(ino, version, block, &pointer, xattrs, found)?
                .then_some(Life::Moves),
            ChainItem::Node { id, pointer, .. } => {
                let height = self.lookup().steady(|| self.live_node(id, &pointer))?;
                height.map(Life::Node)
            }
            ChainItem::Inode {
                ino,
                version,
                place,
                ..
            } => {
                let (current, serial) = self.lookup().inode_place(ino)?;
                found.judged_against(serial);
                (current == Some((version, place))).then_some(Life::Moves)
            }
        })
    }

    fn is_live(
        &self,
        ino: InodeNo,
        version: Version,
        block: u64,
        pointer: &Pointer,
        xattrs: bool,
        found: &mut Found,
    ) -> Result<bool> {
        let lookup = self.lookup();
        match lookup.inode_place(ino)?.0 {
            Some((current, _)) if current == version => {}
            _ => return Ok(false),
        }
        // Known images keep the price of folding the move low.
        let _known = self.image(ino);
        let current = if xattrs {
            found.judged_against(self.committed.read().base.serial);
            lookup.xattrs(ino).map(Some).or_else(gone)?
        } else {
            match lookup
                .blocks(ino, block, block + 1)
                .map(Some)
                .or_else(gone)?
            {
                Some((blocks, serial)) => {
                    found.judged_against(serial);
                    blocks.first().map(|b| b.1)
                }
                None => None,
            }
        };
        Ok(current.is_some_and(|p| p.same_content(pointer)))
    }

    fn ifile_holds(&self, block: u64, pointer: &Pointer) -> Result<bool> {
        let base = Arc::clone(&self.committed.read().base);
        let current = base.ifile_tree(&self.reader).get(block)?;
        Ok(current.is_some_and(|p| p.same_copy(pointer.sector(), pointer.birth())))
    }

    /// If the node is live, the height of its index.
    fn live_node(&self, id: NodeId, pointer: &Pointer) -> Result<Option<u8>> {
        let base = Arc::clone(&self.committed.read().base);
        let image;
        let root = if id.ino == InodeNo::IFILE {
            Some(base.ifile_root())
        } else {
            image = base.inode(&self.reader, &self.geometry, id.ino)?;
            image.as_ref().and_then(|image| image.root.as_ref())
        };
        let Some(root) = root else { return Ok(None) };
        let tree = crate::base::Tree {
            reader: &self.reader,
            ino: id.ino,
            root,
        };
        let current = tree.node_at(id)?;
        let live = current.is_some_and(|p| p.same_copy(pointer.sector(), pointer.birth()));
        Ok(live.then_some(root.height))
    }
}
