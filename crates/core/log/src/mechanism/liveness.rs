//! Liveness of a block: judged by committed pointers, without a lock.

use super::calls::Found;
use crate::chain::ChainItem;
use crate::control::contents::BlockInfo;
use crate::error::Result;
use crate::format::Pointer;
use crate::format::index::Index;
use crate::format::node::NodeId;
use crate::lfs::Lfs;
use std::sync::Arc;
use varve_fs::{InodeNo, Version};

/// Blocks of a file that are looked up under one lock of the committed state: some ten
/// microseconds.
const LOOKED_UP_AT_ONCE: usize = 64;

/// What cleaning must do with a live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// A data block, attributes or an inode: its copy is appended.
    Moves,
    /// A node of an index of this height: the next checkpoint rewrites it, and the nodes
    /// above it.
    Node(u8),
    /// A block of the ifile: the next checkpoint rewrites it.
    Ifile,
}

/// A removed file has no blocks.
fn gone<T>(error: crate::Error) -> Result<Option<T>> {
    match error {
        crate::Error::NoInode(_) => Ok(None),
        error => Err(error),
    }
}

impl Lfs {
    /// Whether a block is live, and what to do with it, judged against committed pointers
    /// only. The checkpoint against which it was judged is recorded in `found`.
    ///
    /// # Errors
    /// Device errors while reading the index.
    pub(crate) fn life_of(&self, item: &ChainItem, found: &mut Found) -> Result<Option<Life>> {
        Ok(match *item {
            ChainItem::Record { .. } | ChainItem::Placed { .. } | ChainItem::Map { .. } => None,
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
                pointer,
                xattrs: true,
                ..
            } => self
                .holds_xattrs((ino, version), &pointer, found)?
                .then_some(Life::Moves),
            ChainItem::Block {
                ino,
                version,
                block,
                pointer,
                ..
            } => {
                let mut lives = None;
                self.judge_blocks((ino, version), &[(block, pointer)], found, &|| true, |_| {
                    lives = Some(Life::Moves);
                })?;
                lives
            }
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

    /// [`Lfs::life_of`] several blocks: the data blocks of a file are looked up together.
    /// `go_on` is called before each; once it returns false, `found` is marked
    /// interrupted, and not all are judged.
    ///
    /// # Errors
    /// As [`Lfs::life_of`].
    pub(crate) fn lives_of(
        &self,
        blocks: &[&BlockInfo],
        found: &mut Found,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Vec<Option<Life>>> {
        let mut lives = vec![None; blocks.len()];
        let mut data = Vec::new();
        for (nth, info) in blocks.iter().enumerate() {
            match info.item {
                ChainItem::Block {
                    ino,
                    version,
                    block,
                    pointer,
                    xattrs: false,
                    ..
                } if ino != InodeNo::IFILE => data.push(((ino, version), block, nth, pointer)),
                _ if !go_on() => {
                    found.interrupted = true;
                    return Ok(lives);
                }
                item => lives[nth] = self.life_of(&item, found)?,
            }
        }
        data.sort_unstable_by_key(|(file, block, nth, _)| (*file, *block, *nth));
        for of_file in data.chunk_by(|a, b| a.0 == b.0) {
            for some in of_file.chunks(LOOKED_UP_AT_ONCE) {
                let blocks: Vec<(u64, Pointer)> = some.iter().map(|b| (b.1, b.3)).collect();
                self.judge_blocks(some[0].0, &blocks, found, go_on, |which| {
                    lives[some[which].2] = Some(Life::Moves);
                })?;
                if found.interrupted {
                    return Ok(lives);
                }
            }
        }
        Ok(lives)
    }

    /// Records in `lives` which of these copies of data blocks of a file are live; they
    /// ascend by block.
    fn judge_blocks(
        &self,
        (ino, version): (InodeNo, Version),
        blocks: &[(u64, Pointer)],
        found: &mut Found,
        go_on: &dyn Fn() -> bool,
        mut lives: impl FnMut(usize),
    ) -> Result<()> {
        if !self.is_life_of(ino, version)? {
            return Ok(());
        }
        let wanted: Vec<u64> = blocks.iter().map(|(block, _)| *block).collect();
        let current = self.lookup().pointers(ino, &wanted, go_on);
        let Some((current, serial)) = current.map(Some).or_else(gone)? else {
            return Ok(());
        };
        found.judged_against(serial);
        found.interrupted |= current.len() < blocks.len();
        for (nth, (current, (_, copy))) in current.iter().zip(blocks).enumerate() {
            if current.is_some_and(|pointer| pointer.same_content(copy)) {
                lives(nth);
            }
        }
        Ok(())
    }

    /// True if this is the present version of an inode number.
    fn is_life_of(&self, ino: InodeNo, version: Version) -> Result<bool> {
        let (current, _) = self.lookup().inode_place(ino)?;
        let is_it = current.is_some_and(|(current, _)| current == version);
        if is_it {
            // Loaded images keep the cost of folding the move low.
            let _known = self.image(ino);
        }
        Ok(is_it)
    }

    fn holds_xattrs(
        &self,
        (ino, version): (InodeNo, Version),
        pointer: &Pointer,
        found: &mut Found,
    ) -> Result<bool> {
        if !self.is_life_of(ino, version)? {
            return Ok(false);
        }
        found.judged_against(self.committed.read().base.serial);
        let current = self.lookup().xattrs(ino).map(Some).or_else(gone)?;
        Ok(current.is_some_and(|current| current.same_content(pointer)))
    }

    fn ifile_holds(&self, block: u64, pointer: &Pointer) -> Result<bool> {
        let base = Arc::clone(&self.committed.read().base);
        let current = base.ifile_tree(&self.reader).get(block)?;
        Ok(current.is_some_and(|p| p.same_copy(pointer.sector(), pointer.birth())))
    }

    /// The height of the node's index, if the node is live.
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
        let tree = crate::reader::Tree {
            reader: &self.reader,
            ino: id.ino,
            root,
        };
        let current = tree.find(id.spot())?;
        let live = current.is_some_and(|p| p.same_copy(pointer.sector(), pointer.birth()));
        Ok(live.then_some(root.height))
    }
}
