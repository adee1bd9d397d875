//! Holes that a group's blocks go into, and the maps that tell of them
//! (`docs/holes.md`).

use super::build::PartialBuffer;
use super::item::LogItem;
use crate::chain::{ChainItem, map_entry};
use crate::format::map::{self, MapEntry, MapHeader};
use crate::format::{Pointer, SECTOR};
use crate::geometry::Geometry;
use crate::lfs::Lfs;
use crate::segments::Edition;
use std::ops::Range;

/// A segment whose holes may be written into while it is this edition.
#[derive(Clone, Debug)]
pub struct Holes {
    /// The segment.
    pub segment: u32,
    /// What it was when they were found.
    pub edition: Edition,
    /// First sectors of holes, each of a block, ascending.
    pub free: Vec<u64>,
    /// What lives between them.
    pub lives: Vec<MapEntry>,
    /// Bytes of the segment that its summaries take.
    pub summaries: Vec<Range<u32>>,
    /// Number of the checkpoint against whose image they were found.
    pub image: u64,
    /// If that leads to some of what stood there: the log up to this serial has
    /// displaced it.
    pub displaced: Option<u64>,
}

impl Holes {
    /// Pages of a map that has `blocks` more than what lives.
    fn pages(&self, geometry: &Geometry, blocks: usize) -> usize {
        (self.lives.len() + blocks).div_ceil(map::entries_per_page(geometry.block_bytes))
    }

    /// Blocks that there is room for beside the map.
    pub fn room(&self, geometry: &Geometry) -> usize {
        let all = self.free.len();
        let fits = |blocks: &usize| blocks + self.pages(geometry, *blocks) <= all;
        (0..=all).rev().find(fits).unwrap_or(0)
    }
}

/// Items that go into the holes of one segment, and its map.
#[derive(Debug)]
pub struct Chunk {
    /// Which items of the group.
    pub items: Range<usize>,
    /// Where they go: each into the next of `free`.
    pub holes: Holes,
    /// Where the pages of the map go.
    pub pages: Vec<u64>,
}

impl Chunk {
    /// What goes into holes of the items from `start` on, if so many blocks
    /// follow each other there that a segment's are used up, or nearly.
    pub(super) fn next(
        geometry: &Geometry,
        holes: &mut Vec<Holes>,
        items: &[LogItem],
        start: usize,
    ) -> Option<Chunk> {
        if holes.is_empty() {
            return None;
        }
        let goes = |item: &&LogItem| goes_into_holes(geometry, item);
        let most = holes.iter().map(|holes| holes.free.len()).max()?;
        let blocks = items[start..].iter().take(most).take_while(goes).count();
        if blocks == 0 {
            return None;
        }
        let worth = |(at, room): (usize, usize)| (4 * blocks >= 3 * room).then_some((room, at));
        let rooms = holes.iter().map(|holes| holes.room(geometry)).enumerate();
        let (room, at) = rooms
            .filter_map(worth)
            .filter(|(room, _)| *room > 0)
            .max()?;
        let holes = holes.swap_remove(at);
        let blocks = blocks.min(room);
        let pages = holes.pages(geometry, blocks);
        let pages = holes.free[blocks..blocks + pages].to_vec();
        Some(Chunk {
            items: start..start + blocks,
            holes,
            pages,
        })
    }

    /// Bytes that are written into holes.
    pub fn bytes(&self, geometry: &Geometry) -> u32 {
        (self.items.len() + self.pages.len()) as u32 * geometry.block_bytes
    }
}

/// True for a whole block of a user's. Survivors keep their birth, and would
/// pass for a copy that was at the same address before.
pub fn goes_into_holes(geometry: &Geometry, item: &LogItem) -> bool {
    matches!(item, LogItem::Block { source: None, .. })
        && geometry.is_full(item.stored_sectors(geometry))
}

/// Puts the blocks that could go into holes behind each other, in an order that
/// several heads would leave the items of a group in: records and attributes
/// first, then blocks, then inodes.
pub(super) fn gather_blocks(geometry: &Geometry, items: &mut [LogItem]) {
    items.sort_by_key(|item| match item {
        LogItem::Record { .. } | LogItem::Xattrs { .. } => 0,
        LogItem::Image { .. } | LogItem::MovedInode { .. } => 3,
        item => 1 + u8::from(!goes_into_holes(geometry, item)),
    });
}

impl Lfs {
    /// Copies a chunk's blocks to their holes, and makes the map. Returns where
    /// the blocks and the pages of the map are.
    pub(super) fn fill_holes(
        &self,
        buffer: &mut PartialBuffer,
        mount: u32,
        chunk: &Chunk,
        items: &[LogItem],
    ) -> (Vec<Pointer>, Vec<Pointer>) {
        let geometry = &self.geometry;
        let Holes {
            segment,
            edition: Edition { incarnation, .. },
            ref free,
            ref lives,
            ..
        } = chunk.holes;
        let first = geometry.byte(segment, 0) / SECTOR;
        buffer.end_run();
        let mut entries = lives.clone();
        let mut blocks = Vec::with_capacity(items.len());
        for (item, &sector) in items.iter().zip(free) {
            let LogItem::Block {
                ino,
                version,
                block,
                data,
                written,
                ..
            } = item
            else {
                unreachable!("only blocks go into holes");
            };
            let pointer = buffer.place_plug(data, sector, incarnation);
            let plug = ChainItem::Block {
                ino: *ino,
                version: *version,
                block: *block,
                pointer,
                written_ns: written.as_ns(),
                source: None,
                xattrs: false,
            };
            entries.extend(map_entry(&plug, first));
            blocks.push(pointer);
        }
        let per_page = map::entries_per_page(geometry.block_bytes);
        let mut pages = Vec::with_capacity(chunk.pages.len());
        for (page, (entries, &sector)) in (0u16..).zip(entries.chunks(per_page).zip(&chunk.pages)) {
            let header = MapHeader {
                crc: 0.into(),
                magic: map::MAGIC.into(),
                volume_tag: self.volume_tag.into(),
                sector: sector.into(),
                serial: buffer.serial.into(),
                segment: segment.into(),
                incarnation: incarnation.into(),
                page: page.into(),
                pages: (chunk.pages.len() as u16).into(),
                entry_count: (entries.len() as u32).into(),
                mount: mount.into(),
                spare: [0; 12],
            };
            let bytes = map::encode(header, entries, geometry.block_bytes);
            pages.push(buffer.place_plug(&bytes, sector, incarnation));
        }
        self.reader
            .plugs((segment, incarnation), free, buffer.serial);
        (blocks, pages)
    }
}
