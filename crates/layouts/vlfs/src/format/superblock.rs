//! The superblock, in the first and the last block, and the places of all structures.
//!
//! ```text
//! block 0    superblock
//! block 1    owner record
//! block 2    tail record
//! block 3..  checkpoint A: a header block, a bit for each unit, the inode map
//!      ..    checkpoint B: the same
//!      ..    the record zone, where the device has no head to be near to
//!      ..    the eager space: data, index nodes, inodes; records without a zone
//! last       superblock, again
//! ```
//!
//! Its fields before the block size are those of the log's (`varve-lfs/src/format`).
//! The later fields say where structures are, and have nothing in common with the
//! log's.

use super::{Entry, Malformed, Place, SECTOR, crc32c};
use std::ops::Range;
use varve_format::identity::{keeping_tag, padded_text, tag_of};
use varve_format::index::Fanout;
use varve_format::inode::MAX_XATTR_BYTES;
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Signature at the beginning of the superblock.
pub const MAGIC: [u8; 8] = varve_format::VIRTUAL_LOG_MAGIC;
/// Version of the format. A program reads only its own version.
pub const VERSION: u16 = 1;
/// Incompatible feature: small transactions are records of changes.
pub const CHANGES: u64 = 1;
/// Incompatible feature: a short block takes the units that it needs.
pub const PARTS: u64 = 2;
/// Incompatible feature: extended attributes may take several blocks.
pub const LONG_XATTRS: u64 = 4;
/// Incompatible feature: the UUID was changed, so the tag is [`Superblock::tag`].
pub const OWN_TAG: u64 = 8;
const CHECKSUM_CRC32C: u8 = 1;
/// Maximum number of slots, that is of live records of changes.
const SLOTS_MAX: u64 = 1024;

/// One copy of the superblock, 512 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// Always [`MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of every later byte of the structure.
    pub crc: U32,
    /// Always [`VERSION`].
    pub version: U16,
    /// 1: CRC-32C.
    pub checksum_kind: u8,
    /// Bit 0: directory names compare without regard to case.
    pub options: u8,
    /// Features that an older reader may ignore.
    pub compat: U64,
    /// Features that an older reader may ignore if it does not write.
    pub read_only_compat: U64,
    /// Features because of which an older reader must refuse the volume.
    pub incompat: U64,
    /// UUID of the volume.
    pub uuid: [u8; 16],
    /// Name for people: UTF-8, padded with zeros.
    pub label: [u8; 64],
    /// Seed of directory hashes.
    pub hash_seed: U64,
    /// Size of a logical block, in bytes.
    pub block_bytes: U32,
    /// Size of a unit, in bytes: an inode, an index node, a map record.
    pub unit_bytes: U32,
    /// Number of blocks of the volume.
    pub blocks: U64,
    /// Limit of inode numbers, which are below it.
    pub inodes: U64,
    /// Number of blocks of the record zone; 0 if records may be anywhere.
    pub zone_blocks: U64,
    /// Number of blocks that are reserved.
    pub reserve_blocks: U64,
    /// Time of creation, in nanoseconds since 1970.
    pub created_ns: I64,
    /// Number of slots for records of changes; 0 without [`CHANGES`].
    pub slots: U64,
    /// With [`OWN_TAG`], the tag of all other structures; otherwise 0.
    pub tag: U64,
    /// Unused, zero.
    pub spare: [u8; 320],
}
const _: () = assert!(size_of::<Superblock>() == 512);

impl Superblock {
    /// Returns the superblock with its checksum filled in.
    pub fn sealed(mut self) -> Self {
        self.crc = crc32c(&self.as_bytes()[12..]).into();
        self
    }

    /// Parses and validates a copy.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let bad = |problem: String| Malformed::new("superblock", problem);
        let (found, _) = Superblock::read_from_prefix(bytes)
            .map_err(|_| bad("shorter than 512 bytes".into()))?;
        if found.magic != MAGIC {
            return Err(bad("no VLFS signature".into()));
        }
        let computed = crc32c(&found.as_bytes()[12..]);
        if computed != found.crc.get() {
            return Err(Malformed::checksum("superblock", computed, found.crc.get()));
        }
        if found.version.get() != VERSION || found.checksum_kind != CHECKSUM_CRC32C {
            return Err(bad(format!(
                "format version {} with checksum kind {}; this program reads {VERSION} with \
                 {CHECKSUM_CRC32C}",
                found.version, found.checksum_kind
            )));
        }
        let unknown = found.incompat.get() & !(CHANGES | PARTS | LONG_XATTRS | OWN_TAG);
        if unknown != 0 {
            return Err(bad(format!(
                "needs features {unknown:#x} this program lacks"
            )));
        }
        if (found.incompat.get() & CHANGES == 0) != (found.slots.get() == 0) {
            let slots = found.slots;
            return Err(bad(format!("{slots} slots contradict its features")));
        }
        Measures::of(&found).check().map_err(bad)?;
        Ok(found)
    }

    /// Returns the label as text.
    pub fn label_text(&self) -> String {
        padded_text(&self.label)
    }

    /// Returns the tag of every other structure: the first eight bytes of the UUID with
    /// which the volume was made, unless the superblock has its own tag.
    pub fn volume_tag(&self) -> u64 {
        let own = self.incompat.get() & OWN_TAG != 0;
        tag_of(&self.uuid, own.then_some(self.tag.get()))
    }

    /// Returns the superblock with another UUID; the tag stays the same.
    pub fn with_uuid(mut self, uuid: [u8; 16]) -> Self {
        let tag = self.volume_tag();
        let (incompat, kept) = keeping_tag(tag, &uuid, self.incompat.get(), OWN_TAG);
        (self.uuid, self.incompat, self.tag) = (uuid, incompat.into(), kept.into());
        self
    }
}

/// A run of adjacent units in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The first unit.
    pub unit: u64,
    /// Number of units, at most those of a block.
    pub units: u32,
}

impl Extent {
    /// Returns the unit behind the extent.
    pub fn end(&self) -> u64 {
        self.unit + u64::from(self.units)
    }
}

/// The sizes and places of a volume's structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measures {
    /// The volume's tag.
    pub volume: u64,
    /// Size of a unit, in bytes.
    pub unit_bytes: u32,
    /// Size of a block, in bytes.
    pub block_bytes: u32,
    /// Number of blocks of the volume.
    pub blocks: u64,
    /// Limit of inode numbers.
    pub inodes: u64,
    /// Number of blocks of the record zone.
    pub zone_blocks: u64,
    /// Number of blocks that are reserved.
    pub reserve_blocks: u64,
    /// Number of slots for records of changes.
    pub slots: u64,
    /// True if a short block takes the units that it needs; otherwise it takes one, or
    /// a whole block's.
    pub parts: bool,
    /// True if extended attributes may take several blocks.
    pub long_xattrs: bool,
}

impl Measures {
    /// Returns the sizes that a superblock declares.
    pub fn of(superblock: &Superblock) -> Self {
        Measures {
            volume: superblock.volume_tag(),
            unit_bytes: superblock.unit_bytes.get(),
            block_bytes: superblock.block_bytes.get(),
            blocks: superblock.blocks.get(),
            inodes: superblock.inodes.get(),
            zone_blocks: superblock.zone_blocks.get(),
            reserve_blocks: superblock.reserve_blocks.get(),
            slots: superblock.slots.get(),
            parts: superblock.incompat.get() & PARTS != 0,
            long_xattrs: superblock.incompat.get() & LONG_XATTRS != 0,
        }
    }

    /// Refuses sizes that contradict each other.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (unit, block) = (self.unit_bytes, self.block_bytes);
        let power = |value: u32, low: u32, high: u32| {
            value.is_power_of_two() && (low..=high).contains(&value)
        };
        if !power(unit, 512, 65536) || !power(block, unit.max(4096), 65536) || block / unit > 8 {
            return Err(format!(
                "blocks of {block} bytes in units of {unit}: a block has 4096 to 65536 bytes, \
                 and 1, 2, 4 or 8 units"
            ));
        }
        if self.blocks >= 1 << 30 || self.units() > Entry::UNITS_MAX {
            return Err(format!("{} blocks are too many", self.blocks));
        }
        if self.inodes < 16 || self.inodes > self.units() {
            return Err(format!("{} inodes on {} units", self.inodes, self.units()));
        }
        if self.slots > SLOTS_MAX {
            return Err(format!("{} slots for changes", self.slots));
        }
        let records = self.records_blocks();
        if self.zone_blocks != 0 && self.zone_blocks < records {
            return Err(format!(
                "a record zone of {} blocks, {records} are needed",
                self.zone_blocks
            ));
        }
        if self.zone_blocks > self.blocks
            || self.capacity_blocks() < self.reserve_blocks.saturating_mul(2).saturating_add(64)
        {
            return Err(format!(
                "{} blocks, of which {} are in reserve, are too few",
                self.blocks, self.reserve_blocks
            ));
        }
        if self.reserve_blocks < 64 {
            return Err(format!("a reserve of {} blocks", self.reserve_blocks));
        }
        Ok(())
    }

    /// Returns an upper bound of the blocks that records break. For each piece one
    /// record is live, one is kept because other records depend on it, and one is being
    /// written. For each slot there is one; in a zone, where no other space is
    /// available, another one that is kept.
    pub fn records_blocks(&self) -> u64 {
        let most = 3 * self.pieces() + 8;
        match self.zone_blocks {
            0 => most + self.slots,
            _ => (most + 2 * self.slots).div_ceil(self.units_per_block().into()),
        }
    }

    /// Returns the number of blocks for data, index nodes and inodes.
    pub fn capacity_blocks(&self) -> u64 {
        let records = match self.zone_blocks {
            0 => self.records_blocks(),
            _ => 0,
        };
        self.last_block()
            .saturating_sub(self.eager_start())
            .saturating_sub(records)
    }

    /// Returns true if a stored place takes several units on a volume where short
    /// blocks share blocks.
    pub fn is_long(&self, place: &Place) -> bool {
        self.parts && place.is_stored() && self.extent_of(place).units > 1
    }

    /// Returns the maximum size of an inode's extended attributes, in bytes: a block,
    /// or as much as a node leads to, and at most the log's limit.
    pub fn xattr_bytes(&self) -> usize {
        let block = self.block_bytes as usize;
        match self.long_xattrs {
            true => (self.fanout() * block).min(MAX_XATTR_BYTES),
            false => block,
        }
    }

    /// Returns the number of blocks for `bytes` bytes of extended attributes.
    pub fn blocks_of(&self, bytes: usize) -> u64 {
        (bytes as u64).div_ceil(self.block_bytes.into())
    }

    /// Returns the number of bytes of data that are appended at once, approximately: a
    /// sixty-fourth of the capacity, within bounds.
    pub fn group_bytes(&self) -> u64 {
        (self.capacity_blocks() / 64 * u64::from(self.block_bytes)).clamp(64 << 10, 1 << 20)
    }

    /// Returns the number of sectors in a unit.
    pub fn unit_sectors(&self) -> u64 {
        u64::from(self.unit_bytes) / SECTOR
    }

    /// Returns the number of sectors in a block.
    pub fn block_sectors(&self) -> u64 {
        u64::from(self.block_bytes) / SECTOR
    }

    /// Returns the number of units in a block.
    pub fn units_per_block(&self) -> u32 {
        self.block_bytes / self.unit_bytes
    }

    /// Returns the number of units of the volume.
    pub fn units(&self) -> u64 {
        self.blocks * u64::from(self.units_per_block())
    }

    /// Returns the number of entries in a whole piece of the map.
    pub fn entries_per_record(&self) -> usize {
        super::record::entries_per_record(self.unit_bytes)
    }

    /// Returns the number of runs that one record can name.
    pub fn runs_per_record(&self) -> usize {
        super::record::runs_per_record(self.unit_bytes)
    }

    /// Returns the number of pieces of the inode map.
    pub fn pieces(&self) -> u64 {
        self.inodes.div_ceil(self.entries_per_record() as u64)
    }

    /// Returns the number of different records: one for each piece of the map, then one
    /// for each slot.
    pub fn pieces_and_slots(&self) -> u64 {
        self.pieces() + self.slots
    }

    /// Returns the number of bytes of changes that fit in one record.
    pub fn changes_bytes(&self) -> usize {
        super::delta::room(self.unit_bytes)
    }

    /// Returns the number of entries of one piece; the last one is shorter.
    pub fn entries_of(&self, piece: u32) -> usize {
        let each = self.entries_per_record() as u64;
        let before = u64::from(piece) * each;
        self.inodes.saturating_sub(before).min(each) as usize
    }

    /// Returns the piece of an inode.
    pub fn piece_of(&self, ino: u64) -> u32 {
        (ino / self.entries_per_record() as u64) as u32
    }

    /// Returns the number of places in an index node.
    pub fn fanout(&self) -> usize {
        super::node::fanout(self.unit_bytes)
    }

    /// Returns the maximum number of blocks that are reserved between two folds. It is
    /// limited because recovery applies each such change again block by block.
    pub fn reserved_max(&self) -> u64 {
        1024 * self.fanout() as u64
    }

    /// Returns the number of places in an inode.
    pub fn root_slots(&self) -> usize {
        super::image::root_slots(self.unit_bytes)
    }

    /// Returns the shape of every index.
    pub fn index(&self) -> Fanout {
        Fanout(self.fanout() as u64)
    }

    /// Returns the number of units for `sectors` sectors: as many as necessary, or one
    /// or a whole block's.
    pub fn units_for(&self, sectors: u64) -> u32 {
        let each = self.units_per_block();
        match sectors.div_ceil(self.unit_sectors()) {
            0 | 1 => 1,
            units if self.parts && units < u64::from(each) => units as u32,
            _ => each,
        }
    }

    /// Returns the units that a stored place takes.
    pub fn extent_of(&self, place: &Place) -> Extent {
        Extent {
            unit: place.sector / self.unit_sectors(),
            units: self.units_for(place.sectors.into()),
        }
    }

    /// Block of the owner record.
    pub const OWNER_BLOCK: u64 = 1;
    /// Block of the tail record.
    pub const TAIL_BLOCK: u64 = 2;

    /// Returns the number of blocks of the bits in a checkpoint.
    pub fn bits_blocks(&self) -> u64 {
        self.units().div_ceil(8).div_ceil(self.block_bytes.into())
    }

    /// Returns the first block, the header's, of checkpoint 0 or 1.
    pub fn checkpoint_block(&self, region: usize) -> u64 {
        let map = (self.inodes * 8).div_ceil(self.block_bytes.into());
        3 + region as u64 * (1 + self.bits_blocks() + map)
    }

    /// Returns the first block of the record zone.
    pub fn zone_start(&self) -> u64 {
        self.checkpoint_block(2)
    }

    /// Returns the first block of the eager space.
    pub fn eager_start(&self) -> u64 {
        self.zone_start() + self.zone_blocks
    }

    /// Returns the block of the second superblock.
    pub fn last_block(&self) -> u64 {
        self.blocks.saturating_sub(1)
    }

    /// Returns the units in which data, nodes and inodes may be stored.
    pub fn eager_units(&self) -> Range<u64> {
        let each = u64::from(self.units_per_block());
        self.eager_start() * each..self.last_block() * each
    }

    /// Returns the units in which records may be stored.
    pub fn record_units(&self) -> Range<u64> {
        let each = u64::from(self.units_per_block());
        match self.zone_blocks {
            0 => self.eager_units(),
            _ => self.zone_start() * each..self.eager_start() * each,
        }
    }

    /// Returns the byte address of a block.
    pub fn block_byte(&self, block: u64) -> u64 {
        block * u64::from(self.block_bytes)
    }

    /// Returns the byte address of a unit.
    pub fn unit_byte(&self, unit: u64) -> u64 {
        unit * u64::from(self.unit_bytes)
    }
}
