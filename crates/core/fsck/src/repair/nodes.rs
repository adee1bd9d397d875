//! Repairs unreadable index nodes: rebuilt from the log, or given up.
//!
//! A rebuilt node is unproven until the file's own counts of blocks and sectors were
//! compared with its content.

use super::mender::{Mender, Names};
use super::report::Actions;
use super::trace::WantedNode;
use crate::check::Fix;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use varve_fs::{InodeNo, Version};
use varve_lfs::Result;
use varve_lfs::format::Pointer;
use varve_lfs::format::ifile::{ImapState, InodePlace};
use varve_lfs::format::inode::{InodeImage, Root};
use varve_lfs::format::node::{FANOUT, Node, NodeId};
use varve_lfs::internal::{Base, INDEX, Index, Tree};

impl Mender<'_> {
    pub(super) fn rebuild_nodes(
        &mut self,
        lost: &[(NodeId, Pointer)],
        version_of: &dyn Fn(u64) -> Version,
    ) {
        let wanted: Vec<WantedNode> = lost
            .iter()
            .map(|(id, _)| WantedNode {
                id: *id,
                version: version_of(id.ino.0),
            })
            .collect();
        let nodes = self.witness().nodes(&wanted);
        for ((id, pointer), node) in lost.iter().zip(nodes) {
            self.reader.patch_node(pointer, *id, Arc::new(node));
            self.touched.nodes.insert(*id);
        }
    }

    /// Gives up the ranges of rebuilt nodes in files whose counts do not agree.
    pub(super) fn give_up_unproven(
        &mut self,
        fixes: &[Fix],
        names: Names<'_>,
        actions: &mut Actions,
    ) -> bool {
        let wrong: BTreeSet<u64> = fixes
            .iter()
            .filter_map(|fix| match fix {
                Fix::Counts { ino, .. } => Some(*ino),
                _ => None,
            })
            .collect();
        let mut changed = false;
        // Files with further damage are compared after its repair.
        let open: HashSet<u64> = fixes
            .iter()
            .filter_map(|fix| match fix {
                Fix::Node { id, .. } => Some(id.ino.0),
                _ => None,
            })
            .collect();
        let unproven = std::mem::take(&mut self.unproven);
        for (ino, nodes) in unproven {
            if open.contains(&ino) {
                self.unproven.insert(ino, nodes);
            } else if wrong.contains(&ino) {
                changed = true;
                for (id, pointer) in nodes {
                    self.reader
                        .patch_node(&pointer, id, Arc::new(Node::default()));
                    actions.lost(self.range_text(&id, names));
                }
            } else {
                for (id, _) in nodes {
                    actions.mended(format!(
                        "{}: index node {} of height {} was made anew from the log; the file \
                         is whole",
                        names(ino),
                        id.index,
                        id.height
                    ));
                }
            }
        }
        changed
    }

    fn range_text(&self, id: &NodeId, names: Names<'_>) -> String {
        let unit = u64::from(self.geometry.block_bytes);
        let first = id.index.saturating_mul(INDEX.span(id.height));
        let end = first.saturating_add(INDEX.span(id.height));
        format!(
            "{}: bytes {} to {}, as far as the file had any there, are lost with an index node \
             and read as zeros",
            names(id.ino.0),
            first.saturating_mul(unit),
            end.saturating_mul(unit) - 1
        )
    }

    pub(super) fn mend_nodes(
        &mut self,
        lost: &[(NodeId, Pointer)],
        names: Names<'_>,
        actions: &mut Actions,
    ) -> Result<bool> {
        if lost.is_empty() {
            return Ok(false);
        }
        let (base, _) = self.base()?;
        let (again, new): (Vec<_>, Vec<_>) = lost
            .iter()
            .copied()
            .partition(|(id, pointer)| self.tried.contains(id) || self.is_readable(id, pointer));
        let mut changed = false;
        for (id, _) in &again {
            changed |= self.drop_node(&base, *id)?;
            actions.lost(self.range_text(id, names));
        }
        if new.is_empty() {
            return Ok(changed);
        }
        let version_of = |ino: u64| {
            let image = base.inode(self.reader, &self.geometry, InodeNo(ino));
            image.ok().flatten().map_or(0, |image| image.inode.version)
        };
        let versions: HashMap<u64, Version> = new
            .iter()
            .map(|(id, _)| (id.ino.0, version_of(id.ino.0)))
            .collect();
        self.rebuild_nodes(&new, &|ino| versions.get(&ino).copied().unwrap_or(0));
        for (id, pointer) in new {
            self.tried.insert(id);
            self.unproven
                .entry(id.ino.0)
                .or_default()
                .push((id, pointer));
        }
        Ok(true)
    }

    /// Returns true if the node itself is readable, so that only its place is wrong.
    fn is_readable(&self, id: &NodeId, pointer: &Pointer) -> bool {
        self.reader
            .block(pointer, id.ino, id.index)
            .is_ok_and(|bytes| self.reader.decoded_node(&bytes, *id).is_ok())
    }

    /// Removes the pointer to a node from its parent.
    fn drop_node(&mut self, base: &Base, id: NodeId) -> Result<bool> {
        let Some((place, image)) = self.image_of(base, id.ino.0)? else {
            return Ok(false);
        };
        let Some(root) = &image.root else {
            return Ok(false);
        };
        if id.height >= root.height {
            let mut image = (*image).clone();
            let slot = image
                .root
                .as_mut()
                .and_then(|root| root.slots.get_mut(id.index as usize));
            let Some(slot) = slot else { return Ok(false) };
            *slot = Pointer::NONE;
            self.reader.patch_inode(&place, Arc::new(image));
            self.touched.inodes.insert(id.ino.0);
            return Ok(true);
        }
        self.drop_child(root, id.ino, id.height, id.index)
    }

    /// Removes pointer `index` of `height` from the node above it.
    pub(super) fn drop_child(
        &mut self,
        root: &Root,
        ino: InodeNo,
        height: u8,
        index: u64,
    ) -> Result<bool> {
        let parent = NodeId {
            ino,
            height: height + 1,
            index: index / FANOUT,
        };
        let tree = Tree {
            reader: self.reader,
            ino,
            root,
        };
        let Some(pointer) = tree.find(parent.spot())? else {
            return Ok(false);
        };
        let mut node = (*self.reader.node(&pointer, parent)?).clone();
        node.set((index % FANOUT) as usize, Pointer::NONE);
        self.reader.patch_node(&pointer, parent, Arc::new(node));
        self.touched.nodes.insert(parent);
        Ok(true)
    }

    fn image_of(&self, base: &Base, ino: u64) -> Result<Option<(InodePlace, Arc<InodeImage>)>> {
        let ino = InodeNo(ino);
        match base.imap(self.reader, &self.geometry, ino)? {
            ImapState::Used { place, .. } => Ok(base
                .inode(self.reader, &self.geometry, ino)?
                .map(|image| (place, image))),
            _ => Ok(None),
        }
    }
}
