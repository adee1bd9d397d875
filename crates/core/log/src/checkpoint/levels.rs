//! Index nodes, level by level: changes of one level become changed nodes of
//! the next, until the root's slots are reached.
//!
//! Levels are processed for all files together, so that nodes are written in
//! large partial segments. A pointer that is displaced from its parent dies.

use super::fold::{CHUNK, Fold};
use super::live_bytes;
use crate::error::Result;
use crate::format::Pointer;
use crate::format::history::HISTORY;
use crate::format::index::Index;
use crate::format::inode::Root;
use crate::format::node::{FANOUT, Node, NodeId};
use crate::kept::data_block;
use crate::log::{LogItem, Placed};
use crate::reader::Tree;
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_fs::{InodeNo, Version};

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

impl FileFold {
    /// Which pointer of the index it is: number `index` of its level, 0 for data.
    fn spot(&self, height: u8, index: u64) -> (NodeId, Version) {
        let ino = self.ino;
        (NodeId { ino, height, index }, self.version)
    }
}

impl Fold<'_> {
    /// Applies the changes of all files, level by level up to their roots.
    pub(super) fn levels(&mut self, folds: &mut [FileFold]) -> Result<()> {
        let highest = folds.iter().map(|fold| fold.height).max().unwrap_or(0);
        for height in 0..=highest {
            let mut chunk = PendingNodes::default();
            for at in 0..folds.len() {
                if folds[at].height == height {
                    self.finish_root(&mut folds[at]);
                } else if folds[at].height > height {
                    self.nodes_above(folds, at, height, &mut chunk)?;
                }
            }
            self.write_nodes(folds, &mut chunk)?;
        }
        let applied = folds.iter().all(|fold| fold.changes.is_empty());
        assert!(applied, "changes of an index are left");
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
        slots.resize(self.checkpoints.geometry.root_slots(), Pointer::NONE);
        for (index, pointer) in std::mem::take(&mut fold.changes) {
            let slot = &mut slots[index as usize];
            let former = std::mem::replace(slot, pointer.unwrap_or(Pointer::NONE));
            self.displaced(fold.spot(fold.height, index), &former, pointer.as_ref());
        }
        while slots.last().is_some_and(Pointer::is_none) {
            slots.pop();
        }
        // An empty index needs no height.
        let height = if slots.is_empty() { 0 } else { fold.height };
        fold.root = Root { height, slots };
    }

    /// A pointer of a file's index lost its place to `newer`, if to any.
    fn displaced(
        &mut self,
        (id, version): (NodeId, Version),
        former: &Pointer,
        newer: Option<&Pointer>,
    ) {
        if id.height > 0 {
            self.kill_metadata(former);
        } else {
            self.displace(data_block(id.ino, version, id.index), former, newer);
        }
    }

    /// Applies the changes of level `height` of one file to the nodes above.
    fn nodes_above(
        &mut self,
        folds: &mut [FileFold],
        at: usize,
        height: u8,
        chunk: &mut PendingNodes,
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
        let reader = &self.checkpoints.reader;
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
            let former = tree.find(id.spot())?;
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
                let spot = folds[at].spot(height, child);
                self.displaced(spot, &displaced, pointer.as_ref());
            }
            if node.is_empty() {
                folds[at].changes.insert(index, None);
                continue;
            }
            let of_volume = [InodeNo::IFILE, HISTORY].contains(&ino);
            let counted = of_volume || self.frozen.is_dirty(&id);
            debug_assert!(counted || self.frozen.guessed, "{id:?} was not counted");
            let bytes = node.encode(id, version, self.checkpoints.geometry.packed);
            chunk.bytes += bytes.len();
            chunk.nodes.push(PendingNode {
                at,
                id,
                version,
                node,
                bytes,
            });
            let many = chunk.nodes.len() >= CHUNK && chunk.bytes >= self.least_bytes();
            if many || chunk.bytes >= self.chunk_bytes() {
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
                Some(newer) => {
                    let spot = fold.spot(fold.old.height, index);
                    self.displaced(spot, slot, newer.as_ref());
                }
                None => {
                    changes.insert(index, Some(*slot));
                }
            }
        }
    }

    /// Writes nodes; each becomes a change of its own level.
    fn write_nodes(&mut self, folds: &mut [FileFold], chunk: &mut PendingNodes) -> Result<()> {
        let PendingNodes { nodes, .. } = std::mem::take(chunk);
        if nodes.is_empty() {
            return Ok(());
        }
        let owners: Vec<(usize, u64)> = nodes.iter().map(|n| (n.at, n.id.index)).collect();
        let items = nodes
            .into_iter()
            .map(
                |PendingNode {
                     id,
                     version,
                     node,
                     bytes,
                     ..
                 }| LogItem::Node {
                    id,
                    version,
                    node: Arc::new(node),
                    bytes: bytes.into(),
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
        self.write_full_runs()
    }
}

/// Nodes that wait to be written, and how many bytes they have.
#[derive(Default)]
struct PendingNodes {
    nodes: Vec<PendingNode>,
    bytes: usize,
}

/// A node to write, and the fold it belongs to.
struct PendingNode {
    at: usize,
    id: NodeId,
    version: Version,
    node: Node,
    bytes: Vec<u8>,
}
