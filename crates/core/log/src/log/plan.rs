//! Cutting a group into partial segments.
//!
//! Pure arithmetic: which items share a partial segment, its place and its size. Nothing
//! is copied and no place is final until the whole group has one.

use super::holes::Chunk;
use super::item::LogItem;
use super::placement::HeadRun;
use crate::error::Result;
use crate::format::shape::{Shape, SummaryParts};
use crate::format::summary::{
    BlockEntry, FileEntry, HEADER_BYTES, InodeEntry, PlacedEntry, RecordEntry,
};
use crate::format::{LogPosition, SECTOR};
use crate::geometry::Geometry;
use crate::segments::Holes;
use std::ops::Range;
use varve_fs::{InodeNo, Version};

/// A planned partial segment.
#[derive(Debug)]
pub struct PartialPlan {
    /// Indices of the items in the group.
    pub items: Range<usize>,
    /// Index of the head.
    pub head: usize,
    /// Number of the segment.
    pub segment: u32,
    /// Byte offset within the segment.
    pub offset: u32,
    /// The segment is opened with this partial.
    pub enters: bool,
    /// The segment in which the log continues after this one.
    pub next_segment: u32,
    /// Sizes of its parts.
    pub size: PartialSize,
    /// Items that are written into holes, in their order.
    pub plugs: Vec<Chunk>,
    /// Bytes of the whole partial: the sizes rounded to the write unit, or up to the
    /// segment's end for a filler.
    pub bytes: u32,
}

/// Running totals of a partial segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartialSize {
    /// Bytes of entries.
    pub entry_bytes: u32,
    /// Number of entries.
    pub entries: u32,
    /// Sectors of blocks of the whole block size.
    pub full_sectors: u32,
    /// Sectors of other blocks.
    pub short_sectors: u32,
    /// Number of inodes.
    pub inodes: u32,
    file: Option<(InodeNo, Version)>,
}

impl PartialSize {
    /// The size with one more item.
    pub fn with(self, geometry: &Geometry, item: &LogItem) -> Self {
        let mut size = self.with_entry(item);
        if let LogItem::Image { .. } | LogItem::MovedInode { .. } = item {
            size.inodes += 1;
        }
        let sectors = item.stored_sectors(geometry);
        match geometry.is_full(sectors) {
            true => size.full_sectors += sectors,
            false => size.short_sectors += sectors,
        }
        size
    }

    /// The size with blocks in holes, and the pages of a map.
    fn with_plugs(self, items: &[LogItem], pages: usize) -> Self {
        let mut size = items.iter().fold(self, |size, item| size.with_entry(item));
        size.entries += pages as u32;
        size.entry_bytes += (pages * size_of::<BlockEntry>()) as u32;
        size
    }

    fn with_entry(mut self, item: &LogItem) -> Self {
        if item.is_empty() {
            return self;
        }
        if self.file != Some(item.file()) {
            self.file = Some(item.file());
            self.entry_bytes += size_of::<FileEntry>() as u32;
            self.entries += 1;
        }
        self.entries += 1;
        match item {
            LogItem::Placed { crcs, .. } => {
                let bytes = size_of::<PlacedEntry>() + size_of_val(&crcs[..]);
                self.entry_bytes += bytes as u32;
            }
            LogItem::Spilled { .. } => unreachable!("they have been placed"),
            LogItem::Record { .. } => self.entry_bytes += size_of::<RecordEntry>() as u32,
            LogItem::Image { .. } | LogItem::MovedInode { .. } => {
                self.entry_bytes += size_of::<InodeEntry>() as u32;
            }
            LogItem::Block { .. } | LogItem::Xattrs { .. } | LogItem::Node { .. } => {
                self.entry_bytes += size_of::<BlockEntry>() as u32;
            }
        }
        self
    }

    /// Sectors of the summary.
    pub fn summary_sectors(&self) -> u32 {
        (HEADER_BYTES as u32 + self.entry_bytes).div_ceil(SECTOR as u32)
    }

    /// Sectors of the inodes.
    pub fn inode_sectors(&self, geometry: &Geometry) -> u32 {
        (self.inodes * geometry.inode_bytes).div_ceil(SECTOR as u32)
    }

    /// Places of the parts.
    pub fn shape(&self, geometry: &Geometry) -> Shape {
        let parts = SummaryParts {
            summary: self.summary_sectors().into(),
            inodes: self.inode_sectors(geometry).into(),
            full: self.full_sectors.into(),
            short: self.short_sectors.into(),
        };
        parts.placed(geometry.aligned_unit())
    }

    /// Sectors of blocks.
    pub fn block_sectors(&self) -> u32 {
        self.full_sectors + self.short_sectors
    }

    /// Bytes before padding to the write unit; padding that aligns blocks is included.
    pub fn bytes(&self, geometry: &Geometry) -> u32 {
        (self.shape(geometry).end * SECTOR) as u32
    }
}

/// The rest of a segment, as [`plan`] would fill it.
#[derive(Debug)]
pub struct Room {
    left: u32,
    partial: PartialSize,
}

impl Room {
    /// The rest after `position`, the place of a head.
    pub fn at(geometry: &Geometry, position: &LogPosition) -> Self {
        let (_, offset, _) = geometry.successor(position);
        Room {
            left: geometry.segment_bytes - offset,
            partial: PartialSize::default(),
        }
    }

    /// Adds an item; false if it does not fit into the segment.
    pub fn take(&mut self, geometry: &Geometry, item: &LogItem) -> bool {
        let with = self.partial.with(geometry, item);
        if with.bytes(geometry) <= self.left.min(geometry.max_partial()) {
            self.partial = with;
            return true;
        }
        let full = self.partial.bytes(geometry);
        let full = full.next_multiple_of(geometry.write_unit);
        self.left = self.left.saturating_sub(full);
        self.partial = PartialSize::default().with(geometry, item);
        self.partial.bytes(geometry) <= self.left
    }
}

/// Cuts a run of `items` into partial segments after `position`, the place of its head,
/// taking clean segments from `take` (which receives the segment after which to
/// continue). Blocks are written into `holes` where enough of them are adjacent.
///
/// # Errors
/// Errors of `take`; segments taken so far stay taken.
pub fn plan(
    geometry: &Geometry,
    position: LogPosition,
    items: &[LogItem],
    run: &HeadRun,
    holes: &mut Vec<Holes>,
    take: &mut dyn FnMut(u32) -> Result<u32>,
) -> Result<Vec<PartialPlan>> {
    let mut plans = Vec::new();
    let mut position = position;
    let mut start = run.items.start;
    let items = &items[..run.items.end];
    while start < items.len() {
        let (segment, offset, enters) = geometry.successor(&position);
        if enters {
            let next = take(segment.wrapping_add(1))?;
            position.segment = segment.into();
            position.next_segment = next.into();
        }
        let room = (geometry.segment_bytes - offset).min(geometry.max_partial());
        let mut size = PartialSize::default();
        let mut end = start;
        let mut plugs: Vec<Chunk> = Vec::new();
        let mut plugged = 0;
        while let Some(item) = items.get(end) {
            if let Some(chunk) = Chunk::next(geometry, holes, items, end) {
                let with = size.with_plugs(&items[chunk.items.clone()], chunk.pages.len());
                let more = plugged + chunk.bytes(geometry);
                if with.bytes(geometry) > room || plugged > 0 && more > geometry.max_partial() {
                    holes.push(chunk.holes);
                    break;
                }
                (size, end, plugged) = (with, chunk.items.end, more);
                plugs.push(chunk);
                continue;
            }
            let with = size.with(geometry, item);
            if with.bytes(geometry) > room {
                break;
            }
            size = with;
            end += 1;
        }
        // An item is too large for the rest of the segment: fill it up.
        let filler = end == start;
        assert!(
            !filler || room < geometry.max_partial(),
            "an item exceeds the largest partial segment"
        );
        let bytes = if filler {
            geometry.segment_bytes - offset
        } else {
            size.bytes(geometry).next_multiple_of(geometry.write_unit)
        };
        plans.push(PartialPlan {
            items: start..end,
            head: run.head,
            segment,
            offset,
            enters,
            next_segment: position.next_segment.get(),
            size,
            plugs,
            bytes,
        });
        position.offset = (offset + bytes).into();
        start = end;
    }
    Ok(plans)
}
