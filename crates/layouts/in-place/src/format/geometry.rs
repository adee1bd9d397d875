//! The places of all structures, computed from the superblock.

use super::{BITS_PER_SECTOR, PLACES_PER_SECTOR, Place, Seal, Superblock};
use std::ops::Range;
use varve_format::{Malformed, SECTOR};
use varve_fs::InodeNo;

/// Minimum number of blocks of data in a cylinder group.
const GROUP_DATA_BLOCKS_MIN: u64 = 16;
/// Maximum number of cylinder groups.
const GROUPS_MAX: u64 = 1 << 16;

/// The maps of a cylinder group, in their order on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupMap {
    /// The inodes that have a file.
    Used,
    /// The inodes that have ever had a file.
    Touched,
    /// The inodes whose removal or truncation the next mount continues.
    Unfinished,
    /// The inodes that are directories.
    Directories,
    /// The fragments in use.
    Fragments,
}

impl GroupMap {
    /// The inode maps.
    pub const OF_INODES: [GroupMap; 4] = [
        GroupMap::Used,
        GroupMap::Touched,
        GroupMap::Unfinished,
        GroupMap::Directories,
    ];
}

/// The content of a sector of a cylinder group.
pub(crate) enum Holds {
    /// The sector with this number within the group's maps, or padding behind them.
    Map(u64),
    Inode(InodeNo),
    Data,
}

/// Returns true if this is a valid block size.
pub(crate) fn is_block(bytes: u32) -> bool {
    bytes.is_power_of_two() && (4096..=65536).contains(&bytes)
}

/// Returns the number of metadata blocks at the beginning of a group with so many
/// blocks and inodes.
pub(crate) fn group_meta_blocks(
    block_bytes: u32,
    fragment_bytes: u32,
    blocks: u64,
    inodes: u64,
) -> u64 {
    let block_sectors = u64::from(block_bytes) / SECTOR;
    let fragments = blocks * u64::from(block_bytes / fragment_bytes);
    let maps = 4 * inodes.div_ceil(BITS_PER_SECTOR) + fragments.div_ceil(BITS_PER_SECTOR);
    1 + maps.div_ceil(block_sectors) + inodes.div_ceil(block_sectors)
}

/// The sizes and places of a volume's structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The volume's tag.
    pub tag: u64,
    /// Size of a block, in bytes.
    pub block_bytes: u32,
    /// Size of a fragment, in bytes.
    pub fragment_bytes: u32,
    /// Size of the unit that is written whole or not at all, in bytes. Metadata is
    /// written in whole units.
    pub unit_bytes: u32,
    /// Number of blocks of the volume.
    pub blocks: u64,
    /// Number of blocks of the journal.
    pub journal_blocks: u64,
    /// Number of blocks of a cylinder group; the last one may have fewer.
    pub group_blocks: u64,
    /// Number of inodes of each cylinder group.
    pub group_inodes: u64,
    /// Number of blocks that are reserved (minfree).
    pub reserve_blocks: u64,
}

impl Geometry {
    /// Block of the owner record.
    pub const OWNER_BLOCK: u64 = 1;
    /// The first of the two blocks of journal heads.
    pub const HEAD_BLOCK: u64 = 2;
    /// The first block of the journal.
    pub const JOURNAL_BLOCK: u64 = 4;

    /// Returns the geometry that a superblock declares.
    pub fn of(superblock: &Superblock) -> Self {
        Geometry {
            tag: superblock.volume_tag(),
            block_bytes: superblock.block_bytes.get(),
            fragment_bytes: superblock.fragment_bytes.get(),
            unit_bytes: superblock.unit_bytes.get(),
            blocks: superblock.blocks.get(),
            journal_blocks: superblock.journal_blocks.get(),
            group_blocks: superblock.group_blocks.get(),
            group_inodes: superblock.group_inodes.get(),
            reserve_blocks: superblock.reserve_blocks.get(),
        }
    }

    /// Refuses values that contradict each other.
    pub(super) fn check(&self) -> Result<(), String> {
        let (fragment, block) = (self.fragment_bytes, self.block_bytes);
        let power = |value: u32, low: u32, high: u32| {
            value.is_power_of_two() && (low..=high).contains(&value)
        };
        let unit = self.unit_bytes;
        if !is_block(block)
            || !power(unit, 512, block)
            || !power(fragment, unit, block)
            || block / fragment > 8
        {
            return Err(format!(
                "blocks of {block} bytes in fragments of {fragment}, written by {unit}: a block \
                 has 4096 to 65536 bytes, and 1, 2, 4 or 8 fragments that are no smaller than \
                 what is written at once"
            ));
        }
        if self.blocks >= 1 << 32 || self.journal_blocks > self.blocks || self.journal_blocks < 16 {
            return Err(format!(
                "{} blocks, of which {} are the journal's",
                self.blocks, self.journal_blocks
            ));
        }
        if self.group_blocks == 0 || self.group_blocks > self.blocks {
            return Err(format!("cylinder groups of {} blocks", self.group_blocks));
        }
        let inodes = self.group_inodes;
        if inodes < 8
            || inodes > self.group_blocks * 8
            || !inodes.is_multiple_of(self.block_sectors())
        {
            return Err(format!("{inodes} inodes in a cylinder group"));
        }
        if self.group_meta_blocks() + GROUP_DATA_BLOCKS_MIN > self.group_blocks
            || self.groups() == 0
            || self.groups() > GROUPS_MAX
            || self.inodes() > 1 << 32
        {
            return Err(format!(
                "{} blocks in cylinder groups of {}, each with {} blocks of metadata",
                self.blocks,
                self.group_blocks,
                self.group_meta_blocks()
            ));
        }
        if self.reserve_blocks > self.data_blocks() / 2 {
            return Err(format!(
                "{} blocks for data, of which {} are in reserve",
                self.data_blocks(),
                self.reserve_blocks
            ));
        }
        Ok(())
    }

    /// Returns the number of sectors in a block.
    pub fn block_sectors(&self) -> u64 {
        u64::from(self.block_bytes) / SECTOR
    }

    /// Returns the number of sectors in a fragment.
    pub fn fragment_sectors(&self) -> u64 {
        u64::from(self.fragment_bytes) / SECTOR
    }

    /// Returns the number of sectors in a unit.
    pub fn unit_sectors(&self) -> u64 {
        u64::from(self.unit_bytes) / SECTOR
    }

    /// Returns the number of fragments in a block.
    pub fn block_fragments(&self) -> u64 {
        u64::from(self.block_bytes / self.fragment_bytes)
    }

    /// Returns the number of places in an indirect block.
    pub fn places(&self) -> u64 {
        PLACES_PER_SECTOR * self.block_sectors()
    }

    /// Returns the byte address of a block.
    pub fn block_byte(&self, block: u64) -> u64 {
        block * u64::from(self.block_bytes)
    }

    /// Returns the block of the last copy of the superblock.
    pub fn last_block(&self) -> u64 {
        self.blocks - 1
    }

    /// Returns the size of the journal, in bytes.
    pub fn journal_bytes(&self) -> u64 {
        self.journal_blocks * u64::from(self.block_bytes)
    }

    /// Returns the first block of the first cylinder group.
    pub fn groups_block(&self) -> u64 {
        Self::JOURNAL_BLOCK + self.journal_blocks
    }

    /// Returns the number of cylinder groups. A last one with hardly any data blocks is
    /// not counted.
    pub fn groups(&self) -> u64 {
        let blocks = self.last_block().saturating_sub(self.groups_block());
        let (whole, rest) = (blocks / self.group_blocks, blocks % self.group_blocks);
        whole + u64::from(rest >= self.group_meta_blocks() + GROUP_DATA_BLOCKS_MIN)
    }

    /// Returns the number of blocks of a cylinder group.
    pub fn blocks_of_group(&self, group: u64) -> u64 {
        let begin = self.group_block(group);
        self.group_blocks.min(self.last_block() - begin)
    }

    /// Returns the first block of a cylinder group, which has a copy of the superblock.
    pub fn group_block(&self, group: u64) -> u64 {
        self.groups_block() + group * self.group_blocks
    }

    /// Returns the number of sectors of one inode map of a group.
    pub fn inode_map_sectors(&self) -> u64 {
        self.group_inodes.div_ceil(BITS_PER_SECTOR)
    }

    /// Returns the number of sectors of the fragment map of a group.
    pub fn fragment_map_sectors(&self) -> u64 {
        self.group_fragments().div_ceil(BITS_PER_SECTOR)
    }

    /// Returns the number of sectors of all maps of a group.
    pub fn map_sectors(&self) -> u64 {
        4 * self.inode_map_sectors() + self.fragment_map_sectors()
    }

    /// Returns the number of units of all maps of all groups.
    pub fn map_units(&self) -> u64 {
        self.groups() * self.map_sectors().div_ceil(self.unit_sectors())
    }

    /// Returns the first sector of a group's maps.
    pub fn maps_sector(&self, group: u64) -> u64 {
        (self.group_block(group) + 1) * self.block_sectors()
    }

    /// Returns the sector of a group's map that contains the bit of `index`.
    pub fn map_sector(&self, group: u64, map: GroupMap, index: u64) -> u64 {
        self.maps_sector(group) + map as u64 * self.inode_map_sectors() + index / BITS_PER_SECTOR
    }

    /// Returns the number of fragments of a whole group.
    pub fn group_fragments(&self) -> u64 {
        self.group_blocks * self.block_fragments()
    }

    /// Returns the number of fragments of all groups, as if the last one were whole.
    pub fn fragments(&self) -> u64 {
        self.groups() * self.group_fragments()
    }

    /// Returns the number of inode numbers, including 0 and 1.
    pub fn inodes(&self) -> u64 {
        self.groups() * self.group_inodes
    }

    /// Returns the number of metadata blocks at the beginning of a group.
    pub fn group_meta_blocks(&self) -> u64 {
        group_meta_blocks(
            self.block_bytes,
            self.fragment_bytes,
            self.group_blocks,
            self.group_inodes,
        )
    }

    fn table_blocks(&self) -> u64 {
        self.group_inodes.div_ceil(self.block_sectors())
    }

    /// Returns the number of blocks for data and indirect blocks.
    pub fn data_blocks(&self) -> u64 {
        let blocks: u64 = (0..self.groups()).map(|g| self.blocks_of_group(g)).sum();
        blocks - self.groups() * self.group_meta_blocks()
    }

    /// Returns the sector of an inode, which must be below [`Self::inodes`].
    pub fn inode_sector(&self, ino: u64) -> u64 {
        let (group, slot) = (ino / self.group_inodes, ino % self.group_inodes);
        let table = self.group_block(group) + self.group_meta_blocks() - self.table_blocks();
        table * self.block_sectors() + slot
    }

    /// Returns the index of an inode within its cylinder group, if the sector is one of
    /// a table of inodes. Any sector is allowed.
    pub(crate) fn slot_at(&self, sector: u64) -> Option<u64> {
        let (block, nth) = (sector / self.block_sectors(), sector % self.block_sectors());
        let within = block.checked_sub(self.groups_block())? % self.group_blocks;
        let behind = self.group_meta_blocks();
        let table = behind - self.table_blocks();
        let is_inode = (table..behind).contains(&within);
        is_inode.then(|| (within - table) * self.block_sectors() + nth)
    }

    /// Returns the content of a sector of a cylinder group. It must not be one of the
    /// group's superblock.
    pub(crate) fn holds(&self, sector: u64) -> Holds {
        let block = sector / self.block_sectors() - self.groups_block();
        let (group, within) = (block / self.group_blocks, block % self.group_blocks);
        match self.slot_at(sector) {
            Some(slot) => Holds::Inode(InodeNo(group * self.group_inodes + slot)),
            None if within < self.group_meta_blocks() => {
                Holds::Map(sector - self.maps_sector(group))
            }
            None => Holds::Data,
        }
    }

    /// Returns the fragment at a sector of the cylinder groups, counted from the
    /// beginning of the first group.
    pub fn fragment_of(&self, sector: u64) -> u64 {
        (sector - self.groups_block() * self.block_sectors()) / self.fragment_sectors()
    }

    /// Returns the first sector of a fragment.
    pub fn fragment_sector(&self, fragment: u64) -> u64 {
        self.groups_block() * self.block_sectors() + fragment * self.fragment_sectors()
    }

    /// Returns the number of fragments for `sectors` sectors.
    pub fn fragments_for(&self, sectors: u64) -> u64 {
        sectors.div_ceil(self.fragment_sectors())
    }

    /// Returns the fragments of a group that are for data.
    pub fn data_fragments(&self, group: u64) -> Range<u64> {
        let begin = group * self.group_fragments();
        let of = |blocks: u64| begin + blocks * self.block_fragments();
        of(self.group_meta_blocks())..of(self.blocks_of_group(group))
    }

    /// Returns true if `sectors` sectors may be stored at `sector`: at the beginning of
    /// a fragment, and within one block of a group's data.
    pub fn may_hold(&self, sector: u64, sectors: u64) -> bool {
        let begin = self.groups_block() * self.block_sectors();
        let each = self.block_sectors();
        if sector < begin
            || sectors == 0
            || sectors > each
            || !sector.is_multiple_of(self.fragment_sectors())
            || sector % each + sectors > each
        {
            return false;
        }
        let fragment = self.fragment_of(sector);
        let group = fragment / self.group_fragments();
        group < self.groups() && self.data_fragments(group).contains(&fragment)
    }

    /// Returns true if a record of the journal may contain this sector: one of a map,
    /// of an inode, or of data.
    pub fn may_be_journalled(&self, sector: u64) -> bool {
        let block = sector / self.block_sectors();
        if block < self.groups_block() {
            return false;
        }
        let (group, within) = (
            (block - self.groups_block()) / self.group_blocks,
            (block - self.groups_block()) % self.group_blocks,
        );
        group < self.groups() && within > 0 && within < self.blocks_of_group(group)
    }

    /// Checks the place of an indirect block.
    ///
    /// # Errors
    /// A message about the place, if no indirect block can have it.
    pub fn check_indirect(&self, place: &Place) -> Result<(), Malformed> {
        let whole = u64::from(place.sectors) == self.block_sectors() && place.flags == 0;
        match place.is_none() || whole {
            true => Ok(()),
            false => Err(Malformed::new(
                "place",
                "an indirect block that is no block",
            )),
        }
    }

    /// Returns the part of a sector's checksum that is not in its content.
    pub fn seal(&self, sector: u64, owner: u32) -> Seal {
        Seal {
            tag: self.tag,
            sector,
            owner,
        }
    }

    /// Returns the maximum number of blocks of a file.
    pub fn file_blocks_max(&self) -> u64 {
        let n = self.places();
        super::DIRECT as u64 + n + n * n + n * n * n
    }
}
