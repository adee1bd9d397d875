//! Holes that a group's blocks go into, and the maps that tell of them
//! (`docs/design/holes.md`).

use super::item::LogItem;
use crate::geometry::Geometry;
use crate::segments::Holes;
use std::ops::Range;

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

/// True for a whole block of a user's. Survivors keep their birth, and would
/// pass for a copy that was at the same address before.
pub fn goes_into_holes(geometry: &Geometry, item: &LogItem) -> bool {
    matches!(item, LogItem::Block { source: None, .. })
        && geometry.is_full(item.stored_sectors(geometry))
}

/// Puts the blocks that could go into holes behind each other, in an order that
/// several heads would leave the items of a group in: records and attributes
/// first, then blocks, then inodes.
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
