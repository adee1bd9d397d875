//! What a virtual log disk has on its medium: bytes only, no I/O.
//!
//! `docs/spec/virtual-log.md` has the fields and the rules. All integers are
//! little-endian. Every structure begins with a CRC-32C of what follows in it
//! and a magic number; whatever a device returns is checked before it is used.
//!
//! A *unit* is the smallest piece that is written alone: a map sector, as large
//! as the medium's physical block, so that no later write can tear an earlier
//! one. A *block* is what the map maps: one to eight units.

mod layout;
mod record;

use std::mem::offset_of;

/// In a tail record: the log is empty, the checkpoints have all.
pub const NO_ROOT: u64 = u64::MAX;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use layout::{Layout, PLACES_MAX};
pub use record::{BRANCHES, Branch, Entry, MapRecord, RecordHeader, entries_per_record};
pub use varve_device::crc32c;

/// The format's version.
pub const VERSION: u32 = 1;
/// The version of volumes whose data may begin at any unit: entries name units.
pub const VERSION_ANYWHERE: u32 = 2;

/// Bytes that are no valid structure of this kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Too short for the structure.
    #[error("{length} bytes are too short")]
    Short {
        /// Bytes given.
        length: usize,
    },
    /// Something else, or nothing, is there.
    #[error("magic number {found:#010x}, want {expected:#010x}")]
    Magic {
        /// On the medium.
        found: u32,
        /// Of the structure.
        expected: u32,
    },
    /// Torn or decayed.
    #[error("checksum {found:#010x}, want {expected:#010x}")]
    Checksum {
        /// Computed.
        found: u32,
        /// On the medium.
        expected: u32,
    },
    /// Sound, but not to be believed.
    #[error("{0}")]
    Field(String),
}

/// Structures that begin with a checksum and a magic number.
trait Sealed: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned + Copy {
    const MAGIC: u32;
    fn head(&mut self) -> (&mut U32, &mut U32);

    /// With magic number and checksum set.
    fn sealed(mut self) -> Self {
        *self.head().1 = Self::MAGIC.into();
        let crc = crc32c(&self.as_bytes()[4..]);
        *self.head().0 = crc.into();
        self
    }

    /// From the beginning of `bytes`, checked.
    fn unseal(bytes: &[u8]) -> Result<Self, FormatError> {
        let length = bytes.len();
        let (mut found, _) =
            Self::read_from_prefix(bytes).map_err(|_| FormatError::Short { length })?;
        let (crc, magic) = found.head();
        let (expected, magic) = (crc.get(), magic.get());
        if magic != Self::MAGIC {
            return Err(FormatError::Magic {
                found: magic,
                expected: Self::MAGIC,
            });
        }
        let computed = crc32c(&found.as_bytes()[4..]);
        if computed != expected {
            return Err(FormatError::Checksum {
                found: computed,
                expected,
            });
        }
        Ok(found)
    }
}

macro_rules! sealed {
    ($kind:ident, $magic:literal) => {
        impl Sealed for $kind {
            const MAGIC: u32 = u32::from_le_bytes(*$magic);
            fn head(&mut self) -> (&mut U32, &mut U32) {
                (&mut self.crc, &mut self.magic)
            }
        }
        impl $kind {
            /// The structure with its magic number and checksum set.
            pub fn seal(self) -> Self {
                Sealed::sealed(self)
            }
        }
    };
}

/// The measures of a volume: in its first and its last block.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// CRC-32C of every later byte of this structure.
    pub crc: U32,
    /// `VLDS`.
    pub magic: U32,
    /// [`VERSION`] or [`VERSION_ANYWHERE`].
    pub version: U32,
    /// Bytes in a unit.
    pub unit_bytes: U32,
    /// Bytes in a block.
    pub block_bytes: U32,
    /// Zero.
    pub reserved: U32,
    /// Drawn when the volume was made: tells its records from another's.
    pub volume: U64,
    /// Blocks of the medium.
    pub physical_blocks: U64,
    /// Blocks that the volume offers.
    pub logical_blocks: U64,
}
const _: () = assert!(size_of::<Superblock>() == 48 && offset_of!(Superblock, volume) == 24);
sealed!(Superblock, b"VLDS");

impl Superblock {
    /// The superblock at the beginning of `bytes`.
    ///
    /// # Errors
    /// When it is damaged, of another version, or its measures contradict each
    /// other.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let found = <Superblock as Sealed>::unseal(bytes)?;
        let version = found.version.get();
        if ![VERSION, VERSION_ANYWHERE].contains(&version) {
            return Err(FormatError::Field(format!(
                "format version {version}, this program knows {VERSION} and {VERSION_ANYWHERE}"
            )));
        }
        Layout::of(&found)?;
        Ok(found)
    }
}

/// Where the log's tail is, written when the power goes down.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct TailRecord {
    /// CRC-32C of every later byte of this structure.
    pub crc: U32,
    /// `VLDT`.
    pub magic: U32,
    /// The superblock's.
    pub volume: U64,
    /// Sequence number of the tail; if the log is empty, what the newest
    /// checkpoint reflects.
    pub seq: U64,
    /// Its unit.
    pub unit: U64,
}
const _: () = assert!(size_of::<TailRecord>() == 32);
sealed!(TailRecord, b"VLDT");

impl TailRecord {
    /// The tail record at the beginning of `bytes`.
    ///
    /// # Errors
    /// When there is none: cleared, damaged, or another volume's.
    pub fn parse(bytes: &[u8], volume: u64) -> Result<Self, FormatError> {
        let found = <TailRecord as Sealed>::unseal(bytes)?;
        same_volume(found.volume, volume)?;
        Ok(found)
    }
}

/// The head of a checkpoint: the map of all blocks follows it.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct CheckpointHeader {
    /// CRC-32C of every later byte of this structure.
    pub crc: U32,
    /// `VLDC`.
    pub magic: U32,
    /// The superblock's.
    pub volume: U64,
    /// One more than the checkpoint before.
    pub serial: U64,
    /// The last record that the map reflects.
    pub seq: U64,
    /// Entries that follow: the volume's logical blocks, or 0 for a map of nothing.
    pub entries: U64,
    /// CRC-32C of them.
    pub body_crc: U32,
    /// Zero.
    pub reserved: U32,
}
const _: () = assert!(size_of::<CheckpointHeader>() == 48);
sealed!(CheckpointHeader, b"VLDC");

impl CheckpointHeader {
    /// The checkpoint header at the beginning of `bytes`.
    ///
    /// # Errors
    /// When there is none of this volume.
    pub fn parse(bytes: &[u8], layout: &Layout) -> Result<Self, FormatError> {
        let found = <CheckpointHeader as Sealed>::unseal(bytes)?;
        same_volume(found.volume, layout.volume)?;
        let entries = found.entries.get();
        if entries != 0 && entries != layout.logical_blocks {
            let expected = layout.logical_blocks;
            return Err(FormatError::Field(format!(
                "a checkpoint of {entries} entries, want {expected}"
            )));
        }
        let (serial, seq) = (found.serial.get(), found.seq.get());
        if serial.max(seq) >= u64::MAX / 2 {
            return Err(FormatError::Field(format!(
                "checkpoint {serial} of record {seq}: no volume counts that far"
            )));
        }
        Ok(found)
    }
}

fn same_volume(found: U64, expected: u64) -> Result<(), FormatError> {
    if found.get() == expected {
        return Ok(());
    }
    let found = found.get();
    Err(FormatError::Field(format!(
        "of volume {found:#018x}, want {expected:#018x}"
    )))
}

#[cfg(test)]
mod tests;
