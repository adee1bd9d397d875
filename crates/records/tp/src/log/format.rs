//! The log's bytes. `docs/spec/records.md` has them as tables.

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first bytes of a batch.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct BatchHeader {
    /// [`BATCH_MAGIC`].
    pub magic: U32,
    /// CRC-32C of this header, with this field as zero.
    pub header_crc: U32,
    /// CRC-32C of the records.
    pub records_crc: U32,
    /// Bytes with the header, without the padding.
    pub length: U32,
    /// Its own LSN.
    pub lsn: U64,
    /// Where the batch before it ended, padding included.
    pub previous_end: U64,
    /// The log was known to be durable up to here when this was sealed.
    pub durable: U64,
    /// How often the environment has been opened.
    pub life: U32,
    /// When it was closed, in seconds since 1970; 0: not known.
    pub time_s: U32,
}

/// `VTPB`.
pub const BATCH_MAGIC: U32 = U32::from_bytes(*b"VTPB");

/// Bytes of a [`BatchHeader`].
pub const BATCH_HEADER: u64 = 48;
const _: () = assert!(size_of::<BatchHeader>() as u64 == BATCH_HEADER);

/// The first bytes of a record.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RecordHeader {
    /// CRC-32C of the bytes behind this field, body included.
    pub crc: U32,
    /// Bytes, this header included.
    pub length: U32,
    /// The transaction; 0 for structure changes.
    pub transaction: U64,
    /// LSN of the transaction's record before it, or 0.
    pub previous: U64,
    /// The table.
    pub table: U32,
    /// What it says (`change.rs`).
    pub kind: u8,
    /// [`COMPENSATION`] or 0.
    pub flags: u8,
    /// Zero.
    pub reserved: U16,
}

impl RecordHeader {
    /// Of a record that is of no transaction. Length and checksum are filled in later.
    pub(crate) fn of_nobody(kind: u8, table: u32) -> Self {
        RecordHeader {
            crc: 0.into(),
            length: 0.into(),
            transaction: 0.into(),
            previous: 0.into(),
            table: table.into(),
            kind,
            flags: 0,
            reserved: 0.into(),
        }
    }
}

/// Bytes of a [`RecordHeader`].
pub const RECORD_HEADER: usize = 32;
const _: () = assert!(size_of::<RecordHeader>() == RECORD_HEADER);

/// A flag: the record undoes another, and its body begins with the LSN of the one
/// that is undone next.
pub const COMPENSATION: u8 = 1;

impl BatchHeader {
    /// With its checksum.
    pub fn sealed(mut self) -> Self {
        self.header_crc = 0.into();
        self.header_crc = crate::checksum(0, self.as_bytes()).into();
        self
    }

    /// The header that these bytes begin with, if they begin with one that is whole
    /// and lies where it says.
    pub fn parse(bytes: &[u8], lsn: u64) -> Option<Self> {
        Self::parse_anywhere(bytes).filter(|header| header.lsn.get() == lsn)
    }

    /// The same, wherever it says that it lies.
    pub fn parse_anywhere(bytes: &[u8]) -> Option<Self> {
        let (header, _) = BatchHeader::read_from_prefix(bytes).ok()?;
        let right = header.magic == BATCH_MAGIC
            && header.sealed().header_crc == header.header_crc
            && u64::from(header.length.get()) >= BATCH_HEADER;
        right.then_some(header)
    }
}

/// The record at the beginning of these bytes, whole: its header and body.
pub fn record(bytes: &[u8]) -> Option<(RecordHeader, &[u8])> {
    let (header, _) = RecordHeader::read_from_prefix(bytes).ok()?;
    let whole = bytes.get(..header.length.get() as usize)?;
    let body = whole.get(RECORD_HEADER..)?;
    let crc = crate::checksum(0, &whole[4..]);
    (crc == header.crc.get()).then_some((header, body))
}
