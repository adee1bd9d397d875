//! Folding the frozen delta's files into the image below.
//!
//! For each file the delta's holes, reservations and blocks become *changes*
//! of level 0: block number to pointer or nothing. Changes of one level are
//! applied to the index nodes above it; each node that changed is written and
//! becomes a change of the next level, until the root's slots are reached.
//! Levels are processed for all files together, so that nodes are written in
//! large partial segments. A pointer that is displaced from its parent dies.

use super::live_bytes;
use crate::base::{Base, MAX_BLOCK, Tree, height_for};
use crate::delta::{Delta, InodeDelta, RangeState};
use crate::error::Result;
use crate::format::Pointer;
use crate::format::ifile::{ImapState, InodePlace};
use crate::format::inode::{InodeImage, Root};
use crate::format::node::{FANOUT, Node, NodeId};
use crate::lfs::Lfs;
use crate::log::{GroupKind, LogItem, Placed};
use foldhash::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_fs::planted::{self, Planted};
use varve_fs::{InodeNo, Version};

/// Nodes and inodes written in one group, so that no fsync waits for more
/// than a partial segment of the checkpoint.
const CHUNK: usize = 64;

/// Pointers to install, by number within their level; `None` removes.
pub type Changes = BTreeMap<u64, Option<Pointer>>;

/// A file whose index is being rebuilt.
pub struct FileFold {
    /// The file.
    pub ino: InodeNo,
    /// Its version.
    pub version: Version,
    /// Its root at the last checkpoint.
    pub old: Root,
    /// Height it will have.
    pub height: u8,
    /// Changes of the level being processed.
    pub changes: Changes,
    /// Nodes of each height to rewrite even without changes.
    pub touched: Vec<NodeId>,
    /// The result.
    pub root: Root,
}

/// The state of one fold.
pub struct Fold<'a> {
    pub(super) lfs: &'a Lfs,
    pub(super) base: &'a Base,
    pub(super) frozen: &'a Delta,
    /// Net change of live bytes, by segment, against the last checkpoint.
    pub(super) usage: HashMap<u32, i64>,
    /// Live bytes of index nodes and ifile.
    pub(super) metadata_bytes: i64,
    /// What the new image says of each inode of the delta.
    pub(super) final_images: Vec<(u64, Option<Arc<InodeImage>>)>,
    /// Blocks of the ifile written so far.
    pub(super) ifile_changes: Changes,
}

impl<'a> Fold<'a> {
    pub(super) fn new(lfs: &'a Lfs, base: &'a Base, frozen: &'a Delta) -> Self {
        let usage = frozen.usage.clone();
        let metadata_bytes = base.metadata_bytes as i64;
        Fold {
            lfs,
            base,
            frozen,
            usage,
            metadata_bytes,
            final_images: Vec::new(),
            ifile_changes: Changes::new(),
        }
    }

    pub(super) fn count(&mut self, sector: u64, bytes: i64) {
        if let Some(segment) = self.lfs.geometry.segment_of(sector) {
            *self.usage.entry(segment).or_default() += bytes;
        }
    }

    fn kill(&mut self, pointer: &Pointer) {
        let left = i64::from(planted::is(Planted::UsageOffByOne)) * 512;
        self.count(
            pointer.sector(),
            left.min(live_bytes(pointer)) - live_bytes(pointer),
        );
    }

    fn kill_metadata(&mut self, pointer: &Pointer) {
        self.kill(pointer);
        self.metadata_bytes -= live_bytes(pointer);
    }

    /// Folds every file of the delta and returns what the inode map must say.
    pub(super) fn files(&mut self) -> Result<BTreeMap<u64, ImapState>> {
        let mut touched: BTreeMap<u64, Vec<NodeId>> = BTreeMap::new();
        for id in self
            .frozen
            .touched_nodes
            .iter()
            .filter(|id| id.ino != InodeNo::IFILE)
        {
            touched.entry(id.ino.0).or_default().push(*id);
        }
        let mut numbers: Vec<u64> = self.frozen.inodes.keys().copied().collect();
        numbers.extend(
            touched
                .keys()
                .filter(|ino| !self.frozen.inodes.contains_key(ino)),
        );
        numbers.sort_unstable();
        let mut imap = BTreeMap::new();
        let mut folds = Vec::new();
        let mut images = Vec::new();
        let none = InodeDelta::default();
        for number in numbers {
            let ino = InodeNo(number);
            let delta = self.frozen.inode(number).unwrap_or(&none);
            let below = self.below(ino)?;
            if let Some((image, place)) = &below
                && (delta.freed.is_some() || delta.reborn)
            {
                self.kill_file(image, place);
            }
            if let Some(next_version) = delta.freed {
                imap.insert(
                    number,
                    ImapState::Free {
                        next_version,
                        previous: 0,
                        next: 0,
                    },
                );
                continue;
            }
            let below = below.filter(|_| !delta.reborn);
            let touched = touched.remove(&number).unwrap_or_default();
            let Some(newest) = delta
                .image
                .as_ref()
                .map(|placed| placed.image.clone())
                .or_else(|| below.as_ref().map(|(image, _)| (**image).clone()))
            else {
                // Only a touched node of a file that is gone.
                continue;
            };
            let fold = self.begin(ino, delta, below.as_ref().map(|b| &*b.0), touched)?;
            let xattrs_below = below
                .as_ref()
                .map_or(Pointer::NONE, |(image, _)| image.xattrs);
            if let Some(xattrs) = delta.xattrs
                && xattrs != xattrs_below
            {
                self.kill(&xattrs_below);
            }
            let xattrs = delta.xattrs.unwrap_or(xattrs_below);
            let image = InodeImage { xattrs, ..newest };
            images.push((
                image,
                delta.image.as_ref().map(|p| p.place),
                below.map(|(_, p)| p),
            ));
            folds.push(fold);
        }
        self.levels(&mut folds)?;
        self.images(folds, images, &mut imap)?;
        Ok(imap)
    }

    /// The image below the delta and its place.
    fn below(&self, ino: InodeNo) -> Result<Option<(Arc<InodeImage>, InodePlace)>> {
        let (reader, geometry) = (&self.lfs.reader, &self.lfs.geometry);
        match self.base.imap(reader, geometry, ino)? {
            ImapState::Used { place, .. } => Ok(self
                .base
                .inode(reader, geometry, ino)?
                .map(|image| (image, place))),
            _ => Ok(None),
        }
    }

    /// Everything of a file that is gone.
    fn kill_file(&mut self, image: &InodeImage, place: &InodePlace) {
        let root = image.root.clone().unwrap_or_default();
        let lfs = self.lfs;
        let ino = image.inode.ino;
        let tree = Tree {
            reader: &lfs.reader,
            ino,
            root: &root,
        };
        let walked = tree
            .blocks(0, u64::MAX, &mut |_, pointer| {
                self.kill(&pointer);
                true
            })
            .and_then(|()| tree.nodes(&mut |_, pointer| self.kill_metadata(&pointer)));
        if let Err(error) = walked {
            // The file goes all the same; what could not be read stays counted
            // as live, which wastes space and loses nothing.
            tracing::error!(%error, %ino, "a freed file's index is damaged: space is lost");
        }
        self.kill(&image.xattrs);
        self.count(place.sector, -i64::from(lfs.geometry.inode_bytes));
    }

    /// The level-0 changes of one file, and the height its index will have.
    fn begin(
        &mut self,
        ino: InodeNo,
        delta: &InodeDelta,
        below: Option<&InodeImage>,
        touched: Vec<NodeId>,
    ) -> Result<FileFold> {
        let old = below
            .and_then(|image| image.root.clone())
            .unwrap_or_default();
        let tree = Tree {
            reader: &self.lfs.reader,
            ino,
            root: &old,
        };
        let block_sectors = (self.lfs.geometry.block_bytes / 512) as u8;
        let mut changes = Changes::new();
        for (from, to, state) in delta.ranges.within(0, MAX_BLOCK) {
            tree.blocks(from, to, &mut |block, _| {
                changes.insert(block, None);
                true
            })?;
            if let RangeState::Unwritten(birth) = state {
                let pointer = Pointer::unwritten_block(block_sectors, birth);
                changes.extend((from..to).map(|block| (block, Some(pointer))));
            }
        }
        for (block, pointer) in delta.blocks.range(0, u64::MAX) {
            changes.insert(block, Some(pointer));
        }
        let slots = self.lfs.geometry.root_slots();
        let highest = changes
            .iter()
            .rev()
            .find(|(_, p)| p.is_some())
            .map_or(0, |(&b, _)| b);
        let height = old.height.max(height_for(slots, highest));
        let version = below.map_or(delta.version, |image| image.inode.version);
        let root = old.clone();
        Ok(FileFold {
            ino,
            version,
            old,
            height,
            changes,
            touched,
            root,
        })
    }

    /// Applies the changes of all files, level by level up to their roots.
    pub(super) fn levels(&mut self, folds: &mut [FileFold]) -> Result<()> {
        let highest = folds.iter().map(|fold| fold.height).max().unwrap_or(0);
        for height in 0..=highest {
            let mut chunk = Vec::new();
            for at in 0..folds.len() {
                if folds[at].height == height {
                    self.finish_root(&mut folds[at]);
                } else if folds[at].height > height {
                    self.nodes_above(folds, at, height, &mut chunk)?;
                }
            }
            self.write_nodes(folds, &mut chunk)?;
        }
        Ok(())
    }

    /// The changes have reached the root's slots.
    fn finish_root(&mut self, fold: &mut FileFold) {
        let old_here = fold.old.height == fold.height;
        let mut slots = if old_here {
            fold.old.slots.clone()
        } else {
            Vec::new()
        };
        slots.resize(self.lfs.geometry.root_slots(), Pointer::NONE);
        for (index, pointer) in std::mem::take(&mut fold.changes) {
            let slot = &mut slots[index as usize];
            let former = std::mem::replace(slot, pointer.unwrap_or(Pointer::NONE));
            self.displaced(&former, fold.height);
        }
        while slots.last().is_some_and(Pointer::is_none) {
            slots.pop();
        }
        // An empty index needs no height.
        let height = if slots.is_empty() { 0 } else { fold.height };
        fold.root = Root { height, slots };
    }

    /// A pointer at `height` (0 for data) lost its place.
    fn displaced(&mut self, former: &Pointer, height: u8) {
        if height > 0 {
            self.kill_metadata(former);
        } else {
            self.kill(former);
        }
    }

    /// Applies the changes of level `height` of one file to the nodes above.
    fn nodes_above(
        &mut self,
        folds: &mut [FileFold],
        at: usize,
        height: u8,
        chunk: &mut Vec<PendingNode>,
    ) -> Result<()> {
        let fold = &mut folds[at];
        let mut changes = std::mem::take(&mut fold.changes);
        if fold.old.height == height {
            self.hang_below(fold, &mut changes);
        }
        let above = height + 1;
        let mut numbers: Vec<u64> = changes.keys().map(|index| index / FANOUT).collect();
        numbers.extend(
            fold.touched
                .iter()
                .filter(|id| id.height == above)
                .map(|id| id.index),
        );
        numbers.sort_unstable();
        numbers.dedup();
        let ino = fold.ino;
        let version = fold.version;
        let old = fold.old.clone();
        let reader = &self.lfs.reader;
        let tree = Tree {
            reader,
            ino,
            root: &old,
        };
        for index in numbers {
            let id = NodeId {
                ino,
                height: above,
                index,
            };
            let former = tree.node_at(id)?;
            let first = index * FANOUT;
            if former.is_none() && changes.range(first..first + FANOUT).next().is_none() {
                continue;
            }
            let mut node = match &former {
                Some(pointer) => (*reader.node(pointer, id)?).clone(),
                None => Node::default(),
            };
            for (&child, pointer) in changes.range(first..first + FANOUT) {
                let displaced =
                    node.set((child - first) as usize, pointer.unwrap_or(Pointer::NONE));
                self.displaced(&displaced, height);
            }
            if node.is_empty() {
                folds[at].changes.insert(index, None);
                continue;
            }
            chunk.push(PendingNode {
                at,
                id,
                version,
                node,
            });
            if chunk.len() >= CHUNK {
                self.write_nodes(folds, chunk)?;
            }
        }
        Ok(())
    }

    /// The index grows above its old root: the root's slots become children
    /// of new nodes.
    fn hang_below(&mut self, fold: &FileFold, changes: &mut Changes) {
        for (index, slot) in (0..).zip(&fold.old.slots) {
            if slot.is_none() {
                continue;
            }
            match changes.get(&index) {
                Some(_) => self.displaced(slot, fold.old.height),
                None => {
                    changes.insert(index, Some(*slot));
                }
            }
        }
    }

    /// Writes nodes; each becomes a change of its own level.
    fn write_nodes(&mut self, folds: &mut [FileFold], chunk: &mut Vec<PendingNode>) -> Result<()> {
        let nodes = std::mem::take(chunk);
        if nodes.is_empty() {
            return Ok(());
        }
        let owners: Vec<(usize, u64)> = nodes.iter().map(|n| (n.at, n.id.index)).collect();
        let items = nodes
            .into_iter()
            .map(
                |PendingNode {
                     id, version, node, ..
                 }| {
                    let bytes = node.encode(id, version);
                    LogItem::Node {
                        id,
                        version,
                        node: Arc::new(node),
                        bytes,
                    }
                },
            )
            .collect();
        for ((at, index), placed) in owners.into_iter().zip(self.write(items)?) {
            let Placed::Block(pointer) = placed else {
                unreachable!("a node is a block")
            };
            self.count(pointer.sector(), live_bytes(&pointer));
            self.metadata_bytes += live_bytes(&pointer);
            folds[at].changes.insert(index, Some(pointer));
        }
        Ok(())
    }

    pub(super) fn write(&self, items: Vec<LogItem>) -> Result<Vec<Placed>> {
        let written = self.lfs.write_group(items, GroupKind::Checkpoint, None)?;
        Ok(written
            .expect("only the cleaner's groups are refused")
            .placed)
    }

    /// Writes the inodes whose stored image does not say what it must.
    fn images(
        &mut self,
        folds: Vec<FileFold>,
        images: Vec<(InodeImage, Option<InodePlace>, Option<InodePlace>)>,
        imap: &mut BTreeMap<u64, ImapState>,
    ) -> Result<()> {
        let inode_bytes = i64::from(self.lfs.geometry.inode_bytes);
        let mut pending: Vec<InodeImage> = Vec::new();
        for (fold, (mut image, logged, below)) in folds.into_iter().zip(images) {
            let ino = image.inode.ino;
            let version = image.inode.version;
            let stored = logged.or(below);
            let complete = image.root.as_ref() == Some(&fold.root)
                && self.stored_xattrs(ino, logged.is_some()) == Some(image.xattrs);
            if let (true, Some(place)) = (complete, stored) {
                if logged.is_some() {
                    if let Some(below) = below {
                        self.count(below.sector, -inode_bytes);
                    }
                    imap.insert(ino.0, ImapState::Used { version, place });
                    self.final_images.push((ino.0, Some(Arc::new(image))));
                }
                continue;
            }
            for place in [logged, below].into_iter().flatten() {
                self.count(place.sector, -inode_bytes);
            }
            image.root = Some(fold.root);
            pending.push(image);
        }
        for chunk in pending.chunks(CHUNK * 4) {
            let images: Vec<Arc<InodeImage>> = chunk.iter().cloned().map(Arc::new).collect();
            let items = images
                .iter()
                .map(|image| LogItem::MovedInode {
                    image: Arc::clone(image),
                    source: None,
                })
                .collect();
            for (image, placed) in images.iter().zip(self.write(items)?) {
                let Placed::Inode(place) = placed else {
                    unreachable!("an inode was written")
                };
                self.count(place.sector, inode_bytes);
                self.lfs.reader.keep_inode(&place, Arc::clone(image));
                self.final_images
                    .push((image.inode.ino.0, Some(Arc::clone(image))));
                let version = image.inode.version;
                imap.insert(image.inode.ino.0, ImapState::Used { version, place });
            }
        }
        Ok(())
    }

    /// The attribute pointer in the stored image of `ino`.
    fn stored_xattrs(&self, ino: InodeNo, logged: bool) -> Option<Pointer> {
        if logged {
            let entry = self.frozen.inode(ino.0)?;
            return entry.image.as_ref().map(|placed| placed.image.xattrs);
        }
        Some(self.below(ino).ok()??.0.xattrs)
    }
}

/// A node to write, and the fold it belongs to.
struct PendingNode {
    at: usize,
    id: NodeId,
    version: Version,
    node: Node,
}
