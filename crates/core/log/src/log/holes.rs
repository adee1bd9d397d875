//! Holes for a group's blocks, and the maps that describe them (`docs/design/holes.md`).

use super::item::LogItem;
use crate::geometry::Geometry;
use crate::segments::Holes;
use std::ops::Range;

/// Items for the holes of one segment, and its map.
#[derive(Debug)]
pub struct Chunk {
    /// Indices of the items in the group.
    pub items: Range<usize>,
    /// The holes: each item is written into the next of `free`.
    pub holes: Holes,
    /// First sectors of the pages of the map.
    pub pages: Vec<u64>,
}

impl Chunk {
    /// The items from `start` on that are written into holes, if enough adjacent items
    /// qualify to use up a segment's holes, or nearly.
    pub(crate) fn next(
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

/// True for a whole block written by a user. Survivors keep their birth, and could be
/// mistaken for an earlier copy at the same address.
pub fn goes_into_holes(geometry: &Geometry, item: &LogItem) -> bool {
    matches!(item, LogItem::Block { source: None, .. })
        && geometry.is_full(item.stored_sectors(geometry))
}

/// Moves the blocks that could be written into holes together, in an order that several
/// heads would produce as well: records and attributes first, then blocks, then inodes.
pub(crate) fn gather_blocks(geometry: &Geometry, items: &mut [LogItem]) {
    items.sort_by_key(|item| match item {
        LogItem::Record { .. }
        | LogItem::Xattrs { .. }
        | LogItem::Spilled { .. }
        | LogItem::Placed { .. } => 0,
        LogItem::Image { .. } | LogItem::MovedInode { .. } => 3,
        item => 1 + u8::from(!goes_into_holes(geometry, item)),
    });
}
