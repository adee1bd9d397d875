//! Liveness of a block: judged by committed pointers, without a lock.

use super::calls::Found;
use crate::base::Base;
use crate::chain::ChainItem;
use crate::control::contents::BlockInfo;
use crate::error::Result;
use crate::format::Pointer;
use crate::format::history::Identity;
use crate::format::index::Index;
use crate::format::node::NodeId;
use crate::kept::{attributes, data_block};
use crate::mechanism::Mechanism;
use std::sync::Arc;
use varve_fs::planted::{self, Planted};
use varve_fs::{InodeNo, Version};

/// Blocks of a file that are looked up under one lock of the committed state: some ten
/// microseconds.
const LOOKED_UP_AT_ONCE: usize = 64;

/// What cleaning must do with a live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// A data block, attributes or an inode: its copy is appended.
    Moves,
    /// A data block or attributes that only snapshots have: likewise.
    Kept,
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

impl Mechanism {
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
                .layers
                .lookup()
                .steady(|| self.ifile_holds(block, &pointer))?
                .then_some(Life::Ifile),
            ChainItem::Block {
                ino,
                version,
                pointer,
                xattrs: true,
                ..
            } => match self.holds_xattrs((ino, version), &pointer, found)? {
                true => Some(Life::Moves),
                false => self
                    .is_kept(attributes(ino, version), &pointer, found)?
                    .then_some(Life::Kept),
            },
            ChainItem::Block {
                ino,
                version,
                block,
                pointer,
                ..
            } => {
                let mut lives = None;
                let copy = [(block, pointer)];
                self.judge_blocks((ino, version), &copy, found, &|| true, |_, life| {
                    lives = Some(life);
                })?;
                lives
            }
            ChainItem::Node { id, pointer, .. } => {
                let height = self
                    .layers
                    .lookup()
                    .steady(|| self.live_node(id, &pointer))?;
                height.map(Life::Node)
            }
            ChainItem::Inode {
                ino,
                version,
                place,
                ..
            } => {
                let (current, serial) = self.layers.lookup().inode_place(ino)?;
                found.judged_against(serial);
                (current == Some((version, place))).then_some(Life::Moves)
            }
        })
    }

    /// [`Mechanism::life_of`] several blocks: the data blocks of a file are looked up together.
    /// `go_on` is called before each; once it returns false, `found` is marked
    /// interrupted, and not all are judged.
    ///
    /// # Errors
    /// As [`Mechanism::life_of`].
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
                self.judge_blocks(some[0].0, &blocks, found, go_on, |which, life| {
                    lives[some[which].2] = Some(life);
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
        mut lives: impl FnMut(usize, Life),
    ) -> Result<()> {
        let wanted: Vec<u64> = blocks.iter().map(|(block, _)| *block).collect();
        let current = match self.is_life_of(ino, version)? {
            true => self.layers.lookup().pointers(ino, &wanted, go_on),
            false => Err(crate::Error::NoInode(ino)),
        };
        debug_assert!(wanted.is_sorted(), "blocks of {ino} ascend");
        let current = match current.map(Some).or_else(gone)? {
            Some((current, serial)) => {
                found.judged_against(serial);
                current
            }
            None => vec![None; blocks.len()],
        };
        assert!(current.len() <= blocks.len(), "answers about {ino}");
        found.interrupted |= current.len() < blocks.len();
        for (nth, (current, (block, copy))) in current.iter().zip(blocks).enumerate() {
            if current.is_some_and(|pointer| pointer.same_content(copy)) {
                lives(nth, Life::Moves);
            } else if self.is_kept(data_block(ino, version, *block), copy, found)? {
                lives(nth, Life::Kept);
            }
        }
        Ok(())
    }

    /// True if snapshots have this copy of a block that its file does not lead to: a
    /// delta has moved it here, or no delta has moved it elsewhere and the image or the
    /// history has it here. A block that was displaced since the checkpoint counts by
    /// its birth alone, because no run has it yet.
    fn is_kept(&self, identity: Identity, copy: &Pointer, found: &mut Found) -> Result<bool> {
        let judged = self
            .layers
            .lookup()
            .steady(|| self.judge_kept(identity, copy))?;
        if let (_, Some(serial)) = judged {
            found.judged_against(serial);
        }
        Ok(judged.0)
    }

    /// [`Mechanism::is_kept`], and the checkpoint that was consulted, if one was.
    fn judge_kept(&self, identity: Identity, copy: &Pointer) -> Result<(bool, Option<u64>)> {
        let base = {
            let committed = self.layers.read();
            let may = committed.live.may_be_kept(identity, copy);
            if !may || planted::is(Planted::KeptJudgedDead) {
                return Ok((false, None));
            }
            if let Some(place) = committed.moved(identity, copy.birth()) {
                return Ok((place.same_content(copy), None));
            }
            Arc::clone(&committed.base)
        };
        let serial = Some(base.serial);
        if self.image_has(&base, identity, copy)? {
            return Ok((true, serial));
        }
        let entry = self
            .layers
            .with_history(&base, |history| history.entry_of(identity, copy.birth()))?;
        let kept = entry.is_some_and(|entry| {
            let keeps = (base.history.directory).keeps(copy.birth(), entry.last.get());
            keeps && entry.pointer.same_content(copy)
        });
        Ok((kept, serial))
    }

    /// True if the image leads to this copy of a block.
    fn image_has(&self, base: &Base, identity: Identity, copy: &Pointer) -> Result<bool> {
        let ino = InodeNo(identity.ino);
        let image = base.inode(&self.reader, &self.geometry, ino)?;
        let Some(image) = image.filter(|image| image.inode.version == identity.version) else {
            return Ok(false);
        };
        if identity.xattrs {
            return Ok(image.xattrs.same_content(copy));
        }
        let Some(root) = &image.root else {
            return Ok(false);
        };
        let reader = &self.reader;
        let there = crate::reader::Tree { reader, ino, root }.get(identity.block)?;
        Ok(there.is_some_and(|there| there.same_content(copy)))
    }

    /// True if this is the present version of an inode number.
    fn is_life_of(&self, ino: InodeNo, version: Version) -> Result<bool> {
        let (current, _) = self.layers.lookup().inode_place(ino)?;
        let is_it = current.is_some_and(|(current, _)| current == version);
        if is_it {
            // Loaded images keep the cost of folding the move low.
            let _known = self.layers.image(ino);
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
        found.judged_against(self.layers.read().base.serial);
        let current = self.layers.lookup().xattrs(ino).map(Some).or_else(gone)?;
        Ok(current.is_some_and(|current| current.same_content(pointer)))
    }

    fn ifile_holds(&self, block: u64, pointer: &Pointer) -> Result<bool> {
        let base = self.layers.base();
        let current = base.ifile_tree(&self.reader).get(block)?;
        Ok(current.is_some_and(|p| p.same_copy(pointer.sector(), pointer.birth())))
    }

    /// The height of the node's index, if the node is live.
    fn live_node(&self, id: NodeId, pointer: &Pointer) -> Result<Option<u8>> {
        let base = self.layers.base();
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
