//! Cutting a group into partial segments.
//!
//! Pure arithmetic: which items share a partial segment, where each begins
//! and how large it is. Nothing is copied and nothing is assigned for good
//! until the whole group has a place.

use super::item::LogItem;
use super::placement::Run;
use crate::error::Result;
use crate::format::summary::{BlockEntry, FileEntry, HEADER_BYTES, InodeEntry, RecordEntry};
use crate::format::{LogPosition, SECTOR};
use crate::geometry::Geometry;
use std::ops::Range;
use varve_fs::{InodeNo, Version};

/// One partial segment to be.
#[derive(Debug)]
pub struct PartialPlan {
    /// Which items of the group.
    pub items: Range<usize>,
    /// The head.
    pub head: usize,
    /// The segment.
    pub segment: u32,
    /// Byte offset within it.
    pub offset: u32,
    /// The segment is entered with this partial.
    pub enters: bool,
    /// The segment the log goes to after this one.
    pub next_segment: u32,
    /// What it must hold.
    pub size: PartialSize,
    /// Bytes of the whole partial: the sizes rounded to the write unit, or up
    /// to the segment's end for a filler.
    pub bytes: u32,
}

/// Running totals of a partial segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartialSize {
    /// Bytes of entries.
    pub entry_bytes: u32,
    /// Number of entries.
    pub entries: u32,
    /// Sectors of blocks.
    pub block_sectors: u32,
    /// Inodes.
    pub inodes: u32,
    file: Option<(InodeNo, Version)>,
}

impl PartialSize {
    /// With one more item.
    pub fn with(mut self, geometry: &Geometry, item: &LogItem) -> Self {
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
            LogItem::Record { .. } => self.entry_bytes += size_of::<RecordEntry>() as u32,
            LogItem::Image { .. } | LogItem::MovedInode { .. } => {
                self.entry_bytes += size_of::<InodeEntry>() as u32;
                self.inodes += 1;
            }
            LogItem::Block { .. } | LogItem::Xattrs { .. } | LogItem::Node { .. } => {
                self.entry_bytes += size_of::<BlockEntry>() as u32;
                self.block_sectors += item.stored_sectors(geometry);
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

    /// Bytes before padding.
    pub fn bytes(&self, geometry: &Geometry) -> u32 {
        let sectors = self.summary_sectors() + self.block_sectors + self.inode_sectors(geometry);
        sectors * SECTOR as u32
    }
}

/// Cuts a run of `items` into partial segments behind `position`, the place of
/// its head, taking clean segments from `take` (which is given the segment to
/// go on after).
///
/// # Errors
/// What `take` says; segments taken so far stay taken.
pub fn plan(
    geometry: &Geometry,
    position: LogPosition,
    items: &[LogItem],
    run: &Run,
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
        while let Some(item) = items.get(end) {
            let with = size.with(geometry, item);
            if with.bytes(geometry) > room {
                break;
            }
            size = with;
            end += 1;
        }
        // An item too large for what is left of the segment: fill it up.
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
            bytes,
        });
        position.offset = (offset + bytes).into();
        start = end;
    }
    Ok(plans)
}
