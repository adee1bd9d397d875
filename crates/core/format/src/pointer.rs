//! A pointer to a stored block: its address, its length, and how to verify it.

use crate::SECTOR;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Highest sector address of a pointer: 48 bits, 128 PiB.
pub const MAX_SECTOR: u64 = (1 << 48) - 1;

/// Bits of [`Pointer::flags`].
pub mod pointer_flags {
    /// The block exists but was never written: it reads as zeros and has no address.
    pub const UNWRITTEN: u8 = 1 << 0;
    /// Reserved for shared blocks: the owner is an extent object.
    pub const SHARED: u8 = 1 << 1;
    /// Reserved for blocks that are stored compressed.
    pub const COMPRESSED: u8 = 1 << 2;
    /// Reserved for blocks that are stored encrypted; `tag` would authenticate them.
    pub const ENCRYPTED: u8 = 1 << 3;
    /// All flags that this version understands.
    pub const KNOWN: u8 = UNWRITTEN;
}

/// The place of a stored block. All zeros means that there is no block.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Debug,
    Default,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct Pointer {
    /// Bits 0-47 the sector address, 48-55 the stored sectors, 56-63 flags.
    place: U64,
    /// Serial of the partial segment that first wrote this version of the block. The
    /// cleaner never changes it.
    birth: U64,
    /// CRC-32C of the stored sectors.
    crc: U32,
    /// Incarnation of the segment when this copy was written. If the segment has
    /// another incarnation, the block was moved.
    incarnation: U32,
    /// Reserved for an authentication tag; zero.
    tag: U64,
}
const _: () = assert!(size_of::<Pointer>() == 32);

impl Pointer {
    /// The pointer without a block.
    pub const NONE: Pointer = Pointer {
        place: U64::ZERO,
        birth: U64::ZERO,
        crc: U32::ZERO,
        incarnation: U32::ZERO,
        tag: U64::ZERO,
    };

    /// Creates a pointer to `sectors` stored sectors at `sector`.
    ///
    /// # Panics
    /// If `sector` is beyond [`MAX_SECTOR`] or `sectors` is 0. Addresses follow from
    /// the volume's geometry, which is within these limits.
    pub fn new(sector: u64, sectors: u8, crc: u32, birth: u64, incarnation: u32) -> Self {
        assert!(
            sector <= MAX_SECTOR && sectors > 0,
            "address within 48 bits"
        );
        Pointer {
            place: U64::new(sector | u64::from(sectors) << 48),
            birth: U64::new(birth),
            crc: U32::new(crc),
            incarnation: U32::new(incarnation),
            tag: U64::ZERO,
        }
    }

    /// Creates a pointer of these parts, without checks: [`Pointer::is_sane`] checks
    /// it.
    pub fn of_parts(
        sector: u64,
        sectors: u8,
        flags: u8,
        birth: u64,
        crc: u32,
        incarnation: u32,
    ) -> Self {
        let place = sector & MAX_SECTOR | u64::from(sectors) << 48 | u64::from(flags) << 56;
        Pointer {
            place: U64::new(place),
            birth: U64::new(birth),
            crc: U32::new(crc),
            incarnation: U32::new(incarnation),
            tag: U64::ZERO,
        }
    }

    /// Creates a pointer to a block that is reserved but unwritten; `birth` is the
    /// serial of the record that reserved it.
    pub fn unwritten_block(sectors: u8, birth: u64) -> Self {
        Pointer {
            place: U64::new(u64::from(sectors) << 48 | u64::from(pointer_flags::UNWRITTEN) << 56),
            birth: U64::new(birth),
            ..Pointer::NONE
        }
    }

    /// Returns true if there is no block.
    pub fn is_none(&self) -> bool {
        self.place.get() == 0
    }

    /// Returns the address of the first stored sector.
    pub fn sector(&self) -> u64 {
        self.place.get() & MAX_SECTOR
    }

    /// Returns the number of stored sectors.
    pub fn sectors(&self) -> u8 {
        (self.place.get() >> 48) as u8
    }

    /// Returns the address of the sector behind the block.
    pub fn end_sector(&self) -> u64 {
        self.sector() + u64::from(self.sectors())
    }

    /// Returns the number of stored bytes, which is 0 for an unwritten block.
    pub fn stored_bytes(&self) -> u64 {
        if self.is_unwritten() {
            0
        } else {
            u64::from(self.sectors()) * SECTOR
        }
    }

    /// Returns the flags, bits of [`pointer_flags`].
    pub fn flags(&self) -> u8 {
        (self.place.get() >> 56) as u8
    }

    /// Returns true if the block was never written and reads as zeros.
    pub fn is_unwritten(&self) -> bool {
        self.flags() & pointer_flags::UNWRITTEN != 0
    }

    /// Returns the serial of the partial segment that first wrote this version.
    pub fn birth(&self) -> u64 {
        self.birth.get()
    }

    /// Returns the CRC-32C of the stored sectors.
    pub fn crc(&self) -> u32 {
        self.crc.get()
    }

    /// Returns the incarnation of the segment.
    pub fn incarnation(&self) -> u32 {
        self.incarnation.get()
    }

    /// Returns the field that is reserved for an authentication tag.
    pub fn tag(&self) -> u64 {
        self.tag.get()
    }

    /// Returns true if this is the same copy of the same block (protocol rule 19).
    pub fn same_copy(&self, sector: u64, birth: u64) -> bool {
        !self.is_none() && !self.is_unwritten() && self.sector() == sector && self.birth() == birth
    }

    /// Returns true if this is the same copy with the same content. The address and the
    /// birth alone do not suffice: an inode map of a discarded life may name both
    /// (`docs/design/holes.md`).
    pub fn same_content(&self, other: &Pointer) -> bool {
        self.same_copy(other.sector(), other.birth())
            && (self.crc(), self.sectors()) == (other.crc(), other.sectors())
    }

    /// Checks all that can be checked without the volume's geometry.
    pub fn is_sane(&self) -> bool {
        self.is_none()
            || (self.sectors() > 0
                && self.flags() & !pointer_flags::KNOWN == 0
                && (self.is_unwritten() == (self.sector() == 0)))
    }
}

/// Length of a gap, in sectors, that is read together with the blocks around it instead
/// of splitting the request: a summary, inodes and padding between two partial segments
/// of one file.
const GAP_SECTORS: u64 = 32;

impl varve_fs::BlockPointer for Pointer {
    fn sectors(&self) -> u32 {
        u32::from(Pointer::sectors(self))
    }

    fn unwritten(&self) -> bool {
        self.is_unwritten()
    }

    fn place(&self) -> u64 {
        self.sector()
    }

    fn follows(&self, previous: &Self) -> bool {
        let behind = previous.end_sector();
        !self.is_unwritten()
            && !previous.is_unwritten()
            && (behind..=behind + GAP_SECTORS).contains(&self.sector())
    }

    fn same_write(&self, other: &Self) -> bool {
        let written = |p: &Pointer| (p.birth(), p.crc(), Pointer::sectors(p), p.flags());
        written(self) == written(other)
    }
}
