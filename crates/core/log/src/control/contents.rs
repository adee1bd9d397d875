//! The contents of a segment, as its summaries and maps describe them.

use crate::chain::{ChainItem, MapPage};
use crate::format::SECTOR;
use crate::geometry::Geometry;
use crate::segments::Edition;
use std::ops::Range;
use std::sync::Arc;
use varve_device::PooledBuffer;

/// One block found in a segment (thesis figure 6-5).
#[derive(Clone, Copy, Debug)]
pub struct BlockInfo {
    /// Its description in the summary.
    pub item: ChainItem,
    /// First byte of its stored data on the device.
    pub byte: u64,
    /// Length of its stored data, in bytes.
    pub length: u32,
}

impl BlockInfo {
    /// The description of an item that is stored, except a map.
    pub(crate) fn of(geometry: &Geometry, item: ChainItem) -> Option<Self> {
        let (byte, length) = match &item {
            ChainItem::Record { .. } | ChainItem::Placed { .. } | ChainItem::Map { .. } => {
                return None;
            }
            ChainItem::Block { pointer, .. } | ChainItem::Node { pointer, .. } => {
                (pointer.sector() * SECTOR, pointer.stored_bytes())
            }
            ChainItem::Inode { place, .. } => {
                let inode_bytes = u64::from(geometry.inode_bytes);
                let before = u64::from(place.slot) * inode_bytes;
                (place.sector * SECTOR + before, inode_bytes)
            }
        };
        let length = length as u32;
        Some(BlockInfo { item, byte, length })
    }
}

/// The fields that distinguish copies at one place: owner, version, block, birth,
/// checksum.
fn name_of(item: &ChainItem) -> (u64, u32, u64, u64, u32, bool) {
    match item {
        ChainItem::Block {
            ino,
            version,
            block,
            pointer,
            xattrs,
            ..
        } => {
            let (birth, crc) = (pointer.birth(), pointer.crc());
            (ino.0, *version, *block, birth, crc, *xattrs)
        }
        other => {
            let pointer = other.pointer();
            let birth = pointer.map_or(0, |pointer| pointer.birth());
            (other.ino().0, 0, 0, birth, 0, false)
        }
    }
}

/// The contents of one segment, dead or live.
#[derive(Clone, Debug, Default)]
pub struct SegmentContents {
    /// Number of the segment.
    pub segment: u32,
    /// State of the segment when it was read.
    pub edition: Edition,
    /// Blocks, nodes and inodes in the order they were written.
    pub blocks: Vec<BlockInfo>,
    /// The list is complete: no summary is missing.
    pub complete: bool,
    /// Bytes of the segment that its summaries take.
    pub(crate) summaries: Vec<Range<u32>>,
    /// Pages of its maps: serial of the partial, and first byte in the segment.
    pub(crate) maps: Vec<(u64, u32)>,
    /// The whole segment, if it was read whole.
    pub(crate) image: Option<Arc<PooledBuffer>>,
}

impl SegmentContents {
    /// The contents of a segment whose newest map is known to describe all live data.
    pub(crate) fn told_by(
        geometry: &Geometry,
        (segment, edition): (u32, Edition),
        summaries: Vec<Range<u32>>,
        pages: Vec<MapPage>,
    ) -> Self {
        let mut contents = SegmentContents {
            segment,
            edition,
            complete: true,
            summaries,
            ..SegmentContents::default()
        };
        contents.add_maps(geometry, pages);
        contents
    }

    /// Adds the blocks that maps describe, each copy once.
    pub(crate) fn add_maps(&mut self, geometry: &Geometry, maps: Vec<MapPage>) {
        if maps.is_empty() {
            return;
        }
        for page in maps {
            self.maps.push((page.serial, page.offset));
            let blocks = page.items.into_iter();
            self.blocks
                .extend(blocks.filter_map(|item| BlockInfo::of(geometry, item)));
        }
        // A mount whose end was discarded may have used the same serial: entries that
        // differ in any field are different copies.
        let name = |info: &BlockInfo| (info.byte, info.length, name_of(&info.item));
        self.blocks.sort_by_key(name);
        self.blocks.dedup_by_key(|info| name(info));
    }

    /// Drops the bytes: for a cleaner of another process, and for callers that move
    /// nothing.
    pub fn without_bytes(mut self) -> Self {
        self.image = None;
        self
    }

    /// Changes a bit of every block, as a bad read would. The segment begins at byte
    /// `first`.
    #[cfg(test)]
    pub(crate) fn spoil(&mut self, first: u64) {
        let image = self.image.as_mut().and_then(Arc::get_mut);
        let image = image.expect("read whole, and not shared");
        for info in &self.blocks {
            image[(info.byte - first) as usize] ^= 1;
        }
    }
}
