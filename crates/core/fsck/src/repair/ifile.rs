//! Repairs the ifile: every block becomes readable, those of the inode map from the
//! newest images in the log, the others from a recount.

use super::mender::Mender;
use super::report::Actions;
use super::trace::Trace;
use crate::check::{Visitor, walk};
use std::collections::HashSet;
use std::sync::Arc;
use varve_fs::InodeNo;
use varve_lfs::format::ifile::{IMAP_OFFSET, ImapEntry, ImapState, UNFINISHED_OFFSET};
use varve_lfs::format::inode::MAX_HEIGHT;
use varve_lfs::format::node::NodeId;
use varve_lfs::format::{Pointer, entries, entries_mut};
use varve_lfs::internal::{Index, Tree};
use varve_lfs::{Error, Result};
use zerocopy::IntoBytes;

impl Mender<'_> {
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
            .patch_ifile_block(pointer, block, Arc::new(bytes.into()));
        self.touched.ifile.insert(block);
    }

    /// Rebuilds blocks of the inode map from the newest images in the log.
    pub(super) fn rebuild_imap(&mut self, lost: &[(u64, Pointer)], actions: &mut Actions) {
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

    /// Returns the newest state of a number according to the log.
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
                // Snapshots show the image that was found.
                ImapState::Used {
                    version,
                    place,
                    epoch: 0,
                }
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
        let block = self.geometry.imap_block(ino);
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

    pub(super) fn drop_stray(&mut self, block: u64, actions: &mut Actions) -> Result<bool> {
        let root = self.ifile_root()?;
        if root.height == 0 {
            return Ok(false);
        }
        actions.mended(format!("block {block} of the ifile was dropped"));
        self.drop_child(&root, InodeNo::IFILE, 0, block)
    }

    pub(super) fn mend_entries(&mut self, lost: &[u64], actions: &mut Actions) -> Result<bool> {
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

    /// Rebuilds the list of free numbers, in ascending order.
    pub(super) fn relink(&mut self) -> Result<bool> {
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

/// Blocks and unreadable nodes found by a walk of the ifile.
#[derive(Default)]
struct Seen {
    refused: Vec<(NodeId, Pointer)>,
    blocks: Vec<(u64, Pointer)>,
}

impl Visitor for Seen {
    fn node(&mut self, _: NodeId, _: &Pointer) -> bool {
        // The walk ends, because a node names its place, so only one path leads to it.
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
