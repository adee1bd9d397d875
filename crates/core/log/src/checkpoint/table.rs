//! The usage table of a checkpoint, and the ifile's index above everything.
//!
//! The table must count what writing it changes, and cannot (protocol rule
//! 15). It is written as of the rest of the checkpoint; what its own blocks
//! and the ifile's index nodes add and displace goes into the record as
//! corrections, and with them the incarnations of the segments that it opened.
//! If they were too many for the record, the table is written once more with
//! them inside: the second time only what the first has just written is
//! displaced, which lies in few segments.

use super::fold::Fold;
use super::levels::{Changes, FileFold};
use super::live_bytes;
use crate::base::set_replayed;
use crate::error::Result;
use crate::format::ifile::{ENTRY_BYTES, IMAP_OFFSET, USAGE_OFFSET};
use crate::format::index::height_for;
use crate::format::inode::{InodeImage, Root};
use crate::format::{Pointer, UsageEntry};
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_fs::InodeNo;
use zerocopy::IntoBytes;

/// What the record needs.
pub struct TableImage {
    /// The ifile with its final root.
    pub ifile: InodeImage,
    /// The table as written.
    pub entries: Vec<UsageEntry>,
    /// What must be added to it.
    pub corrections: BTreeMap<u32, i64>,
    /// Live bytes of index nodes and ifile.
    pub metadata_bytes: u64,
}

impl Fold<'_> {
    /// Writes the usage table and the ifile's index.
    /// Numbers end at `next_ino`.
    pub(super) fn usage_table(
        &mut self,
        serial: u64,
        boundary: u64,
        next_ino: u64,
    ) -> Result<TableImage> {
        let mut root = self.base.ifile_root().clone();
        let mut changes = std::mem::take(&mut self.ifile_changes);
        let mut known_dead: Vec<u64> = changes.keys().copied().collect();
        let mut written: Vec<UsageEntry> = Vec::new();
        loop {
            let entries = self.checkpoints.segments.lock().image(
                serial,
                boundary,
                &self.usage,
                &self.frozen.newest_ns,
            );
            let before = std::mem::take(&mut self.usage);
            let old_root = root.clone();
            self.write_table(&entries, &written, &mut changes)?;
            root = self.fold_ifile(old_root, std::mem::take(&mut changes), &known_dead)?;
            known_dead.clear();
            let corrections: BTreeMap<u32, i64> = std::mem::replace(&mut self.usage, before)
                .into_iter()
                .filter(|(_, bytes)| *bytes != 0)
                .collect();
            if corrections.len() <= self.checkpoints.space.record_room() {
                return Ok(TableImage {
                    ifile: self.ifile_image(root, next_ino),
                    entries,
                    corrections,
                    metadata_bytes: self.metadata_bytes.max(0) as u64,
                });
            }
            for (segment, bytes) in corrections {
                *self.usage.entry(segment).or_default() += bytes;
            }
            written = entries;
        }
    }

    /// Writes the table's blocks that changed.
    fn write_table(
        &mut self,
        entries: &[UsageEntry],
        written: &[UsageEntry],
        changes: &mut Changes,
    ) -> Result<()> {
        let block_bytes = self.checkpoints.geometry.block_bytes as usize;
        let per_block = block_bytes / ENTRY_BYTES;
        let first = USAGE_OFFSET / block_bytes as u64;
        let mut blocks = Vec::new();
        for (nth, chunk) in entries.chunks(per_block).enumerate() {
            let block = first + nth as u64;
            let start = nth * per_block;
            if self.are_given_up(start, chunk.len()) {
                if written.is_empty() && self.has_block(block)? {
                    changes.insert(block, None);
                }
                continue;
            }
            let same = if written.is_empty() {
                !self.frozen.touched_ifile.contains(&block) && {
                    let stored = self.ifile_content(block)?;
                    stored[..chunk.len() * ENTRY_BYTES] == *chunk.as_bytes()
                }
            } else {
                written[start..start + chunk.len()] == *chunk
            };
            if !same {
                let mut bytes = chunk.as_bytes().to_vec();
                bytes.resize(block_bytes, 0);
                blocks.push((block, Arc::new(bytes.into())));
            }
        }
        for chunk in blocks.chunks(self.chunk(32)) {
            for ((block, _), pointer) in chunk.iter().zip(self.put_ifile_blocks(chunk)?) {
                self.count(pointer.sector(), live_bytes(&pointer));
                self.metadata_bytes += live_bytes(&pointer);
                changes.insert(*block, Some(pointer));
            }
        }
        Ok(())
    }

    /// True if the table has no entries for so many segments from `first` on.
    fn are_given_up(&self, first: usize, count: usize) -> bool {
        let segments = self.checkpoints.segments.lock();
        (first..first + count).all(|number| segments.is_given_up(number as u32))
    }

    fn has_block(&self, block: u64) -> Result<bool> {
        let tree = self.base.ifile_tree(&self.checkpoints.reader);
        Ok(tree.get(block)?.is_some())
    }

    /// Folds the ifile's own index. Blocks in `known_dead` have had their
    /// former copies counted already.
    fn fold_ifile(&mut self, old: Root, changes: Changes, known_dead: &[u64]) -> Result<Root> {
        let touched = self.frozen.touched(InodeNo::IFILE);
        if changes.is_empty() && touched.is_empty() {
            return Ok(old);
        }
        // Folding a pointer counts what it displaces as data; for the ifile
        // that is metadata, and some of it was counted when it was written.
        let tree = crate::reader::Tree {
            reader: &self.checkpoints.reader,
            ino: InodeNo::IFILE,
            root: &old,
        };
        let mut displaced = Vec::new();
        for &block in changes.keys() {
            if let Some(former) = tree.get(block)? {
                displaced.push((former, known_dead.binary_search(&block).is_ok()));
            }
        }
        for (former, counted) in displaced {
            self.obsolete.block(&former);
            if counted {
                self.count(former.sector(), live_bytes(&former));
            } else {
                self.metadata_bytes -= live_bytes(&former);
            }
        }
        let slots = self.checkpoints.geometry.root_slots();
        let highest = changes.keys().next_back().copied().unwrap_or(0);
        let height = old.height.max(height_for(slots, highest));
        let root = old.clone();
        let mut folds = [FileFold {
            ino: InodeNo::IFILE,
            version: 0,
            old,
            height,
            changes,
            touched,
            root,
        }];
        self.levels(&mut folds)?;
        let [fold] = folds;
        Ok(fold.root)
    }

    fn ifile_image(&self, root: Root, next_ino: u64) -> InodeImage {
        let mut inode = self.base.ifile.inode.clone();
        if let Some(replayed) = self.frozen.replayed {
            set_replayed(&mut inode, replayed);
        }
        inode.size = IMAP_OFFSET + next_ino * ENTRY_BYTES as u64;
        inode.mtime = varve_fs::Timestamp::from_ns(self.checkpoints.clock.now_ns());
        inode.sectors = self.metadata_bytes.max(0) as u64 / 512;
        InodeImage {
            inode,
            root: Some(root),
            xattrs: Pointer::NONE,
        }
    }
}
