//! The superblock, in the first and the last block, and what is where.
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
//! Up to the block size it is laid out as the log's (`varve-lfs/src/format`); what
//! follows says where things are, and so has nothing in common with that.

use super::{Entry, Malformed, Place, SECTOR, crc32c};
use std::ops::Range;
use varve_format::identity::{keeping_tag, padded_text, tag_of};
use varve_format::index::Fanout;
use varve_format::inode::MAX_XATTR_BYTES;
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of the superblock.
pub const MAGIC: [u8; 8] = varve_format::VIRTUAL_LOG_MAGIC;
/// Format version: another one cannot be read.
pub const VERSION: u16 = 1;
/// Incompatible feature: small transactions are records of changes.
pub const CHANGES: u64 = 1;
/// Incompatible feature: a short block takes the units that it needs.
pub const PARTS: u64 = 2;
/// Incompatible feature: extended attributes may take several blocks.
pub const LONG_XATTRS: u64 = 4;
/// Incompatible feature: the tag is [`Superblock::tag`]: the UUID was changed.
pub const OWN_TAG: u64 = 8;
const CHECKSUM_CRC32C: u8 = 1;
/// Records of changes that may be live at once.
const SLOTS_MAX: u64 = 1024;

/// One copy of the superblock, 512 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of every later byte of the structure.
    pub crc: U32,
    /// [`VERSION`].
    pub version: U16,
    /// 1: CRC-32C.
    pub checksum_kind: u8,
    /// Bit 0: directory names compare without regard to case.
    pub options: u8,
    /// Features an older reader may ignore.
    pub compat: U64,
    /// Features an older reader may ignore if it does not write.
    pub read_only_compat: U64,
    /// Features an older reader must refuse.
    pub incompat: U64,
    /// Random identity of the volume.
    pub uuid: [u8; 16],
    /// Name for people: UTF-8, padded with zeros.
    pub label: [u8; 64],
    /// Seed of directory hashes.
    pub hash_seed: U64,
    /// Bytes in a logical block.
    pub block_bytes: U32,
    /// Bytes in a unit: an inode, an index node, a map record.
    pub unit_bytes: U32,
    /// Blocks of the volume.
    pub blocks: U64,
    /// Inode numbers there can be, 0 to this less one.
    pub inodes: U64,
    /// Blocks of the record zone; 0: records go anywhere.
    pub zone_blocks: U64,
    /// Blocks held back from users.
    pub reserve_blocks: U64,
    /// Nanoseconds since 1970 when the volume was made.
    pub created_ns: I64,
    /// Records of changes that may be live at once; 0 without [`CHANGES`].
    pub slots: U64,
    /// The tag of all other structures, with [`OWN_TAG`]; else 0.
    pub tag: U64,
    /// Zero.
    pub spare: [u8; 320],
}
const _: () = assert!(size_of::<Superblock>() == 512);

impl Superblock {
    /// With its checksum.
    pub fn sealed(mut self) -> Self {
        self.crc = crc32c(&self.as_bytes()[12..]).into();
        self
    }

    /// Parses and validates a copy.
    ///
    /// # Errors
    /// Says which field is wrong.
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

    /// The label as text.
    pub fn label_text(&self) -> String {
        padded_text(&self.label)
    }

    /// The tag in every other structure: the first eight bytes of the UUID that
    /// the volume was made with.
    pub fn volume_tag(&self) -> u64 {
        let own = self.incompat.get() & OWN_TAG != 0;
        tag_of(&self.uuid, own.then_some(self.tag.get()))
    }

    /// With another UUID; the tag stays.
    pub fn with_uuid(mut self, uuid: [u8; 16]) -> Self {
        let tag = self.volume_tag();
        let (incompat, kept) = keeping_tag(tag, &uuid, self.incompat.get(), OWN_TAG);
        (self.uuid, self.incompat, self.tag) = (uuid, incompat.into(), kept.into());
        self
    }
}

/// Units behind each other in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The first.
    pub unit: u64,
    /// How many: at most a block's.
    pub units: u32,
}

impl Extent {
    /// The unit behind it.
    pub fn end(&self) -> u64 {
        self.unit + u64::from(self.units)
    }
}

/// What is where, from the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measures {
    /// The volume's tag.
    pub volume: u64,
    /// Bytes in a unit.
    pub unit_bytes: u32,
    /// Bytes in a block.
    pub block_bytes: u32,
    /// Blocks of the volume.
    pub blocks: u64,
    /// Inode numbers.
    pub inodes: u64,
    /// Blocks of the record zone.
    pub zone_blocks: u64,
    /// Blocks held back.
    pub reserve_blocks: u64,
    /// Records of changes that may be live at once.
    pub slots: u64,
    /// A short block takes the units that it needs; otherwise one, or a block's.
    pub parts: bool,
    /// Extended attributes may take several blocks.
    pub long_xattrs: bool,
}

impl Measures {
    /// Those a superblock declares.
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

    /// Refuses measures that contradict each other.
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

    /// Blocks that records may break at worst: one for each piece is live, one
    /// kept because others hang on it, one being written; one for each slot,
    /// and in a zone, where nothing else can give way, another one that is
    /// kept.
    pub fn records_blocks(&self) -> u64 {
        let most = 3 * self.pieces() + 8;
        match self.zone_blocks {
            0 => most + self.slots,
            _ => (most + 2 * self.slots).div_ceil(self.units_per_block().into()),
        }
    }

    /// Blocks for data, index nodes and inodes.
    pub fn capacity_blocks(&self) -> u64 {
        let records = match self.zone_blocks {
            0 => self.records_blocks(),
            _ => 0,
        };
        self.last_block()
            .saturating_sub(self.eager_start())
            .saturating_sub(records)
    }

    /// True if what is at a place takes several units, where it may share a block.
    pub fn is_long(&self, place: &Place) -> bool {
        self.parts && place.is_stored() && self.extent_of(place).units > 1
    }

    /// Most bytes of extended attributes that an inode can have: a block, or as
    /// much as a node leads to, and no more than on the log.
    pub fn xattr_bytes(&self) -> usize {
        let block = self.block_bytes as usize;
        match self.long_xattrs {
            true => (self.fanout() * block).min(MAX_XATTR_BYTES),
            false => block,
        }
    }

    /// Blocks that so many bytes of extended attributes take.
    pub fn blocks_of(&self, bytes: usize) -> u64 {
        (bytes as u64).div_ceil(self.block_bytes.into())
    }

    /// Bytes of data that are appended at once, about: a sixty-fourth of what
    /// there is room for, within bounds.
    pub fn group_bytes(&self) -> u64 {
        (self.capacity_blocks() / 64 * u64::from(self.block_bytes)).clamp(64 << 10, 1 << 20)
    }

    /// Sectors in a unit.
    pub fn unit_sectors(&self) -> u64 {
        u64::from(self.unit_bytes) / SECTOR
    }

    /// Sectors in a block.
    pub fn block_sectors(&self) -> u64 {
        u64::from(self.block_bytes) / SECTOR
    }

    /// Units in a block.
    pub fn units_per_block(&self) -> u32 {
        self.block_bytes / self.unit_bytes
    }

    /// Units of the volume.
    pub fn units(&self) -> u64 {
        self.blocks * u64::from(self.units_per_block())
    }

    /// Entries in a whole piece of the map.
    pub fn entries_per_record(&self) -> usize {
        super::record::entries_per_record(self.unit_bytes)
    }

    /// Runs that one record names.
    pub fn runs_per_record(&self) -> usize {
        super::record::runs_per_record(self.unit_bytes)
    }

    /// Pieces of the inode map.
    pub fn pieces(&self) -> u64 {
        self.inodes.div_ceil(self.entries_per_record() as u64)
    }

    /// What a record may be of: a piece of the map, or behind those a slot for
    /// changes.
    pub fn pieces_and_slots(&self) -> u64 {
        self.pieces() + self.slots
    }

    /// Bytes of changes in one record.
    pub fn changes_bytes(&self) -> usize {
        super::delta::room(self.unit_bytes)
    }

    /// Entries of one piece; the last is shorter.
    pub fn entries_of(&self, piece: u32) -> usize {
        let each = self.entries_per_record() as u64;
        let before = u64::from(piece) * each;
        self.inodes.saturating_sub(before).min(each) as usize
    }

    /// The piece of an inode.
    pub fn piece_of(&self, ino: u64) -> u32 {
        (ino / self.entries_per_record() as u64) as u32
    }

    /// Places in an index node.
    pub fn fanout(&self) -> usize {
        super::node::fanout(self.unit_bytes)
    }

    /// Most blocks that are reserved between two folds: each change is done
    /// again block by block.
    pub fn reserved_max(&self) -> u64 {
        1024 * self.fanout() as u64
    }

    /// Places in an inode.
    pub fn root_slots(&self) -> usize {
        super::image::root_slots(self.unit_bytes)
    }

    /// The shape of every index.
    pub fn index(&self) -> Fanout {
        Fanout(self.fanout() as u64)
    }

    /// The units that what has so many sectors is stored in: those that it
    /// needs, or one or a whole block's.
    pub fn units_for(&self, sectors: u64) -> u32 {
        let each = self.units_per_block();
        match sectors.div_ceil(self.unit_sectors()) {
            0 | 1 => 1,
            units if self.parts && units < u64::from(each) => units as u32,
            _ => each,
        }
    }

    /// The units that a stored place takes.
    pub fn extent_of(&self, place: &Place) -> Extent {
        Extent {
            unit: place.sector / self.unit_sectors(),
            units: self.units_for(place.sectors.into()),
        }
    }

    /// The block of the owner record.
    pub const OWNER_BLOCK: u64 = 1;
    /// The block of the tail record.
    pub const TAIL_BLOCK: u64 = 2;

    /// Blocks of the bits in a checkpoint.
    pub fn bits_blocks(&self) -> u64 {
        self.units().div_ceil(8).div_ceil(self.block_bytes.into())
    }

    /// The first block of checkpoint 0 or 1: its header's.
    pub fn checkpoint_block(&self, region: usize) -> u64 {
        let map = (self.inodes * 8).div_ceil(self.block_bytes.into());
        3 + region as u64 * (1 + self.bits_blocks() + map)
    }

    /// The first block of the record zone.
    pub fn zone_start(&self) -> u64 {
        self.checkpoint_block(2)
    }

    /// The first block of the eager space.
    pub fn eager_start(&self) -> u64 {
        self.zone_start() + self.zone_blocks
    }

    /// The block of the second superblock.
    pub fn last_block(&self) -> u64 {
        self.blocks.saturating_sub(1)
    }

    /// Where data, nodes and inodes may be.
    pub fn eager_units(&self) -> Range<u64> {
        let each = u64::from(self.units_per_block());
        self.eager_start() * each..self.last_block() * each
    }

    /// Where records may be.
    pub fn record_units(&self) -> Range<u64> {
        let each = u64::from(self.units_per_block());
        match self.zone_blocks {
            0 => self.eager_units(),
            _ => self.zone_start() * each..self.eager_start() * each,
        }
    }

    /// The byte address of a block.
    pub fn block_byte(&self, block: u64) -> u64 {
        block * u64::from(self.block_bytes)
    }

    /// The byte address of a unit.
    pub fn unit_byte(&self, unit: u64) -> u64 {
        unit * u64::from(self.unit_bytes)
    }
}
