//! The place of a block or an index node, and its checksum: 12 bytes.

use super::{Malformed, Measures};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The stored form of a place.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct DiskPlace {
    sector_low: U32,
    sector_high: U16,
    sectors: U16,
    crc: U32,
}

/// Size of a stored place, in bytes.
pub(super) const PLACE_BYTES: usize = size_of::<DiskPlace>();
const _: () = assert!(PLACE_BYTES == 12);

/// The place of a block or node. Without sectors there is none. With sectors and
/// without an address, the block exists, was never written, and reads as zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Address of the first sector. Sector 0 contains a superblock.
    pub sector: u64,
    /// Number of sectors, stored or reserved.
    pub sectors: u16,
    /// CRC-32C of the stored sectors.
    pub crc: u32,
}

impl Place {
    /// The place without a block.
    pub const NONE: Place = Place {
        sector: 0,
        sectors: 0,
        crc: 0,
    };

    /// Creates the place of a block that reads as zeros.
    pub fn unwritten(sectors: u16) -> Self {
        Place {
            sectors,
            ..Place::NONE
        }
    }

    /// Returns true if there is no block.
    pub fn is_none(&self) -> bool {
        self.sectors == 0
    }

    /// Returns true if the block exists and was never written.
    pub fn is_unwritten(&self) -> bool {
        self.sectors > 0 && self.sector == 0
    }

    /// Returns true if the block takes space on the device.
    pub fn is_stored(&self) -> bool {
        self.sectors > 0 && self.sector > 0
    }

    pub(super) fn to_disk(self) -> DiskPlace {
        DiskPlace {
            sector_low: (self.sector as u32).into(),
            sector_high: ((self.sector >> 32) as u16).into(),
            sectors: self.sectors.into(),
            crc: self.crc.into(),
        }
    }

    pub(super) fn of_disk(disk: &DiskPlace) -> Self {
        Place {
            sector: u64::from(disk.sector_low.get()) | u64::from(disk.sector_high.get()) << 32,
            sectors: disk.sectors.get(),
            crc: disk.crc.get(),
        }
    }

    /// Checks that a block of the volume can have this place.
    ///
    /// # Errors
    /// The value that is impossible.
    pub fn check(&self, measures: &Measures) -> Result<(), Malformed> {
        let bad = || {
            let problem = format!("{} sectors at {}", self.sectors, self.sector);
            Err(Malformed::new("place", problem))
        };
        if u64::from(self.sectors) > measures.block_sectors() {
            return bad();
        }
        if !self.is_stored() {
            return match self.is_none() && self.sector != 0 {
                true => bad(),
                false => Ok(()),
            };
        }
        let extent = measures.extent_of(self);
        let units = measures.eager_units();
        // A place does not extend over two blocks, so a whole block is aligned.
        let each = u64::from(measures.units_per_block());
        let aligned = self.sector.is_multiple_of(measures.unit_sectors())
            && extent.unit % each + u64::from(extent.units) <= each;
        match aligned && units.contains(&extent.unit) && extent.end() <= units.end {
            true => Ok(()),
            false => bad(),
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
        self.is_stored()
            && previous.is_stored()
            && previous.sector + u64::from(previous.sectors) == self.sector
    }

    /// A block that has been moved counts as another one, because a place does not say
    /// when its content was written. There are no snapshots to compare it with.
    fn same_write(&self, other: &Self) -> bool {
        self == other
    }
}
