//! Upper bounds of the free space and of the journal space that changes need.

use crate::format::{DIRECT, Geometry};
use varve_fs::{Group, IMAGES_AT_MOST, Item, Unwritten, Waiting};

/// Memory of a cached sector and its index entry, in bytes, approximately.
const SECTOR_COST: u64 = 700;
/// Number of blocks that an operation changes in addition to the bytes it announces:
/// leaves of directories.
const OPERATION_BLOCKS: u64 = 4;

/// Limits and prices of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prices {
    geometry: Geometry,
    /// True without a journal: changed metadata is then copied.
    in_place: bool,
    /// Maximum number of sectors of a transaction.
    pub largest_sectors: u64,
    /// Number of sectors at which a record is written before more groups are appended.
    pub running_sectors: u64,
    /// Number of sectors not yet in place at which a checkpoint is taken.
    pub sectors_in_memory: u64,
}

impl Prices {
    pub fn new(geometry: Geometry, memory_bytes: u64, in_place: bool) -> Self {
        if in_place {
            let in_memory = (memory_bytes / SECTOR_COST).max(256);
            return Prices {
                geometry,
                in_place,
                largest_sectors: u64::MAX,
                running_sectors: in_memory / 2,
                sectors_in_memory: in_memory,
            };
        }
        // Runs of one sector are the worst case: 520 bytes for each.
        let largest = geometry.journal_bytes() / 528;
        Prices {
            geometry,
            in_place,
            largest_sectors: largest,
            running_sectors: largest / 4,
            sectors_in_memory: (largest / 2).min((memory_bytes / SECTOR_COST).max(256)),
        }
    }

    /// Returns the number of indirect blocks on the path to a block.
    fn levels(&self, highest_block: u64) -> u64 {
        let places = self.geometry.places();
        match highest_block.checked_sub(DIRECT as u64) {
            None => 0,
            Some(nth) if nth < places => 1,
            Some(nth) if nth < places + places * places => 2,
            Some(_) => 3,
        }
    }

    /// Returns an upper bound of the free blocks that the pending changes need: a whole
    /// one for each block, and the indirect blocks on its path.
    pub fn blocks(&self, waiting: &Waiting, rewrites: bool) -> u64 {
        let block = u64::from(self.geometry.block_bytes);
        let asked = match rewrites && !self.in_place {
            // Existing blocks are overwritten in place; attributes are not.
            true => waiting.asked_attributes,
            false => waiting.asked,
        };
        let bytes = waiting.promised.saturating_add(asked);
        let blocks = waiting
            .unwritten
            .blocks
            .saturating_add(bytes.div_ceil(block))
            .saturating_add(waiting.operations.saturating_mul(OPERATION_BLOCKS));
        let ways = 1 + self.levels(waiting.highest_block);
        // Reserved blocks are adjacent: they need an indirect block for as many of them
        // as one indexes, and those at both ends of each range.
        let reserved = waiting.unwritten.reserved.saturating_add(waiting.reserving);
        let leading = reserved / (self.geometry.places() - 1);
        let ends = waiting.unwritten.ranges;
        blocks
            .saturating_add(ends)
            .saturating_mul(ways)
            .saturating_add(reserved)
            .saturating_add(leading)
    }

    /// Returns an upper bound of the journal sectors that the next group needs: a unit
    /// for an image, the indirect blocks on the path for an end of a range, and all
    /// maps. Its data is limited by the size of a group, however much is pending, and
    /// by the blocks that joined the epoch.
    pub fn sectors(&self, unwritten: &Unwritten) -> u64 {
        let unit = self.geometry.unit_sectors();
        let data = self.group_bytes() / u64::from(self.geometry.block_bytes);
        let blocks = data.saturating_add(unwritten.joined);
        let ends = unwritten.ranges.saturating_mul(2);
        let images = unwritten.images.saturating_mul(unit);
        images
            .saturating_add(ends.saturating_mul(3 * unit))
            .saturating_add(blocks.saturating_mul(self.block_sectors()))
            .saturating_add(self.geometry.map_units() * unit)
    }

    /// Returns the bound of [`Self::sectors`] with the changes of all admitted
    /// operations.
    pub fn all_sectors(&self, waiting: &Waiting) -> u64 {
        let images = IMAGES_AT_MOST * self.geometry.unit_sectors();
        let each = images + OPERATION_BLOCKS * self.geometry.block_sectors();
        let operations = waiting.operations.saturating_mul(each);
        self.sectors(&waiting.unwritten).saturating_add(operations)
    }

    /// Returns an upper bound of the sectors for a block that may belong to a
    /// directory, and for all new indirect blocks on its path.
    fn block_sectors(&self) -> u64 {
        4 * self.geometry.block_sectors()
    }

    /// Returns upper bounds of the journal sectors and of the free blocks that a group
    /// needs.
    pub fn of_group(&self, group: &Group) -> (u64, u64) {
        let unit = self.geometry.unit_sectors();
        let mut sectors = self.geometry.map_units() * unit;
        let mut blocks = 0;
        for item in &group.items {
            match item {
                Item::Inode(_) | Item::Freed { .. } => sectors += unit,
                Item::Truncated { .. } | Item::Punched { .. } => sectors += 6 * unit,
                Item::Block { block, .. } => {
                    sectors += self.block_sectors();
                    blocks += 1 + self.levels(*block);
                }
                Item::Reserved {
                    from_block,
                    to_block,
                    ..
                } => {
                    let ends = 2 + (to_block - from_block) / self.geometry.places();
                    sectors += ends.saturating_mul(self.block_sectors());
                    let each = 1 + self.levels(*to_block);
                    blocks += (to_block - from_block).saturating_mul(each);
                }
                Item::Xattrs { .. } => blocks += 1,
                Item::Placed { .. } => {}
            }
        }
        (sectors, blocks)
    }

    /// Returns the number of bytes of data that are appended at once, approximately.
    pub fn group_bytes(&self) -> u64 {
        if self.in_place {
            return 1 << 20;
        }
        (self.geometry.journal_bytes() / 16).clamp(64 << 10, 1 << 20)
    }
}
