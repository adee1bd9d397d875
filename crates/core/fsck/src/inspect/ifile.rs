//! The ifile: its regions, the inode map as ranges, the lists.

use super::Inspector;
use super::collector::Collector;
use crate::check::{plain, walk};
use serde::Serialize;
use std::fmt;
use varve_fs::InodeNo;
use varve_lfs::format::ifile::{
    IMAP_OFFSET, ImapEntry, ImapState, UNFINISHED_OFFSET, USAGE_OFFSET,
};
use varve_lfs::format::{Pointer, entries};

/// Largest number of entries shown of the free list.
const MAX_FREE: usize = 1 << 16;
/// Largest number of ranges shown of the inode map.
const MAX_RANGES: usize = 1 << 16;

/// A region of the ifile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IfileRegion {
    /// "usage table", "unfinished inodes" or "inode map".
    pub name: &'static str,
    /// Byte offset in the ifile.
    pub offset: u64,
    /// Number of entries.
    pub entries: u64,
    /// Number of blocks that exist.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub bytes: u64,
}

/// Adjacent inode numbers with the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NumberRange {
    /// First number.
    pub first: u64,
    /// Last number.
    pub last: u64,
    /// "used", "free", "unused" or "damaged".
    pub state: &'static str,
}

/// The ifile of the checkpoint from which recovery started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IfileView {
    /// Size in bytes.
    pub size: u64,
    /// Height of the index.
    pub height: u8,
    /// Number of index nodes.
    pub nodes: u64,
    /// The three regions.
    pub regions: Vec<IfileRegion>,
    /// The inode map.
    pub numbers: Vec<NumberRange>,
    /// The free list in its order, at most 65,536 entries.
    pub free_list: Vec<u64>,
    /// Length of the free list according to the record.
    pub free_count: u64,
    /// Inodes without names or with an unfinished truncate, including the replayed log.
    pub unfinished: Vec<u64>,
    /// Structures that could not be read, as text.
    pub problems: Vec<String>,
}

impl Inspector {
    /// Returns the ifile.
    ///
    /// # Errors
    /// If no checkpoint can be loaded.
    pub fn ifile(&self) -> varve_lfs::Result<IfileView> {
        let loaded = self.loaded()?;
        let base = &loaded.state.base;
        let root = base.ifile_root();
        let mut collector = Collector::default();
        walk(&self.reader, InodeNo::IFILE, 0, root, &mut collector);
        let Collector {
            blocks,
            nodes,
            mut problems,
            ..
        } = collector;
        let regions = self.regions(&blocks, base.next_ino, base.unfinished.len() as u64);
        let numbers = self.numbers(&blocks, base.next_ino, &mut problems);
        let free_list = self.free_list(&mut problems);
        Ok(IfileView {
            size: base.ifile.inode.size,
            height: root.height,
            nodes,
            regions,
            numbers,
            free_list,
            free_count: base.free_count,
            unfinished: loaded.state.unfinished.iter().copied().collect(),
            problems,
        })
    }

    fn regions(
        &self,
        blocks: &[(u64, Pointer)],
        next_ino: u64,
        unfinished: u64,
    ) -> Vec<IfileRegion> {
        let unit = u64::from(self.geometry.block_bytes);
        let segments = u64::from(self.geometry.segment_count);
        let regions = [
            ("usage table", USAGE_OFFSET, UNFINISHED_OFFSET, segments),
            (
                "unfinished inodes",
                UNFINISHED_OFFSET,
                IMAP_OFFSET,
                unfinished,
            ),
            ("inode map", IMAP_OFFSET, u64::MAX, next_ino),
        ];
        regions
            .into_iter()
            .map(|(name, offset, end, entries)| {
                let within = blocks
                    .iter()
                    .filter(|(block, _)| (offset / unit..end / unit).contains(block));
                let (count, bytes) = within.fold((0, 0), |(count, bytes), (_, pointer)| {
                    (count + 1, bytes + pointer.stored_bytes())
                });
                IfileRegion {
                    name,
                    offset,
                    entries,
                    blocks: count,
                    bytes,
                }
            })
            .collect()
    }

    fn numbers(
        &self,
        blocks: &[(u64, Pointer)],
        next_ino: u64,
        problems: &mut Vec<String>,
    ) -> Vec<NumberRange> {
        let first_block = IMAP_OFFSET / u64::from(self.geometry.block_bytes);
        let per_block = self.geometry.entries_per_block();
        let mut ranges: Vec<NumberRange> = Vec::new();
        for (block, pointer) in blocks {
            let Some(nth) = block.checked_sub(first_block) else {
                continue;
            };
            let first = nth.saturating_mul(per_block);
            let bytes = match self.reader.ifile_block(pointer, *block) {
                Ok(bytes) => bytes,
                Err(error) => {
                    problems.push(format!("inode map from {first}: {}", plain(&error)));
                    add(&mut ranges, first, first + per_block - 1, "damaged");
                    continue;
                }
            };
            for (ino, entry) in (first..next_ino).zip(entries::<ImapEntry>(&bytes)) {
                let state = match entry.state() {
                    Ok(ImapState::Unused) => "unused",
                    Ok(ImapState::Free { .. }) => "free",
                    Ok(ImapState::Used { .. }) => "used",
                    Err(_) => "damaged",
                };
                add(&mut ranges, ino, ino, state);
            }
            if ranges.len() > MAX_RANGES {
                problems.push(format!("only the first {MAX_RANGES} ranges are listed"));
                break;
            }
        }
        ranges
    }

    fn free_list(&self, problems: &mut Vec<String>) -> Vec<u64> {
        let mut list = Vec::new();
        let Some(loaded) = &self.loaded else {
            return list;
        };
        let base = &loaded.state.base;
        let mut ino = base.free_head;
        while ino != 0 && list.len() < MAX_FREE && (list.len() as u64) < base.free_count {
            list.push(ino);
            match base.imap(&self.reader, &self.geometry, InodeNo(ino)) {
                Ok(ImapState::Free { next, .. }) => ino = next,
                Ok(_) => {
                    problems.push(format!("the free list leads to {ino}, which is not free"));
                    break;
                }
                Err(error) => {
                    problems.push(format!("free list at {ino}: {}", plain(&error)));
                    break;
                }
            }
        }
        list
    }
}

fn add(ranges: &mut Vec<NumberRange>, first: u64, last: u64, state: &'static str) {
    match ranges.last_mut() {
        Some(range) if range.state == state && range.last.checked_add(1) == Some(first) => {
            range.last = last;
        }
        _ => ranges.push(NumberRange { first, last, state }),
    }
}

impl fmt::Display for IfileView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ifile: {} bytes, index of height {} with {} nodes",
            self.size, self.height, self.nodes
        )?;
        for region in &self.regions {
            write!(
                f,
                "\n  {} at byte {}: {} entries in {} blocks of {} bytes",
                region.name, region.offset, region.entries, region.blocks, region.bytes
            )?;
        }
        for range in &self.numbers {
            write!(
                f,
                "\n  inodes {}..={}: {}",
                range.first, range.last, range.state
            )?;
        }
        write!(f, "\n  free list of {}:", self.free_count)?;
        for ino in &self.free_list {
            write!(f, " {ino}")?;
        }
        write!(f, "\n  unfinished:")?;
        for ino in &self.unfinished {
            write!(f, " {ino}")?;
        }
        for problem in &self.problems {
            write!(f, "\n  problem: {problem}")?;
        }
        Ok(())
    }
}
