//! An entry of the inode map: the unit of an inode, or the version that the number's
//! next file gets.
//!
//! The entries of the log (`varve-lfs/src/format/ifile.rs`) also name a segment's life,
//! and link free numbers. Entries of this map are small, because all of it is in
//! memory.

use super::Malformed;
use varve_fs::Version;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const UNFINISHED: u32 = 1 << 31;

/// An entry of eight bytes. Unit 0 contains a superblock and never an inode, so it
/// means that the number is free.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct Entry {
    /// Bits 0-30: the inode's unit, or 0 for a free number. Bit 31: the inode has no
    /// name, or is being truncated.
    place: U32,
    /// CRC-32C of the unit. For a free number the version of its next file, 0 if it
    /// never had one.
    crc: U32,
}
const _: () = assert!(size_of::<Entry>() == 8);

impl Entry {
    /// Maximum number of units of a volume: an entry has 31 bits for one.
    pub const UNITS_MAX: u64 = 1 << 31;

    /// Creates the entry of an inode in `unit`.
    pub fn used(unit: u64, crc: u32, unfinished: bool) -> Self {
        let flag = if unfinished { UNFINISHED } else { 0 };
        Entry {
            place: (unit as u32 | flag).into(),
            crc: crc.into(),
        }
    }

    /// Creates the entry of a free number whose next file has this version.
    pub fn free(next_version: Version) -> Self {
        Entry {
            place: 0.into(),
            crc: next_version.into(),
        }
    }

    /// Returns the inode's unit, if there is an inode.
    pub fn unit(&self) -> Option<u64> {
        let unit = self.place.get() & !UNFINISHED;
        (unit != 0).then_some(u64::from(unit))
    }

    /// Returns the checksum of the inode's unit.
    pub fn crc(&self) -> u32 {
        self.crc.get()
    }

    /// Returns the version of a free number's next file. Versions begin at 1.
    pub fn next_version(&self) -> Version {
        self.crc.get().max(1)
    }

    /// Returns true if the inode has no name, or is being truncated.
    pub fn unfinished(&self) -> bool {
        self.place.get() & UNFINISHED != 0
    }

    /// Refuses an entry that names a unit outside of `units`.
    pub(crate) fn check(&self, units: &std::ops::Range<u64>) -> Result<(), Malformed> {
        match self.unit() {
            Some(unit) if !units.contains(&unit) => Err(Malformed::new(
                "inode map",
                format!("an entry names unit {unit}, outside of {units:?}"),
            )),
            None if self.unfinished() => {
                Err(Malformed::new("inode map", "a free number is unfinished"))
            }
            _ => Ok(()),
        }
    }
}
