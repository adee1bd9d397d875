//! A checkpoint record: a position in the log and the image that belongs to it.
//!
//! ```text
//! | CheckpointHeader | the ifile's inode | UsageDelta … | zeros | trailing serial (8 bytes) |
//! ```
//!
//! Records are stored in a ring of fixed slots; record `n` is in slot `n % record_count`.
//! Writing one is the commit point of a checkpoint: everything it names is durable before
//! (protocol rule 14). Leading and trailing serial agree only if the slot was written
//! whole; the checksum covers all of it.

use super::{Malformed, crc32c};
use varve_fs::planted::{self, Planted};
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of a record of a log with one head.
pub const MAGIC: u32 = u32::from_le_bytes(*b"VCKP");

/// First bytes of a record with several heads, so that a version which supports only one
/// does not mistake it for the other kind.
pub const HEADS_MAGIC: u32 = u32::from_le_bytes(*b"VCKH");

/// Most heads in a record in addition to the first.
pub const FURTHER_HEADS: usize = 6;

/// A boundary between groups, which determines place and contents of the next partial
/// segment (protocol rules 8 and 9).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct LogPosition {
    /// Serial of the last partial before the boundary.
    pub serial: U64,
    /// Byte offset, within its segment, after that partial.
    pub offset: U32,
    /// Number of that segment.
    pub segment: U32,
    /// The segment in which the log continues.
    pub next_segment: U32,
    /// Required `predecessor` of the next partial.
    pub predecessor: U32,
    /// Number of the mount that wrote it.
    pub incarnation: U32,
    /// Incarnation of `segment`.
    pub segment_incarnation: U32,
}
const _: () = assert!(size_of::<LogPosition>() == 32);

/// The place of one head of the log, 16 bytes: as in a [`LogPosition`]. A head that has
/// been given a segment and has not opened it has that segment as `segment` and as
/// `next_segment`, and the segment's end as `offset`.
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
pub struct HeadPlace {
    /// Byte offset, within its segment, after the head's last partial.
    pub offset: U32,
    /// Number of that segment.
    pub segment: U32,
    /// The segment in which this head continues.
    pub next_segment: U32,
    /// Incarnation of `segment`.
    pub segment_incarnation: U32,
}
const _: () = assert!(size_of::<HeadPlace>() == 16);

/// Fixed part of a record, 256 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct CheckpointHeader {
    /// Number of this checkpoint, from 1.
    pub serial: U64,
    /// CRC-32C of every later byte of the slot.
    pub crc: U32,
    /// [`MAGIC`] or [`HEADS_MAGIC`].
    pub magic: U32,
    /// First eight bytes of the volume's UUID.
    pub volume_tag: U64,
    /// Position at which roll-forward starts.
    pub position: LogPosition,
    /// Time of the write, in nanoseconds since 1970.
    pub written_ns: I64,
    /// Bits of [`checkpoint_flags`].
    pub flags: U32,
    /// Segments opened so far.
    pub segments_opened: U32,
    /// One more than the highest inode number ever used.
    pub next_ino: U64,
    /// First number of the free list; 0 if it is empty.
    pub free_head: U64,
    /// Numbers on the free list.
    pub free_count: U64,
    /// Inodes on the unfinished list.
    pub unfinished_count: U64,
    /// Inodes in use.
    pub inodes_used: U64,
    /// Blocks in use.
    pub blocks_used: U64,
    /// Sectors in use.
    pub sectors_used: U64,
    /// Live bytes of index nodes and of the ifile.
    pub metadata_bytes: U64,
    /// Last serial flushed before this record was written.
    pub durable_through: U64,
    /// Bytes of the ifile's inode, which follows this header.
    pub inode_bytes: U32,
    /// Usage deltas after the inode.
    pub delta_count: U32,
    /// Heads of the log in addition to that of `position`.
    pub further_heads: U32,
    /// Version of the first file of a number without an entry in the inode map; 0 stands
    /// for 1.
    pub first_version: U32,
    /// Places of the further heads at the boundary; zeros after the last.
    pub heads: [HeadPlace; FURTHER_HEADS],
}
const _: () = assert!(size_of::<CheckpointHeader>() == 256);

/// Bits of [`CheckpointHeader::flags`].
pub mod checkpoint_flags {
    /// Written by a clean unmount: the log ends here.
    pub const CLEAN: u32 = 1 << 0;
    /// Four bits from here on: one more than the height of the tallest index that ever
    /// existed; 0 if it was not recorded.
    pub const TALLEST_SHIFT: u32 = 8;

    /// The flags of a record that is the end of the log, or not, on a volume whose
    /// indexes have never been taller than this.
    pub fn of(clean: bool, tallest: u8) -> u32 {
        let tallest = (u32::from(tallest) + 1) << TALLEST_SHIFT;
        tallest | if clean { CLEAN } else { 0 }
    }
}

impl CheckpointHeader {
    /// Height of the tallest index that ever existed, if it is known.
    pub fn tallest(&self) -> Option<u8> {
        let kept = self.flags.get() >> checkpoint_flags::TALLEST_SHIFT & 0xf;
        (kept as u8).checked_sub(1)
    }
}

/// A correction of the usage table, caused by writing the table itself (protocol rule
/// 15).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct UsageDelta {
    /// Number of the segment.
    pub segment: U32,
    /// Its incarnation, if it was opened after the table had been captured; 0 leaves the
    /// table's value.
    pub incarnation: U32,
    /// Bytes to add to its live bytes.
    pub bytes: I64,
}
const _: () = assert!(size_of::<UsageDelta>() == 16);

/// A whole record in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// The fixed part.
    pub header: CheckpointHeader,
    /// The ifile's inode, encoded.
    pub ifile: Vec<u8>,
    /// Corrections of the usage table.
    pub deltas: Vec<UsageDelta>,
}

const HEADER_BYTES: usize = size_of::<CheckpointHeader>();
/// Bytes of the trailing serial.
const TRAILER_BYTES: usize = 8;

/// Bytes of a slot for `deltas` corrections.
pub fn record_bytes_for(inode_bytes: usize, deltas: usize, write_unit: usize) -> usize {
    (HEADER_BYTES + inode_bytes + deltas * size_of::<UsageDelta>() + TRAILER_BYTES)
        .next_multiple_of(write_unit)
}

impl CheckpointRecord {
    /// Encodes the record as a slot.
    ///
    /// # Panics
    /// If it does not fit: mkfs sizes slots for the volume.
    pub fn encode(&self, slot_bytes: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(slot_bytes);
        bytes.extend_from_slice(self.header.as_bytes());
        bytes.extend_from_slice(&self.ifile);
        for delta in &self.deltas {
            bytes.extend_from_slice(delta.as_bytes());
        }
        assert!(
            bytes.len() + TRAILER_BYTES <= slot_bytes,
            "checkpoint record exceeds its slot"
        );
        bytes.resize(slot_bytes - TRAILER_BYTES, 0);
        bytes.extend_from_slice(self.header.serial.as_bytes());
        let crc = crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Parses one slot of the ring.
    ///
    /// # Errors
    /// If the slot contains no whole record of this volume.
    pub fn decode(bytes: &[u8], volume_tag: u64) -> Result<Self, Malformed> {
        let bad = |problem: &str| Malformed::new("checkpoint record", problem);
        let (header, rest) =
            CheckpointHeader::read_from_prefix(bytes).map_err(|_| bad("too short"))?;
        let known = [MAGIC, HEADS_MAGIC].contains(&header.magic.get());
        if !known || header.volume_tag.get() != volume_tag {
            return Err(bad("no record of this volume"));
        }
        let trailing = bytes
            .last_chunk::<TRAILER_BYTES>()
            .map(|b| u64::from_le_bytes(*b));
        if trailing != Some(header.serial.get()) {
            return Err(bad("leading and trailing serial differ: torn write"));
        }
        let computed = crc32c(&bytes[12..]);
        if computed != header.crc.get() && !planted::is(Planted::UncheckedRecord) {
            return Err(Malformed::checksum(
                "checkpoint record",
                computed,
                header.crc.get(),
            ));
        }
        let contents = &rest[..rest.len().saturating_sub(TRAILER_BYTES)];
        let exceeds = || bad("contents exceed the slot");
        let (ifile, behind) = contents
            .split_at_checked(header.inode_bytes.get() as usize)
            .ok_or_else(exceeds)?;
        let deltas = super::entries::<UsageDelta>(behind)
            .get(..header.delta_count.get() as usize)
            .ok_or_else(exceeds)?;
        let heads = match header.magic.get() {
            MAGIC => 0..=0,
            _ => 1..=FURTHER_HEADS as u32,
        };
        if !heads.contains(&header.further_heads.get()) {
            return Err(bad("an impossible number of heads"));
        }
        if header.serial.get() == 0 {
            return Err(bad("serial 0 is not given"));
        }
        Ok(CheckpointRecord {
            header,
            ifile: ifile.to_vec(),
            deltas: deltas.to_vec(),
        })
    }
}
