//! Map records: the entries of the virtual log.

use std::mem::offset_of;

use varve_device::AlignedBuffer;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{FormatError, Layout, crc32c};

/// Older records that one record can name.
pub const BRANCHES: usize = 4;

const MAGIC: u32 = u32::from_le_bytes(*b"VLDM");
const FRESH: u32 = 1 << 31;

/// An older record: where it is and which it must be. Sequence 0 names none.
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
    /// Its unit.
    pub unit: U64,
    /// Its sequence number.
    pub seq: U64,
}

/// What a map record says before its entries.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RecordHeader {
    /// CRC-32C of every later byte of the unit.
    pub crc: U32,
    /// `VLDM`.
    pub magic: U32,
    /// The superblock's.
    pub volume: U64,
    /// Which record: numbers are never used twice.
    pub seq: U64,
    /// The first record of its transaction.
    pub first: U64,
    /// Records in its transaction.
    pub count: U32,
    /// Which piece of the map it holds.
    pub piece: U32,
    /// Pieces whose newest record is younger than `floor`, this one included.
    pub live: U32,
    /// The same for `newer`.
    pub live_newer: U32,
    /// Its own unit: a record found elsewhere is none.
    pub unit: U64,
    /// The sequence number down to which the log reaches: the older
    /// checkpoint's. Records at or below it are not needed.
    pub floor: U64,
    /// What the newer checkpoint reflects.
    pub newer: U64,
    /// The root before its transaction: the last record of the transaction
    /// before, or what a checkpoint reflects.
    pub previous: U64,
    /// Older records that hang on this one.
    pub branches: [Branch; BRANCHES],
}
const HEADER: usize = size_of::<RecordHeader>();
const _: () = assert!(HEADER == 144 && offset_of!(RecordHeader, branches) == 80);

impl RecordHeader {
    /// Refuses a header, read from `unit`, that contradicts itself on a medium
    /// of `units` whose map has `pieces`.
    ///
    /// # Errors
    /// If it does.
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

/// Where a logical block is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its place ([`Layout::place_unit`]); 0 if it was never written, or discarded.
    pub place: u32,
    /// CRC-32C of its bytes.
    pub crc: u32,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DiskEntry {
    place: U32,
    crc: U32,
}

impl Entry {
    /// Bytes of an entry on the medium.
    pub const BYTES: usize = size_of::<DiskEntry>();

    /// As it is in a checkpoint.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let entry = DiskEntry {
            place: self.place.into(),
            crc: self.crc.into(),
        };
        zerocopy::transmute!(entry)
    }

    /// From a checkpoint.
    ///
    /// # Errors
    /// When it names a place that the medium does not have for data.
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

/// Entries that fit into a record of `unit_bytes`.
pub fn entries_per_record(unit_bytes: u32) -> u32 {
    (unit_bytes - HEADER as u32) / Entry::BYTES as u32
}

/// A map record, decoded.
#[derive(Debug, Clone)]
pub struct MapRecord {
    /// Everything but the entries.
    pub header: RecordHeader,
    /// The piece's entries, and whether its transaction wrote each.
    pub entries: Vec<(Entry, bool)>,
}

impl MapRecord {
    /// The record's unit, checksummed, aligned as direct I/O wants it.
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

    /// The record in a unit that was read from unit `unit`.
    ///
    /// # Errors
    /// When there is none of this volume, or one that is damaged, lies in the
    /// wrong place, or contradicts itself.
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
