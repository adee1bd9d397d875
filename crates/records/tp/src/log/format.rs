//! Structures of the log. `docs/spec/records.md` has them as tables.

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Header of a batch.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct BatchHeader {
    /// [`BATCH_MAGIC`].
    pub magic: U32,
    /// CRC-32C of this header, with this field as zero.
    pub header_crc: U32,
    /// CRC-32C of the records.
    pub records_crc: U32,
    /// Bytes including the header, without the padding.
    pub length: U32,
    /// LSN of the batch.
    pub lsn: U64,
    /// LSN of the end of the previous batch, including padding.
    pub previous_end: U64,
    /// LSN up to which the log was known to be durable when the batch was closed.
    pub durable: U64,
    /// Number of times that the environment was opened.
    pub life: U32,
    /// Time of closing in seconds since 1970; 0 if unknown.
    pub time_s: U32,
}

/// The magic `VTPB`.
pub const BATCH_MAGIC: U32 = U32::from_bytes(*b"VTPB");

/// Bytes of a [`BatchHeader`].
pub const BATCH_HEADER: u64 = 48;
const _: () = assert!(size_of::<BatchHeader>() as u64 == BATCH_HEADER);

/// Header of a record.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RecordHeader {
    /// CRC-32C of the bytes behind this field, including the body.
    pub crc: U32,
    /// Bytes including this header.
    pub length: U32,
    /// Number of the transaction; 0 for structure changes.
    pub transaction: U64,
    /// LSN of the transaction's previous record, or 0.
    pub previous: U64,
    /// Number of the table.
    pub table: U32,
    /// Kind of the change (`change.rs`).
    pub kind: u8,
    /// [`COMPENSATION`] or 0.
    pub flags: u8,
    /// Must be zero.
    pub reserved: U16,
}

impl RecordHeader {
    /// Returns the header of a record without a transaction. Length and checksum are
    /// filled in later.
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

/// Flag of a record that undoes another. Its body begins with the LSN of the record that
/// is undone next.
pub const COMPENSATION: u8 = 1;

impl BatchHeader {
    /// Returns the header with its checksum.
    pub fn sealed(mut self) -> Self {
        self.header_crc = 0.into();
        self.header_crc = crate::checksum(0, self.as_bytes()).into();
        self
    }

    /// Returns the header at the beginning of these bytes, if it is valid and its LSN is
    /// `lsn`.
    pub fn parse(bytes: &[u8], lsn: u64) -> Option<Self> {
        Self::parse_anywhere(bytes).filter(|header| header.lsn.get() == lsn)
    }

    /// Returns the header at the beginning of these bytes, if it is valid, with any LSN.
    pub fn parse_anywhere(bytes: &[u8]) -> Option<Self> {
        let (header, _) = BatchHeader::read_from_prefix(bytes).ok()?;
        let right = header.magic == BATCH_MAGIC
            && header.sealed().header_crc == header.header_crc
            && u64::from(header.length.get()) >= BATCH_HEADER;
        right.then_some(header)
    }
}

/// Returns header and body of the record at the beginning of these bytes, if it is valid.
pub fn record(bytes: &[u8]) -> Option<(RecordHeader, &[u8])> {
    let (header, _) = RecordHeader::read_from_prefix(bytes).ok()?;
    let whole = bytes.get(..header.length.get() as usize)?;
    let body = whole.get(RECORD_HEADER..)?;
    let crc = crate::checksum(0, &whole[4..]);
    (crc == header.crc.get()).then_some((header, body))
}
