//! The ifile and the inode map.

use super::known::{Known, WINDOW};
use super::{Ended, Image, Stage};
use crate::check::{FindingKind, Mapped, Subject, ifile_regions, plain, walk};
use std::sync::Arc;
use varve_fs::InodeNo;
use varve_lfs::format::ifile::{IMAP_OFFSET, ImapEntry, ImapState};
use varve_lfs::format::{Pointer, entries};
use varve_lfs::internal::HISTORY;

/// Number of inodes read in one batch, sorted by place.
const BATCH: usize = 1 << 14;

impl Image<'_> {
    /// Walks the ifile and returns the blocks of the inode map.
    pub(super) fn ifile(&mut self) -> Result<Vec<(u64, Pointer)>, Ended> {
        self.control.enter(Stage::Inodes, self.hold.base.next_ino);
        let base = Arc::clone(&self.hold.base);
        let reader = Arc::clone(&self.reader);
        let geometry = *self.lfs.geometry_of_volume();
        let mut visitor = self.visitor(InodeNo::IFILE);
        walk(&reader, InodeNo::IFILE, 0, base.ifile_root(), &mut visitor);
        let mut listed = std::mem::take(&mut visitor.listed);
        let regions = ifile_regions(&geometry, base.next_ino);
        let map_begins = IMAP_OFFSET / u64::from(geometry.block_bytes);
        for (block, pointer) in &listed {
            let subject = subject_of(*block);
            if pointer.is_unwritten() || !regions.iter().any(|region| region.contains(block)) {
                let text = "the ifile has no such block";
                self.error(FindingKind::Ifile, subject, text);
            } else if *block < map_begins
                && let Err(error) = reader.ifile_block(pointer, *block)
            {
                self.error(FindingKind::Ifile, subject, plain(&error));
            }
            self.go_on()?;
        }
        listed.retain(|(block, pointer)| regions[2].contains(block) && !pointer.is_unwritten());
        Ok(listed)
    }

    /// Verifies every inode and returns the record of the first window.
    pub(super) fn inodes(&mut self, blocks: &[(u64, Pointer)]) -> Result<Known, Ended> {
        let next_ino = self.hold.base.next_ino;
        let mut known = Known::new(0, next_ino);
        self.each_mapped(blocks, 0..u64::MAX, &mut |image, mapped| {
            image.inode(&mapped, &mut known);
        })?;
        Ok(known)
    }

    /// Returns the record of the window of inodes from `first`, which were verified
    /// before.
    pub(super) fn window(&mut self, blocks: &[(u64, Pointer)], first: u64) -> Result<Known, Ended> {
        let mut known = Known::new(first, self.hold.base.next_ino);
        let range = first..first.saturating_add(WINDOW);
        self.each_mapped(blocks, range, &mut |image, mapped| match image
            .reader
            .inode(&mapped.place, InodeNo(mapped.ino))
        {
            Ok(found) => {
                let inode = &found.inode;
                known.insert(mapped.ino, inode.kind(), inode.nlink);
            }
            Err(_) => known.insert_damaged(mapped.ino),
        })?;
        Ok(known)
    }

    /// Visits the inodes of a range of numbers, in batches sorted by place. Errors of the
    /// map itself are reported if the range begins with 0.
    fn each_mapped(
        &mut self,
        blocks: &[(u64, Pointer)],
        range: std::ops::Range<u64>,
        see: &mut dyn FnMut(&mut Self, Mapped),
    ) -> Result<(), Ended> {
        let per_block = self.lfs.geometry_of_volume().entries_per_block();
        let map_begins = IMAP_OFFSET / u64::from(self.lfs.geometry_of_volume().block_bytes);
        let next_ino = self.hold.base.next_ino;
        let verify = range.start == 0;
        let mut expected = 0;
        let mut batch = Vec::new();
        for (block, pointer) in blocks {
            let first = (block - map_begins) * per_block;
            if verify {
                self.unmapped(expected, first);
            }
            expected = first + per_block;
            if expected <= range.start || first >= range.end {
                continue;
            }
            self.go_on()?;
            match self.reader.ifile_block(pointer, *block) {
                Ok(bytes) => {
                    for (ino, entry) in (first..).zip(entries(&bytes)) {
                        batch.extend(self.map_entry(ino, entry, verify));
                    }
                }
                Err(error) if verify => {
                    let last = expected - 1;
                    let text = format!("inodes {first} to {last} are lost: {}", plain(&error));
                    self.error(FindingKind::InodeMap, subject_of(*block), text);
                    let lost = first..expected.min(next_ino);
                    lost.for_each(|ino| self.unreadable.insert(ino));
                }
                Err(_) => {}
            }
            if batch.len() >= BATCH {
                self.batch(&mut batch, see)?;
            }
        }
        if verify {
            self.unmapped(expected, next_ino);
        }
        self.batch(&mut batch, see)
    }

    fn batch(
        &mut self,
        batch: &mut Vec<Mapped>,
        see: &mut dyn FnMut(&mut Self, Mapped),
    ) -> Result<(), Ended> {
        let highest = batch.last().map_or(0, |mapped| mapped.ino);
        batch.sort_unstable_by_key(|m| (m.place.sector, m.place.slot));
        for mapped in batch.drain(..) {
            self.go_on()?;
            see(self, mapped);
        }
        self.tell(|p| p.done = p.done.max(highest));
        Ok(())
    }

    /// Reports used numbers that no block of the map covers.
    fn unmapped(&mut self, from: u64, to: u64) {
        let from = from.max(InodeNo::FIRST.0);
        if from < to.min(self.hold.base.next_ino) {
            let text = format!("the inode map has no entries for {from} to {}", to - 1);
            self.error(FindingKind::InodeMap, Subject::Inode(from), text);
        }
    }

    fn map_entry(&mut self, ino: u64, entry: &ImapEntry, verify: bool) -> Option<Mapped> {
        let next_ino = self.hold.base.next_ino;
        let subject = Subject::Inode(ino);
        let (kind, problem) = match entry.state() {
            Ok(ImapState::Used { version, place, .. })
                if (InodeNo::ROOT.0..next_ino).contains(&ino) =>
            {
                return Some(Mapped {
                    ino,
                    version,
                    place,
                });
            }
            Ok(ImapState::Free { .. }) if (InodeNo::ROOT.0..next_ino).contains(&ino) => {
                self.free_numbers += u64::from(verify);
                return None;
            }
            Ok(ImapState::Used { .. }) if ino == HISTORY.0 => return None, // verified apart
            Ok(ImapState::Unused) if !(InodeNo::FIRST.0..next_ino).contains(&ino) => return None,
            Ok(ImapState::Unused) => {
                let text = "neither in use nor on the free list: the number is lost";
                (FindingKind::FreeList, text.to_owned())
            }
            Ok(_) => {
                let text = format!("in the inode map, but numbers in use end at {next_ino}");
                (FindingKind::NextInode, text)
            }
            Err(malformed) => (FindingKind::InodeMap, malformed.to_string()),
        };
        if verify {
            self.error(kind, subject, problem);
        }
        None
    }
}

fn subject_of(block: u64) -> Subject {
    let ino = InodeNo::IFILE.0;
    Subject::Block { ino, block }
}
