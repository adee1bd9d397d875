//! Folding the inode map: entries, the free list and the unfinished list.
//!
//! The free list is doubly linked through the entries of free numbers, so
//! that a number taken out of its middle costs two neighbours. Freed numbers
//! join at the head. Numbers below the highest one used that no inode has
//! (given out, never used) join too.

use super::fold::Fold;
use super::live_bytes;
use crate::error::Result;
use crate::format::ifile::{IMAP_OFFSET, ImapEntry, ImapState, UNFINISHED_OFFSET};
use crate::format::{Malformed, Pointer, entries, entries_mut};
use crate::log::{LogItem, Placed};
use crate::reader::Tree;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use varve_device::Block;
use varve_fs::{InodeNo, Timestamp, Version};

/// Ifile blocks written in one group.
const CHUNK: usize = 32;

/// The lists a checkpoint record names.
pub struct Lists {
    pub next_ino: u64,
    /// Version of the first file of a number that is not in the map.
    pub first_version: Version,
    pub free_head: u64,
    pub free_count: u64,
    pub unfinished: BTreeSet<u64>,
}

/// Inode-map blocks being edited.
struct Editor<'f, 'a> {
    fold: &'f Fold<'a>,
    blocks: BTreeMap<u64, Vec<u8>>,
    free_head: u64,
    free_count: u64,
}

impl Editor<'_, '_> {
    fn block(&mut self, block: u64) -> Result<&mut Vec<u8>> {
        if !self.blocks.contains_key(&block) {
            let bytes = self.fold.ifile_content(block)?;
            self.blocks.insert(block, bytes);
        }
        Ok(self.blocks.get_mut(&block).expect("just inserted"))
    }

    fn entry(&mut self, ino: u64) -> Result<&mut ImapEntry> {
        let geometry = &self.fold.checkpoints.geometry;
        let at = (ino % geometry.entries_per_block()) as usize;
        let block = self.block(geometry.imap_block(ino))?;
        let entry = entries_mut::<ImapEntry>(block).get_mut(at);
        entry.ok_or_else(|| Malformed::new("inode map", format!("no entry of inode {ino}")).into())
    }

    fn get(&mut self, ino: u64) -> Result<ImapState> {
        Ok(self.entry(ino)?.state()?)
    }

    fn set(&mut self, ino: u64, state: ImapState) -> Result<()> {
        *self.entry(ino)? = ImapEntry::new(state);
        Ok(())
    }

    /// Takes a number off the free list, if it is on it.
    fn unlink(&mut self, ino: u64) -> Result<()> {
        let ImapState::Free { previous, next, .. } = self.get(ino)? else {
            return Ok(());
        };
        if previous == 0 {
            self.free_head = next;
        } else {
            self.relink(previous, |before, _| (before, next))?;
        }
        if next != 0 {
            self.relink(next, |_, behind| (previous, behind))?;
        }
        self.free_count = self.free_count.saturating_sub(1);
        Ok(())
    }

    fn relink(&mut self, ino: u64, links: impl Fn(u64, u64) -> (u64, u64)) -> Result<()> {
        if let ImapState::Free {
            next_version,
            previous,
            next,
        } = self.get(ino)?
        {
            let (previous, next) = links(previous, next);
            self.set(
                ino,
                ImapState::Free {
                    next_version,
                    previous,
                    next,
                },
            )?;
        }
        Ok(())
    }

    fn push(&mut self, ino: u64, next_version: u32) -> Result<()> {
        let head = self.free_head;
        if head != 0 {
            self.relink(head, |_, behind| (ino, behind))?;
        }
        self.set(
            ino,
            ImapState::Free {
                next_version,
                previous: 0,
                next: head,
            },
        )?;
        self.free_head = ino;
        self.free_count += 1;
        Ok(())
    }
}

impl Fold<'_> {
    /// An ifile block as the last checkpoint has it, of full length.
    pub(super) fn ifile_content(&self, block: u64) -> Result<Vec<u8>> {
        let tree = self.base.ifile_tree(&self.checkpoints.reader);
        match tree.get(block)? {
            Some(pointer) => Ok(self
                .checkpoints
                .reader
                .ifile_block(&pointer, block)?
                .to_vec()),
            None => Ok(vec![0; self.checkpoints.geometry.block_bytes as usize]),
        }
    }

    /// Folds the inode map and the unfinished list; their blocks are written.
    pub(super) fn inode_map(&mut self, changes: BTreeMap<u64, ImapState>) -> Result<Lists> {
        let next_ino = self
            .base
            .next_ino
            .max(self.frozen.next_ino)
            .max(InodeNo::FIRST.0);
        let mut editor = Editor {
            fold: self,
            blocks: BTreeMap::new(),
            free_head: self.base.free_head,
            free_count: self.base.free_count,
        };
        for (&ino, state) in &changes {
            match *state {
                ImapState::Free { next_version, .. } => {
                    editor.unlink(ino)?;
                    editor.push(ino, next_version)?;
                }
                used => {
                    editor.unlink(ino)?;
                    editor.set(ino, used)?;
                }
            }
        }
        for ino in self.base.next_ino.max(InodeNo::FIRST.0)..next_ino {
            if !changes.contains_key(&ino) {
                editor.push(ino, self.base.first_version)?;
            }
        }
        let unfinished = self.unfinished();
        let unit = u64::from(self.checkpoints.geometry.block_bytes);
        for &block in &self.frozen.touched_ifile {
            if block >= UNFINISHED_OFFSET / unit {
                editor.block(block)?;
            }
        }
        let (mut free_head, mut free_count, mut blocks) =
            (editor.free_head, editor.free_count, editor.blocks);
        let (mut next_ino, mut first_version) = (next_ino, self.base.first_version);
        let numbers = next_ino - InodeNo::FIRST.0;
        let map_is_long = next_ino > self.checkpoints.geometry.entries_per_block();
        if free_count == numbers
            && map_is_long
            && let Some(version) = self.begin_map_anew(next_ino, &mut blocks)?
        {
            (next_ino, first_version) = (InodeNo::FIRST.0, version);
            (free_head, free_count) = (0, 0);
        }
        if unfinished != self.base.unfinished {
            self.unfinished_blocks(&unfinished, &mut blocks);
        }
        self.write_ifile_blocks(blocks)?;
        Ok(Lists {
            next_ino,
            first_version,
            free_head,
            free_count,
            unfinished,
        })
    }

    /// No number below `next_ino` is in use: an emptied volume gives back the room
    /// of its inode map. All numbers are forgotten, but for a version that none of
    /// them has had, which is that of their next files. `None` if somebody has been
    /// given one of them meanwhile.
    fn begin_map_anew(
        &mut self,
        next_ino: u64,
        edited: &mut BTreeMap<u64, Vec<u8>>,
    ) -> Result<Option<Version>> {
        let geometry = &self.checkpoints.geometry;
        let (first, last) = (geometry.imap_block(0), geometry.imap_block(next_ino - 1));
        let mut version = self.base.first_version;
        for block in first..=last {
            let bytes = match edited.get(&block) {
                Some(bytes) => bytes.clone(),
                None => self.ifile_content(block)?,
            };
            for entry in entries::<ImapEntry>(&bytes) {
                if let ImapState::Free { next_version, .. } = entry.state()? {
                    version = version.max(next_version);
                }
            }
        }
        {
            let mut allocator = self.checkpoints.allocator.lock();
            let is_quiet = self.checkpoints.layers.read().live.inodes.is_empty();
            if !is_quiet || !allocator.begin_anew(InodeNo::FIRST.0, version) {
                return Ok(None);
            }
            version = allocator.first_version();
        }
        let mut start = match edited.remove(&first) {
            Some(bytes) => bytes,
            None => self.ifile_content(first)?,
        };
        let unused = ImapEntry::new(ImapState::Unused);
        entries_mut::<ImapEntry>(&mut start)[InodeNo::FIRST.0 as usize..].fill(unused);
        edited.retain(|&block, _| block < first);
        edited.insert(first, start);
        let root = self.base.ifile_root().clone();
        let checkpoints = self.checkpoints;
        let tree = Tree {
            reader: &checkpoints.reader,
            ino: InodeNo::IFILE,
            root: &root,
        };
        for block in first + 1..=last {
            if let Some(former) = tree.get(block)? {
                self.kill_metadata(&former);
                self.ifile_changes.insert(block, None);
            }
        }
        Ok(Some(version))
    }

    fn unfinished(&self) -> BTreeSet<u64> {
        let mut list = self.base.unfinished.clone();
        self.frozen.change_unfinished(&mut list);
        list
    }

    fn unfinished_blocks(&self, list: &BTreeSet<u64>, blocks: &mut BTreeMap<u64, Vec<u8>>) {
        let block_bytes = self.checkpoints.geometry.block_bytes as usize;
        let first = UNFINISHED_OFFSET / block_bytes as u64;
        let bytes: Vec<u8> = list.iter().flat_map(|ino| ino.to_le_bytes()).collect();
        for (block, content) in (first..).zip(bytes.chunks(block_bytes)) {
            let mut content = content.to_vec();
            content.resize(block_bytes, 0);
            blocks.insert(block, content);
        }
        // Blocks beyond the list keep old numbers; its length is in the record.
        debug_assert!(first * (block_bytes as u64) < IMAP_OFFSET);
    }

    /// Writes ifile blocks; their pointers wait for the table's fold.
    fn write_ifile_blocks(&mut self, blocks: BTreeMap<u64, Vec<u8>>) -> Result<()> {
        let root = self.base.ifile_root().clone();
        let checkpoints = self.checkpoints;
        let tree = Tree {
            reader: &checkpoints.reader,
            ino: InodeNo::IFILE,
            root: &root,
        };
        let all: Vec<(u64, Arc<Block>)> = blocks
            .into_iter()
            .map(|(block, bytes)| (block, Arc::new(bytes.into())))
            .collect();
        for chunk in all.chunks(self.chunk(CHUNK)) {
            let pointers = self.put_ifile_blocks(chunk)?;
            for ((block, _), pointer) in chunk.iter().zip(pointers) {
                if let Some(former) = tree.get(*block)? {
                    self.kill_metadata(&former);
                }
                self.count(pointer.sector(), live_bytes(&pointer));
                self.metadata_bytes += live_bytes(&pointer);
                self.ifile_changes.insert(*block, Some(pointer));
            }
        }
        Ok(())
    }

    /// Writes ifile blocks as one group.
    pub(super) fn put_ifile_blocks(&self, blocks: &[(u64, Arc<Block>)]) -> Result<Vec<Pointer>> {
        let written = Timestamp::from_ns(self.checkpoints.clock.now_ns());
        let items = blocks
            .iter()
            .map(|(block, bytes)| LogItem::Block {
                ino: InodeNo::IFILE,
                version: 0,
                block: *block,
                data: Arc::clone(bytes).into(),
                written,
                source: None,
            })
            .collect();
        let placed = self.write(items)?;
        Ok(placed
            .into_iter()
            .zip(blocks)
            .map(|(placed, (_, bytes))| {
                let Placed::Block(pointer) = placed else {
                    unreachable!("a block was written")
                };
                self.checkpoints
                    .reader
                    .keep_ifile_block(&pointer, Arc::clone(bytes));
                pointer
            })
            .collect())
    }
}
