//! The place of a block or of an indirect block: 12 bytes.

use super::Geometry;
use varve_format::Malformed;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bits of [`Place::flags`].
pub mod place_flags {
    /// The space is allocated, and reads as zeros.
    pub const UNWRITTEN: u8 = 1 << 0;
    /// The checksum is valid: the block of a directory.
    pub const CHECKED: u8 = 1 << 1;
    /// All flags that this version understands.
    pub const KNOWN: u8 = UNWRITTEN | CHECKED;
}

/// The stored form of a place.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct DiskPlace {
    sector_low: U32,
    sector_high: U16,
    sectors: u8,
    flags: u8,
    crc: U32,
}

/// Size of a stored place, in bytes.
pub(super) const PLACE_BYTES: usize = size_of::<DiskPlace>();
const _: () = assert!(PLACE_BYTES == 12);

/// The place of a block. If it has no sectors, there is no block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Address of the first sector.
    pub sector: u64,
    /// Number of sectors, stored or reserved.
    pub sectors: u8,
    /// Bits of [`place_flags`].
    pub flags: u8,
    /// CRC-32C of the stored bytes if the place is checked, otherwise 0.
    pub crc: u32,
}

impl Place {
    /// The place without a block.
    pub const NONE: Place = Place {
        sector: 0,
        sectors: 0,
        flags: 0,
        crc: 0,
    };

    /// Returns true if there is no block.
    pub fn is_none(&self) -> bool {
        self.sectors == 0
    }

    /// Returns true if the block is allocated and was never written.
    pub fn is_unwritten(&self) -> bool {
        self.flags & place_flags::UNWRITTEN != 0
    }

    /// Returns true if the content is journalled and has a checksum.
    pub fn is_checked(&self) -> bool {
        self.flags & place_flags::CHECKED != 0
    }

    /// Writes the stored form to `into`.
    pub fn encode(&self, into: &mut [u8]) {
        let disk = DiskPlace {
            sector_low: (self.sector as u32).into(),
            sector_high: ((self.sector >> 32) as u16).into(),
            sectors: self.sectors,
            flags: self.flags,
            crc: self.crc.into(),
        };
        into[..PLACE_BYTES].copy_from_slice(disk.as_bytes());
    }

    /// Parses the stored form; `bytes` must be long enough.
    pub fn decode(bytes: &[u8]) -> Self {
        match DiskPlace::read_from_prefix(bytes) {
            Err(_) => Place::NONE,
            Ok((disk, _)) => Place {
                sector: u64::from(disk.sector_low.get()) | u64::from(disk.sector_high.get()) << 32,
                sectors: disk.sectors,
                flags: disk.flags,
                crc: disk.crc.get(),
            },
        }
    }

    /// Checks that a block of the volume can have this place.
    ///
    /// # Errors
    /// The value that is impossible.
    pub fn check(&self, geometry: &Geometry) -> Result<(), Malformed> {
        if *self == Place::NONE {
            return Ok(());
        }
        let fits = self.sectors > 0
            && self.flags & !place_flags::KNOWN == 0
            && geometry.may_hold(self.sector, u64::from(self.sectors));
        match fits {
            true => Ok(()),
            false => Err(Malformed::new(
                "place",
                format!(
                    "{} sectors at {}, flags {:#x}",
                    self.sectors, self.sector, self.flags
                ),
            )),
        }
    }
}

impl varve_fs::BlockPointer for Place {
    fn sectors(&self) -> u32 {
        u32::from(self.sectors)
    }

    fn unwritten(&self) -> bool {
        self.is_unwritten()
    }

    fn place(&self) -> u64 {
        self.sector
    }

    fn follows(&self, previous: &Self) -> bool {
        !self.is_unwritten()
            && !previous.is_unwritten()
            && previous.sector + u64::from(previous.sectors) == self.sector
    }

    /// A block that is overwritten keeps its place. Only the file system's own counts
    /// of changes distinguish its versions, and there are no snapshots to compare with.
    fn same_write(&self, other: &Self) -> bool {
        self == other
    }
}
