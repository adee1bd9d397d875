//! The head of a checkpoint. A bit for each unit that the tree uses, and then the inode
//! map, follow it.

use super::{Malformed, Measures, Totals, crc32c};
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: u32 = u32::from_le_bytes(*b"VLFC");

/// The head of a checkpoint, 96 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct CheckpointHeader {
    /// CRC-32C of every later byte of this structure.
    pub crc: U32,
    /// Magic number, `VLFC`.
    pub magic: U32,
    /// Tag of the volume, as in the superblock.
    pub volume: U64,
    /// One more than the serial of the checkpoint before.
    pub serial: U64,
    /// Sequence number of the last record that it reflects.
    pub seq: U64,
    /// Number of entries of the inode map that follow; later numbers were never used.
    pub entries: U64,
    /// The totals of the volume.
    pub totals: Totals,
    /// Time of writing, in nanoseconds since 1970.
    pub written_ns: I64,
    /// CRC-32C of bits and entries as stored, without padding.
    pub body_crc: U32,
    /// 1 if there is no body, because no unit and no number is in use.
    pub empty: U32,
    /// One more than the number of blocks of extended attributes that take more than a
    /// unit; 0 if it is unknown, because earlier programs did not count them.
    pub long_xattrs: U64,
}
const _: () = assert!(size_of::<CheckpointHeader>() == 96);

impl CheckpointHeader {
    /// Returns the head with its magic number and checksum filled in.
    pub fn sealed(mut self) -> Self {
        self.magic = MAGIC.into();
        self.crc = crc32c(&self.as_bytes()[4..]).into();
        self
    }

    /// Parses the head at the beginning of `bytes`.
    ///
    /// # Errors
    /// If there is none of this volume.
    pub fn parse(bytes: &[u8], measures: &Measures) -> Result<Self, Malformed> {
        let bad = |problem: String| Malformed::new("checkpoint", problem);
        let (header, _) =
            CheckpointHeader::read_from_prefix(bytes).map_err(|_| bad("cut short".into()))?;
        if header.magic.get() != MAGIC || header.volume.get() != measures.volume {
            return Err(bad("none of this volume".into()));
        }
        let computed = crc32c(&header.as_bytes()[4..]);
        if computed != header.crc.get() {
            return Err(Malformed::checksum(
                "checkpoint",
                computed,
                header.crc.get(),
            ));
        }
        let (serial, seq) = (header.serial.get(), header.seq.get());
        if header.entries.get() > measures.inodes || serial.max(seq) >= u64::MAX / 2 {
            return Err(bad(format!(
                "serial {serial} at record {seq} with {} entries",
                header.entries
            )));
        }
        if header
            .long_xattrs()
            .is_some_and(|long| long > measures.units())
        {
            return Err(bad(format!("{} attributes", header.long_xattrs)));
        }
        Ok(header)
    }

    /// Returns the number of blocks of extended attributes that take more than a unit,
    /// if known.
    pub fn long_xattrs(&self) -> Option<u64> {
        self.long_xattrs.get().checked_sub(1)
    }
}
