//! The structures of a virtual log disk on its medium: bytes only, no I/O.
//!
//! `docs/spec/virtual-log.md` has the fields and the rules. All integers are
//! little-endian. Every structure begins with a CRC-32C of its later bytes and a magic
//! number. All bytes read from a device are checked before they are used.
//!
//! A *unit* is the smallest piece that is written alone: a map sector, as large as the
//! medium's physical block, so that no later write can tear an earlier one. A *block*
//! is the piece that the map has entries for: one to eight units.

mod layout;
mod record;

use std::mem::offset_of;

/// The unit in a tail record if the log is empty and the checkpoints contain
/// everything.
pub const NO_ROOT: u64 = u64::MAX;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use layout::{Layout, PLACES_MAX};
pub use record::{BRANCHES, Branch, Entry, MapRecord, RecordHeader, entries_per_record};
pub use varve_device::crc32c;

/// Version of the format.
pub const VERSION: u32 = 1;
/// Version of volumes whose data may begin at any unit, so that entries name units.
pub const VERSION_ANYWHERE: u32 = 2;

/// The reason why bytes are not a valid structure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// There are fewer bytes than the structure has.
    #[error("{length} bytes are too short")]
    Short {
        /// Number of bytes.
        length: usize,
    },
    /// The magic number is another one.
    #[error("magic number {found:#010x}, want {expected:#010x}")]
    Magic {
        /// The number on the medium.
        found: u32,
        /// The number of the structure.
        expected: u32,
    },
    /// The checksum does not match: the structure was torn or has decayed.
    #[error("checksum {found:#010x}, want {expected:#010x}")]
    Checksum {
        /// The computed checksum.
        found: u32,
        /// The checksum on the medium.
        expected: u32,
    },
    /// The checksum matches, but a field has an impossible value.
    #[error("{0}")]
    Field(String),
}

/// A structure that begins with a checksum and a magic number.
trait Sealed: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned + Copy {
    const MAGIC: u32;
    fn head(&mut self) -> (&mut U32, &mut U32);

    /// Returns the structure with its magic number and checksum filled in.
    fn sealed(mut self) -> Self {
        *self.head().1 = Self::MAGIC.into();
        let crc = crc32c(&self.as_bytes()[4..]);
        *self.head().0 = crc.into();
        self
    }

    /// Parses the structure at the beginning of `bytes`, and checks both.
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
            /// Returns the structure with its magic number and checksum filled in.
            pub fn seal(self) -> Self {
                Sealed::sealed(self)
            }
        }
    };
}

/// The sizes of a volume, in its first and its last block.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// CRC-32C of every later byte of this structure.
    pub crc: U32,
    /// Magic number, `VLDS`.
    pub magic: U32,
    /// Version: [`VERSION`] or [`VERSION_ANYWHERE`].
    pub version: U32,
    /// Size of a unit, in bytes.
    pub unit_bytes: U32,
    /// Size of a block, in bytes.
    pub block_bytes: U32,
    /// Unused, zero.
    pub reserved: U32,
    /// Random identifier, which distinguishes the volume's records from those of
    /// another one.
    pub volume: U64,
    /// Number of blocks of the medium.
    pub physical_blocks: U64,
    /// Number of blocks that the volume offers.
    pub logical_blocks: U64,
}
const _: () = assert!(size_of::<Superblock>() == 48 && offset_of!(Superblock, volume) == 24);
sealed!(Superblock, b"VLDS");

impl Superblock {
    /// Parses the superblock at the beginning of `bytes`.
    ///
    /// # Errors
    /// If it is damaged, of another version, or its sizes contradict each other.
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

/// The place of the log's tail, written when the volume is parked.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct TailRecord {
    /// CRC-32C of every later byte of this structure.
    pub crc: U32,
    /// Magic number, `VLDT`.
    pub magic: U32,
    /// Identifier of the volume, as in the superblock.
    pub volume: U64,
    /// Sequence number of the tail; if the log is empty, of the last record that the
    /// newest checkpoint reflects.
    pub seq: U64,
    /// Unit of the tail.
    pub unit: U64,
}
const _: () = assert!(size_of::<TailRecord>() == 32);
sealed!(TailRecord, b"VLDT");

impl TailRecord {
    /// Parses the tail record at the beginning of `bytes`.
    ///
    /// # Errors
    /// If there is none: it was cleared, is damaged, or belongs to another volume.
    pub fn parse(bytes: &[u8], volume: u64) -> Result<Self, FormatError> {
        let found = <TailRecord as Sealed>::unseal(bytes)?;
        same_volume(found.volume, volume)?;
        Ok(found)
    }
}

/// The header of a checkpoint: the map of all blocks follows it.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct CheckpointHeader {
    /// CRC-32C of every later byte of this structure.
    pub crc: U32,
    /// Magic number, `VLDC`.
    pub magic: U32,
    /// Identifier of the volume, as in the superblock.
    pub volume: U64,
    /// One more than the serial of the checkpoint before.
    pub serial: U64,
    /// Sequence number of the last record that the map reflects.
    pub seq: U64,
    /// Number of entries that follow: the volume's logical blocks, or 0 for an empty
    /// map.
    pub entries: U64,
    /// CRC-32C of the entries.
    pub body_crc: U32,
    /// Unused, zero.
    pub reserved: U32,
}
const _: () = assert!(size_of::<CheckpointHeader>() == 48);
sealed!(CheckpointHeader, b"VLDC");

impl CheckpointHeader {
    /// Parses the checkpoint header at the beginning of `bytes`.
    ///
    /// # Errors
    /// If there is none of this volume.
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
