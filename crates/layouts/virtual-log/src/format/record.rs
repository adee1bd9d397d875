//! Map records, which the virtual log consists of.

use std::mem::offset_of;

use varve_device::AlignedBuffer;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{FormatError, Layout, crc32c};

/// Maximum number of older records that one record can name.
pub const BRANCHES: usize = 4;

const MAGIC: u32 = u32::from_le_bytes(*b"VLDM");
const FRESH: u32 = 1 << 31;

/// A reference to an older record. Sequence number 0 means that there is none.
#[derive(
    Debug,
    Clone,
    Copy,
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
pub struct Branch {
    /// Unit of the older record.
    pub unit: U64,
    /// Sequence number that the record there must have.
    pub seq: U64,
}

/// The fields of a map record before its entries.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RecordHeader {
    /// CRC-32C of every later byte of the unit.
    pub crc: U32,
    /// Magic number, `VLDM`.
    pub magic: U32,
    /// Identifier of the volume, as in the superblock.
    pub volume: U64,
    /// Sequence number of the record. No number is used twice.
    pub seq: U64,
    /// Sequence number of the first record of the transaction.
    pub first: U64,
    /// Number of records in the transaction.
    pub count: U32,
    /// Number of the map's piece.
    pub piece: U32,
    /// Number of pieces whose newest record is younger than `floor`, this one included.
    pub live: U32,
    /// Number of pieces whose newest record is younger than `newer`, this one included.
    pub live_newer: U32,
    /// Unit of the record itself: at any other unit it is invalid.
    pub unit: U64,
    /// Sequence number at which the log begins: the one of the older checkpoint.
    /// Records up to this number are not needed.
    pub floor: U64,
    /// Sequence number of the last record that the newer checkpoint reflects.
    pub newer: U64,
    /// Sequence number of the root before the transaction: the last record of the
    /// transaction before, or the last one that a checkpoint reflects.
    pub previous: U64,
    /// Older records that are reached through this one.
    pub branches: [Branch; BRANCHES],
}
const HEADER: usize = size_of::<RecordHeader>();
const _: () = assert!(HEADER == 144 && offset_of!(RecordHeader, branches) == 80);

impl RecordHeader {
    /// Checks a header that was read from `unit`, on a medium of `units` units whose
    /// map has `pieces` pieces.
    ///
    /// # Errors
    /// If the header contradicts itself.
    pub fn check(&self, unit: u64, units: u64, pieces: u64) -> Result<(), FormatError> {
        let believable = self.unit.get() == unit
            && self.floor.get() <= self.newer.get()
            && self.newer.get() <= self.previous.get()
            && self.previous.get() < self.first.get()
            && self.seq.get() < u64::MAX / 2
            && u64::from(self.piece.get()) < pieces
            && self.count.get() > 0
            && u64::from(self.count.get()) <= pieces
            && self.first.get() <= self.seq.get()
            && self.seq.get() - self.first.get() < u64::from(self.count.get())
            && self.live_newer.get() <= self.live.get()
            && u64::from(self.live.get()) <= pieces;
        let below = |branch: &Branch| branch.seq < self.seq && branch.unit.get() < units;
        if believable && self.branches.iter().all(below) {
            return Ok(());
        }
        let seq = self.seq.get();
        Err(FormatError::Field(format!(
            "record {seq} contradicts itself"
        )))
    }
}

/// The place of a logical block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entry {
    /// Place ([`Layout::place_unit`]); 0 if the block was never written, or was
    /// discarded.
    pub place: u32,
    /// CRC-32C of the block's bytes.
    pub crc: u32,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DiskEntry {
    place: U32,
    crc: U32,
}

impl Entry {
    /// Size of an entry on the medium, in bytes.
    pub const BYTES: usize = size_of::<DiskEntry>();

    /// Returns the stored form in a checkpoint.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let entry = DiskEntry {
            place: self.place.into(),
            crc: self.crc.into(),
        };
        zerocopy::transmute!(entry)
    }

    /// Parses the stored form in a checkpoint.
    ///
    /// # Errors
    /// If it names a place where the medium has no data.
    pub fn parse(bytes: [u8; Self::BYTES], layout: &Layout) -> Result<Self, FormatError> {
        let found: DiskEntry = zerocopy::transmute!(bytes);
        let entry = Entry {
            place: found.place.get(),
            crc: found.crc.get(),
        };
        entry.checked(layout)
    }

    fn checked(self, layout: &Layout) -> Result<Self, FormatError> {
        if self.place == 0 || layout.is_data_place(self.place) {
            return Ok(self);
        }
        let place = self.place;
        Err(FormatError::Field(format!("an entry names place {place}")))
    }
}

/// Returns the number of entries that fit in a record of `unit_bytes` bytes.
pub fn entries_per_record(unit_bytes: u32) -> u32 {
    (unit_bytes - HEADER as u32) / Entry::BYTES as u32
}

/// A decoded map record.
#[derive(Debug, Clone)]
pub struct MapRecord {
    /// The fields before the entries.
    pub header: RecordHeader,
    /// The entries of the piece, each with whether this transaction wrote its block.
    pub entries: Vec<(Entry, bool)>,
}

impl MapRecord {
    /// Returns the record's unit with its checksum, aligned for direct I/O.
    ///
    /// # Panics
    /// If there are more entries than fit.
    pub fn encode(&self, unit_bytes: u32) -> AlignedBuffer {
        let mut bytes = AlignedBuffer::zeroed(unit_bytes as usize);
        let room = entries_per_record(unit_bytes) as usize;
        assert!(self.entries.len() <= room, "a piece of too many entries");
        let places = bytes[HEADER..].chunks_exact_mut(Entry::BYTES);
        for (place, &(entry, fresh)) in places.zip(&self.entries) {
            let marked = entry.place | if fresh { FRESH } else { 0 };
            let entry = Entry {
                place: marked,
                ..entry
            };
            place.copy_from_slice(&entry.to_bytes());
        }
        let header = RecordHeader {
            magic: MAGIC.into(),
            ..self.header
        };
        bytes[..HEADER].copy_from_slice(header.as_bytes());
        let crc = crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Parses the record in the bytes of unit `unit`.
    ///
    /// # Errors
    /// If there is no record of this volume, or one that is damaged, belongs to another
    /// unit, or contradicts itself.
    pub fn parse(bytes: &[u8], unit: u64, layout: &Layout) -> Result<Self, FormatError> {
        let length = bytes.len();
        let short = FormatError::Short { length };
        if length != layout.unit_bytes as usize {
            return Err(short);
        }
        let (header, rest) = RecordHeader::read_from_prefix(bytes).map_err(|_| short)?;
        let (magic, expected) = (header.magic.get(), header.crc.get());
        if magic != MAGIC {
            return Err(FormatError::Magic {
                found: magic,
                expected: MAGIC,
            });
        }
        let found = crc32c(&bytes[4..]);
        if found != expected {
            return Err(FormatError::Checksum { found, expected });
        }
        super::same_volume(header.volume, layout.volume)?;
        header.check(unit, layout.units(), layout.pieces())?;
        let count = layout.entries_of(header.piece.get());
        let (raw, _) = rest.as_chunks::<{ Entry::BYTES }>();
        let mut entries = Vec::with_capacity(count);
        for &raw in &raw[..count] {
            let raw: DiskEntry = zerocopy::transmute!(raw);
            let place = raw.place.get();
            let entry = Entry {
                place: place & !FRESH,
                crc: raw.crc.get(),
            };
            entries.push((entry.checked(layout)?, place & FRESH != 0));
        }
        Ok(MapRecord { header, entries })
    }
}
