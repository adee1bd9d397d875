//! Phase I, first part: the ifile and the inode map.

use super::fixes::Fix;
use super::report::{FindingKind, Phase, Subject};
use super::table::known;
use super::walk::walk;
use super::{Checker, plain, subject_of_block};
use std::sync::Arc;
use varve_fs::InodeNo;
use varve_lfs::Geometry;
use varve_lfs::format::ifile::{
    ENTRY_BYTES, IMAP_OFFSET, ImapEntry, ImapState, InodePlace, UNFINISHED_OFFSET, USAGE_OFFSET,
};
use varve_lfs::format::{Pointer, entries};
use varve_lfs::internal::HISTORY;

/// Number of inodes read in one batch, sorted by place.
const BATCH: usize = 1 << 16;

/// An inode that exists according to the map.
#[derive(Clone, Copy, Debug)]
pub struct Mapped {
    pub ino: u64,
    pub version: u32,
    pub place: InodePlace,
}

/// Returns the blocks of the usage table, of the list of unfinished inodes and of the
/// inode map for numbers below `next_ino`.
pub fn ifile_regions(geometry: &Geometry, next_ino: u64) -> [std::ops::Range<u64>; 3] {
    let unit = u64::from(geometry.block_bytes);
    let usage_bytes = u64::from(geometry.segment_count) * ENTRY_BYTES as u64;
    let imap_bytes = next_ino.saturating_mul(ENTRY_BYTES as u64);
    [
        (USAGE_OFFSET, usage_bytes),
        (UNFINISHED_OFFSET, IMAP_OFFSET - UNFINISHED_OFFSET),
        (IMAP_OFFSET, imap_bytes),
    ]
    .map(|(start, length)| start / unit..start.saturating_add(length).div_ceil(unit))
}

impl Checker<'_> {
    /// Walks the ifile and returns the blocks of the inode map.
    pub(super) fn walk_ifile(&mut self) -> Vec<(u64, Pointer)> {
        let base = Arc::clone(&self.state.base);
        let reader = self.reader;
        let mut visitor = self.visit(InodeNo::IFILE, 0, None);
        walk(reader, InodeNo::IFILE, 0, base.ifile_root(), &mut visitor);
        let (nodes, bytes) = (visitor.nodes, visitor.node_bytes);
        let mut listed = visitor.listed;
        self.counts.nodes += nodes;
        self.counts.metadata_bytes += bytes;
        let unit = u64::from(self.geometry.block_bytes);
        let regions = ifile_regions(&self.geometry, base.next_ino);
        for (block, pointer) in &listed {
            self.counts.metadata_bytes += pointer.stored_bytes();
            if pointer.is_unwritten() || !regions.iter().any(|region| region.contains(block)) {
                let subject = subject_of_block(InodeNo::IFILE, *block);
                let text = "the ifile has no such block";
                self.found.error(FindingKind::Ifile, subject, text);
                self.found.fix(Fix::IfileStray { block: *block });
            } else if *block < IMAP_OFFSET / unit {
                // Blocks of the map are read below.
                if let Err(error) = self.reader.ifile_block(pointer, *block) {
                    let subject = subject_of_block(InodeNo::IFILE, *block);
                    self.found.error(FindingKind::Ifile, subject, plain(&error));
                }
            }
        }
        listed.retain(|(block, pointer)| regions[2].contains(block) && !pointer.is_unwritten());
        listed
    }

    /// Checks every entry of the inode map, and the inodes to which it points.
    pub(super) fn inode_map(&mut self, blocks: &[(u64, Pointer)]) {
        let per_block = self.geometry.entries_per_block();
        let first_block = IMAP_OFFSET / u64::from(self.geometry.block_bytes);
        let next_ino = self.state.base.next_ino;
        let mut batch: Vec<Mapped> = Vec::new();
        let mut expected = 0;
        for (block, pointer) in blocks {
            if self.found.full() {
                return;
            }
            let first = (block - first_block) * per_block;
            self.unmapped(expected, first);
            expected = first + per_block;
            let bytes = match self.reader.ifile_block(pointer, *block) {
                Ok(bytes) => bytes,
                Err(error) => {
                    let text = format!(
                        "inodes {first} to {} are lost: {}",
                        expected - 1,
                        plain(&error)
                    );
                    let subject = subject_of_block(InodeNo::IFILE, *block);
                    self.found.error(FindingKind::InodeMap, subject, text);
                    self.found.fix(Fix::ImapBlock {
                        block: *block,
                        pointer: *pointer,
                    });
                    for ino in first..expected.min(next_ino) {
                        self.lost(ino);
                    }
                    continue;
                }
            };
            for (ino, entry) in (first..).zip(entries(&bytes)) {
                batch.extend(self.map_entry(ino, entry));
            }
            if batch.len() >= BATCH {
                self.batch(&mut batch);
            }
        }
        self.unmapped(expected, next_ino);
        self.batch(&mut batch);
    }

    /// Reports used numbers that no block of the map covers.
    fn unmapped(&mut self, from: u64, to: u64) {
        let from = from.max(InodeNo::FIRST.0);
        if from < to.min(self.state.base.next_ino) {
            let text = format!("the inode map has no entries for {from} to {}", to - 1);
            self.found
                .error(FindingKind::InodeMap, Subject::Inode(from), text);
            let to = to.min(self.state.base.next_ino);
            self.found.fix(Fix::Unmapped { from, to });
        }
    }

    fn map_entry(&mut self, ino: u64, entry: &ImapEntry) -> Option<Mapped> {
        let base = &self.state.base;
        let subject = Subject::Inode(ino);
        match entry.state() {
            Err(malformed) => {
                self.found
                    .error(FindingKind::InodeMap, subject, malformed.to_string());
                self.found.fix(Fix::ImapEntry { ino });
                self.lost(ino);
            }
            Ok(ImapState::Unused) => {
                if (InodeNo::FIRST.0..base.next_ino).contains(&ino) {
                    let text = "neither in use nor on the free list: the number is lost";
                    self.found.error(FindingKind::FreeList, subject, text);
                    self.found.fix(Fix::ImapEntry { ino });
                }
            }
            // Checked with the snapshots.
            Ok(ImapState::Used { .. }) if ino == HISTORY.0 && self.geometry.snapshots => {}
            Ok(_) if ino >= base.next_ino || ino < InodeNo::ROOT.0 => {
                let text = format!(
                    "in the inode map, but numbers in use end at {}",
                    base.next_ino
                );
                self.found.error(FindingKind::NextInode, subject, text);
                self.found.fix(Fix::ImapEntry { ino });
            }
            Ok(ImapState::Free { .. }) => {
                self.imap_free += 1;
                self.inodes.at(ino).flags |= known::FREE;
            }
            Ok(ImapState::Used { version, place, .. }) => {
                return Some(Mapped {
                    ino,
                    version,
                    place,
                });
            }
        }
        None
    }

    /// Reads inodes in the order of their addresses.
    fn batch(&mut self, batch: &mut Vec<Mapped>) {
        batch.sort_unstable_by_key(|m| (m.place.sector, m.place.slot));
        for (done, mapped) in batch.drain(..).enumerate() {
            if self.found.full() {
                return;
            }
            if done % 1024 == 0 {
                let total = self.state.base.next_ino;
                self.progress(Phase::Inodes, self.counts.inodes.min(total), total);
            }
            self.mapped_inode(&mapped);
        }
    }
}
