//! Metadata that cannot be read, found out again and read in its stead.
//!
//! Nothing is written here. What is found out is given to the [`Reader`] as a
//! patch: from then on the pointer that leads to the damaged block leads to
//! the patch, for the check, for look-ups and for the checkpoint that follows.
//! What is patched is also *touched*, so that this checkpoint writes it anew.
//!
//! Without guessing means: a node is taken from the evidence only if the
//! file's own counts of blocks and sectors then agree. The summaries describe
//! every live block, and perhaps dead ones besides; so what they describe
//! contains what was there, and the same number of blocks means that it is
//! the same blocks. Otherwise the range is given up.

use super::evidence::Evidence;
use super::report::Actions;
use super::trace::{Horizon, Trace, WantedNode, Witness};
use crate::base::{Base, Tree, imap_block, span};
use crate::check::{Fix, Visitor, walk};
use crate::error::{Error, Result};
use crate::format::checkpoint::CheckpointRecord;
use crate::format::ifile::{IMAP_OFFSET, ImapEntry, ImapState, InodePlace, UNFINISHED_OFFSET};
use crate::format::inode::{InodeImage, MAX_HEIGHT, Root};
use crate::format::node::{FANOUT, Node, NodeId};
use crate::format::{Pointer, Superblock, entries, entries_mut};
use crate::geometry::Geometry;
use crate::reader::Reader;
use crate::recovery::load_base;
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use varve_fs::{InodeNo, Version};
use zerocopy::IntoBytes;

/// See the module's head.
pub(crate) struct Mender<'a> {
    pub(crate) superblock: &'a Superblock,
    pub(crate) geometry: Geometry,
    pub(crate) reader: &'a Reader,
    /// The checkpoint that counts, its header corrected.
    pub(crate) record: CheckpointRecord,
    pub(crate) horizon: Horizon,
    pub(crate) progress: &'a dyn Fn(u64, u64),
    evidence: OnceCell<Evidence>,
    /// Index nodes the next checkpoint must write.
    pub(crate) nodes: BTreeSet<NodeId>,
    /// Blocks of the ifile it must write.
    pub(crate) ifile: BTreeSet<u64>,
    /// Inodes it must write.
    pub(crate) rewrite: BTreeSet<u64>,
    /// Blocks of the inode map that were made from the evidence.
    rebuilt_imap: BTreeSet<u64>,
    /// Nodes made from the evidence whose files' counts are not yet compared.
    unproven: HashMap<u64, Vec<(NodeId, Pointer)>>,
    /// Nodes that were patched; refused again, they are dropped.
    tried: HashSet<NodeId>,
    pub(super) tried_images: HashSet<u64>,
    relinked: bool,
}

/// Whom something belongs to, in words.
pub(crate) type Names<'n> = &'n dyn Fn(u64) -> String;

impl<'a> Mender<'a> {
    pub(crate) fn new(
        superblock: &'a Superblock,
        reader: &'a Reader,
        record: CheckpointRecord,
        horizon: Horizon,
        progress: &'a dyn Fn(u64, u64),
    ) -> Self {
        Mender {
            superblock,
            geometry: Geometry::from(superblock),
            reader,
            record,
            horizon,
            progress,
            evidence: OnceCell::new(),
            nodes: BTreeSet::new(),
            ifile: BTreeSet::new(),
            rewrite: BTreeSet::new(),
            rebuilt_imap: BTreeSet::new(),
            unproven: HashMap::new(),
            tried: HashSet::new(),
            tried_images: HashSet::new(),
            relinked: false,
        }
    }

    /// What the log says; the first to ask waits for the search.
    pub(crate) fn evidence(&self) -> &Evidence {
        self.evidence.get_or_init(|| {
            let tag = self.superblock.volume_tag();
            Evidence::gather(self.reader, &self.geometry, tag, self.progress)
        })
    }

    pub(crate) fn witness(&self) -> Witness<'_> {
        Witness {
            evidence: self.evidence(),
            reader: self.reader,
            geometry: &self.geometry,
            volume_tag: self.superblock.volume_tag(),
            horizon: self.horizon,
        }
    }

    /// The image as corrected so far, with the usage table.
    ///
    /// # Errors
    /// If it cannot be loaded.
    pub(crate) fn base(&self) -> Result<(Base, Vec<crate::format::UsageEntry>)> {
        load_base(self.reader, &self.geometry, &self.record)
    }

    /// Gives up the list of unfinished inodes if nothing else keeps the image
    /// from being loaded: it is counted anew.
    ///
    /// # Errors
    /// If that does not help.
    pub(super) fn loads(&mut self) -> Result<()> {
        if self.base().is_err() {
            self.record.header.unfinished_count = 0.into();
        }
        self.base().map(drop)
    }

    pub(super) fn into_parts(self) -> (OnceCell<Evidence>, super::Touched, BTreeSet<u64>) {
        let touched = super::Touched {
            nodes: self.nodes,
            ifile: self.ifile,
            inodes: self.rewrite,
        };
        (self.evidence, touched, self.rebuilt_imap)
    }

    fn ifile_root(&self) -> Result<Root> {
        let image = InodeImage::decode(&self.record.ifile, InodeNo::IFILE)?;
        image.root.ok_or_else(|| {
            crate::format::Malformed::new("checkpoint record", "the ifile's inode has no root")
                .into()
        })
    }

    /// Makes every block of the ifile readable.
    ///
    /// # Errors
    /// If the record does not lead to an ifile.
    pub(crate) fn mend_ifile(&mut self, actions: &mut Actions) -> Result<()> {
        let root = self.ifile_root()?;
        let mut blocks = Vec::new();
        for _ in 0..=MAX_HEIGHT {
            let mut seen = Seen::default();
            walk(self.reader, InodeNo::IFILE, 0, &root, &mut seen);
            blocks = seen.blocks;
            let new: Vec<_> = seen
                .refused
                .into_iter()
                .filter(|(id, _)| self.tried.insert(*id))
                .collect();
            if new.is_empty() {
                break;
            }
            for (id, _) in &new {
                actions.mended(format!(
                    "index node {} of height {} of the ifile was made anew from the log",
                    id.index, id.height
                ));
            }
            self.rebuild_nodes(&new, &|_| 0);
        }
        let unit = u64::from(self.geometry.block_bytes);
        let mut lost = Vec::new();
        for (block, pointer) in blocks {
            if pointer.is_unwritten() || self.reader.ifile_block(&pointer, block).is_ok() {
                continue;
            }
            if block >= IMAP_OFFSET / unit {
                lost.push((block, pointer));
                continue;
            }
            let what = if block < UNFINISHED_OFFSET / unit {
                "usage table"
            } else {
                "list of unfinished inodes"
            };
            actions.mended(format!(
                "block {block} of the ifile ({what}) was counted anew"
            ));
            self.put_ifile_block(&pointer, block, vec![0; unit as usize]);
            if block >= UNFINISHED_OFFSET / unit {
                self.record.header.unfinished_count = 0.into();
            }
        }
        self.rebuild_imap(&lost, actions);
        Ok(())
    }

    fn put_ifile_block(&mut self, pointer: &Pointer, block: u64, bytes: Vec<u8>) {
        self.reader
            .patch_ifile_block(pointer, block, Arc::new(bytes));
        self.ifile.insert(block);
    }

    fn rebuild_nodes(&mut self, lost: &[(NodeId, Pointer)], version_of: &dyn Fn(u64) -> Version) {
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
            self.nodes.insert(*id);
        }
    }

    /// Blocks of the inode map, from the newest images in the log.
    fn rebuild_imap(&mut self, lost: &[(u64, Pointer)], actions: &mut Actions) {
        if lost.is_empty() {
            return;
        }
        let per_block = self.geometry.entries_per_block();
        let first_block = IMAP_OFFSET / u64::from(self.geometry.block_bytes);
        let numbers = |block: u64| {
            let first = (block - first_block) * per_block;
            first..first + per_block
        };
        let wanted: HashSet<u64> = lost.iter().flat_map(|(block, _)| numbers(*block)).collect();
        let traces = self.witness().traces(&wanted);
        for (block, pointer) in lost {
            let mut bytes = Vec::new();
            for ino in numbers(*block) {
                let state = self.state_of(ino, traces.get(&ino));
                bytes.extend_from_slice(ImapEntry::new(state).as_bytes());
            }
            bytes.resize(self.geometry.block_bytes as usize, 0);
            self.put_ifile_block(pointer, *block, bytes);
            self.rebuilt_imap.insert(*block);
            let range = numbers(*block);
            actions.mended(format!(
                "the inode map's entries of inodes {} to {} were made anew from the log",
                range.start,
                range.end - 1
            ));
        }
    }

    /// The newest the log says of a number.
    fn state_of(&self, ino: u64, trace: Option<&Trace>) -> ImapState {
        let next_ino = self.record.header.next_ino.get();
        if ino < InodeNo::ROOT.0 || ino >= next_ino {
            return ImapState::Unused;
        }
        let free = |next_version| ImapState::Free {
            next_version,
            previous: 0,
            next: 0,
        };
        let newest = trace.and_then(|trace| trace.images.last());
        let freed = trace.and_then(|trace| trace.freed);
        match (newest, freed) {
            (Some(&(version, place, _)), freed) if freed.is_none_or(|next| next <= version) => {
                ImapState::Used { version, place }
            }
            (_, Some(next)) => free(next),
            (_, None) => free(1),
        }
    }

    /// Sets one entry of the inode map.
    pub(super) fn set_entry(&mut self, ino: u64, state: ImapState) -> Result<bool> {
        let root = self.ifile_root()?;
        let tree = Tree {
            reader: self.reader,
            ino: InodeNo::IFILE,
            root: &root,
        };
        let block = imap_block(&self.geometry, ino);
        let Some(pointer) = tree.get(block)? else {
            return Ok(false);
        };
        let mut bytes = self.reader.ifile_block(&pointer, block)?.to_vec();
        let at = (ino % self.geometry.entries_per_block()) as usize;
        if let Some(entry) = entries_mut(&mut bytes).get_mut(at) {
            *entry = ImapEntry::new(state);
        }
        self.put_ifile_block(&pointer, block, bytes);
        Ok(true)
    }

    /// Patches what can be patched of what a survey found. True if something
    /// changed: look again.
    ///
    /// # Errors
    /// If the ifile cannot be read.
    pub(crate) fn patch(
        &mut self,
        fixes: &[Fix],
        names: Names<'_>,
        actions: &mut Actions,
    ) -> Result<bool> {
        let mut changed = self.give_up_unproven(fixes, names, actions);
        let mut nodes = Vec::new();
        let mut images = Vec::new();
        let mut entries = Vec::new();
        for fix in fixes {
            match *fix {
                Fix::Node { id, pointer } => nodes.push((id, pointer)),
                Fix::Image { ino } => images.push(ino),
                Fix::ImapEntry { ino } => entries.push(ino),
                Fix::ImapBlock { block, pointer } => {
                    self.rebuild_imap(&[(block, pointer)], actions);
                    changed = true;
                }
                Fix::IfileStray { block } => changed |= self.drop_stray(block, actions)?,
                // No entry, so no inode: numbers end before it.
                Fix::Unmapped { from, to } if to >= self.record.header.next_ino.get() => {
                    self.record.header.next_ino = from.into();
                    actions.mended(format!("inode numbers end before {from}"));
                    changed = true;
                }
                _ => {}
            }
        }
        changed |= self.mend_entries(&entries, actions)?;
        changed |= self.mend_nodes(&nodes, names, actions)?;
        changed |= self.mend_images(&images, names, actions)?;
        if !changed && fixes.contains(&Fix::FreeList) && !self.relinked {
            self.relinked = true;
            changed = self.relink()?;
            actions.mended("the list of free inode numbers was linked anew");
        }
        Ok(changed)
    }

    /// Files whose rebuilt nodes do not give the blocks they count lose those
    /// nodes' ranges.
    fn give_up_unproven(&mut self, fixes: &[Fix], names: Names<'_>, actions: &mut Actions) -> bool {
        let wrong: BTreeSet<u64> = fixes
            .iter()
            .filter_map(|fix| match fix {
                Fix::Counts { ino, .. } => Some(*ino),
                _ => None,
            })
            .collect();
        let mut changed = false;
        // Files with further damage are not compared before that is mended.
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
        let first = id.index.saturating_mul(span(id.height));
        let end = first.saturating_add(span(id.height));
        format!(
            "{}: bytes {} to {}, as far as the file had any there, are lost with an index node \
             and read as zeros",
            names(id.ino.0),
            first.saturating_mul(unit),
            end.saturating_mul(unit) - 1
        )
    }

    fn mend_nodes(
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

    /// True if the node itself is sound: its place is what is wrong with it.
    fn is_readable(&self, id: &NodeId, pointer: &Pointer) -> bool {
        self.reader
            .block(pointer, id.ino, id.index)
            .is_ok_and(|bytes| Node::decode(&bytes, *id).is_ok())
    }

    /// Takes the pointer to a node out of what holds it.
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
            self.rewrite.insert(id.ino.0);
            return Ok(true);
        }
        self.drop_child(root, id.ino, id.height, id.index)
    }

    /// Takes pointer `index` of `height` out of the node above it.
    fn drop_child(&mut self, root: &Root, ino: InodeNo, height: u8, index: u64) -> Result<bool> {
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
        let Some(pointer) = tree.node_at(parent)? else {
            return Ok(false);
        };
        let mut node = (*self.reader.node(&pointer, parent)?).clone();
        node.set((index % FANOUT) as usize, Pointer::NONE);
        self.reader.patch_node(&pointer, parent, Arc::new(node));
        self.nodes.insert(parent);
        Ok(true)
    }

    fn drop_stray(&mut self, block: u64, actions: &mut Actions) -> Result<bool> {
        let root = self.ifile_root()?;
        if root.height == 0 {
            return Ok(false);
        }
        actions.mended(format!("block {block} of the ifile was dropped"));
        self.drop_child(&root, InodeNo::IFILE, 0, block)
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

    fn mend_entries(&mut self, lost: &[u64], actions: &mut Actions) -> Result<bool> {
        if lost.is_empty() {
            return Ok(false);
        }
        let traces = self.witness().traces(&lost.iter().copied().collect());
        let mut changed = false;
        for &ino in lost {
            let state = self.state_of(ino, traces.get(&ino));
            changed |= self.set_entry(ino, state)?;
            actions.mended(format!(
                "inode {ino}: its entry in the inode map was made anew from the log"
            ));
        }
        Ok(changed)
    }

    /// Links every free number again, in ascending order.
    fn relink(&mut self) -> Result<bool> {
        let root = self.ifile_root()?;
        let tree = Tree {
            reader: self.reader,
            ino: InodeNo::IFILE,
            root: &root,
        };
        let per_block = self.geometry.entries_per_block();
        let first_block = IMAP_OFFSET / u64::from(self.geometry.block_bytes);
        let next_ino = self.record.header.next_ino.get();
        let end = first_block + next_ino.div_ceil(per_block);
        let mut blocks = Vec::new();
        tree.blocks(first_block, end, &mut |block, pointer| {
            blocks.push((block, pointer));
            true
        })?;
        let mut free: Vec<u64> = Vec::new();
        for (block, pointer) in &blocks {
            let bytes = self.reader.ifile_block(pointer, *block)?;
            let first = (block - first_block) * per_block;
            for (ino, entry) in (first..).zip(entries::<ImapEntry>(&bytes)) {
                if ino < next_ino && matches!(entry.state(), Ok(ImapState::Free { .. })) {
                    free.push(ino);
                }
            }
        }
        let mut at = 0;
        for (block, pointer) in &blocks {
            let mut bytes = self.reader.ifile_block(pointer, *block)?.to_vec();
            let first = (block - first_block) * per_block;
            let mut changed = false;
            for (ino, entry) in (first..).zip(entries_mut::<ImapEntry>(&mut bytes)) {
                if free.get(at) != Some(&ino) {
                    continue;
                }
                if let Ok(ImapState::Free { next_version, .. }) = entry.state() {
                    let linked = ImapEntry::new(ImapState::Free {
                        next_version,
                        previous: at.checked_sub(1).map_or(0, |before| free[before]),
                        next: free.get(at + 1).copied().unwrap_or(0),
                    });
                    changed |= *entry != linked;
                    *entry = linked;
                }
                at += 1;
            }
            if changed {
                self.put_ifile_block(pointer, *block, bytes);
            }
        }
        self.record.header.free_head = free.first().copied().unwrap_or(0).into();
        self.record.header.free_count = (free.len() as u64).into();
        Ok(true)
    }
}

/// What a walk of the ifile meets.
#[derive(Default)]
struct Seen {
    refused: Vec<(NodeId, Pointer)>,
    blocks: Vec<(u64, Pointer)>,
}

impl Visitor for Seen {
    fn node(&mut self, _: NodeId, _: &Pointer) -> bool {
        // Ends: a node names its place, so only one path leads to it.
        true
    }

    fn block(&mut self, block: u64, pointer: &Pointer) {
        self.blocks.push((block, *pointer));
    }

    fn refused(&mut self, id: NodeId, pointer: &Pointer, _: Error) {
        self.refused.push((id, *pointer));
    }

    fn done(&self) -> bool {
        false
    }
}
