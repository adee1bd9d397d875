//! One inode's entry in the inode map: where the inode is, or the version that
//! the number's next file gets.
//!
//! The log's entries (`varve-lfs/src/format/ifile.rs`) also name a segment's life, and
//! link free numbers; this map is small, as all of it is in memory.

use super::Malformed;
use varve_fs::Version;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const UNFINISHED: u32 = 1 << 31;

/// Eight bytes. Unit 0 holds a superblock and never an inode: it says that the
/// number is free.
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
    /// Bits 0-30 the inode's unit, 0 for a free number; bit 31: without a name,
    /// or in the middle of a truncate.
    place: U32,
    /// CRC-32C of that unit; of a free number the next file's version, 0 if it
    /// never had one.
    crc: U32,
}
const _: () = assert!(size_of::<Entry>() == 8);

impl Entry {
    /// Most units of a volume: an entry has 31 bits for one.
    pub const UNITS_MAX: u64 = 1 << 31;

    /// An inode in `unit`.
    pub fn used(unit: u64, crc: u32, unfinished: bool) -> Self {
        let flag = if unfinished { UNFINISHED } else { 0 };
        Entry {
            place: (unit as u32 | flag).into(),
            crc: crc.into(),
        }
    }

    /// A free number whose next file has this version.
    pub fn free(next_version: Version) -> Self {
        Entry {
            place: 0.into(),
            crc: next_version.into(),
        }
    }

    /// The inode's unit, if there is an inode.
    pub fn unit(&self) -> Option<u64> {
        let unit = self.place.get() & !UNFINISHED;
        (unit != 0).then_some(u64::from(unit))
    }

    /// The inode's checksum.
    pub fn crc(&self) -> u32 {
        self.crc.get()
    }

    /// The version of a free number's next file; versions begin at 1.
    pub fn next_version(&self) -> Version {
        self.crc.get().max(1)
    }

    /// The inode has no name, or is being truncated.
    pub fn unfinished(&self) -> bool {
        self.place.get() & UNFINISHED != 0
    }

    /// Refuses an entry that leads outside of `units`.
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
