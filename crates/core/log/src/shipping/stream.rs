//! The stream's bytes: structures, and parsing of records.
//!
//! `docs/spec/stream.md` has the tables. Lengths are bounded, and memory is taken as
//! bytes arrive: a crafted length alone takes none.

use super::error::{Result, ShipError};
use crate::format::superblock::MAX_SEGMENT_BYTES;
use crate::format::{Mark, crc32c, crc32c_of};
use std::io::{self, Read, Write};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of a stream.
pub const MAGIC: u32 = u32::from_le_bytes(*b"VSHP");
/// First bytes of a record.
pub const RECORD_MAGIC: u32 = u32::from_le_bytes(*b"VSRC");
/// Version of the format. A different one cannot be read.
pub const VERSION: u16 = 1;
/// Most bytes of a record's payload: the content of a partial segment, and the blocks
/// that it has written into holes of others.
pub const MAX_PAYLOAD_BYTES: u32 = MAX_SEGMENT_BYTES + (4 << 20);

/// Values of [`StreamRecord::kind`].
pub mod record_kind {
    /// A partial of an ordinary group.
    pub const GROUP: u8 = 1;
    /// A partial of the cleaner or a checkpoint.
    pub const OTHER: u8 = 2;
    /// The end of the stream.
    pub const END: u8 = 3;
}

/// Bits of [`StreamRecord::flags`].
pub mod record_flags {
    /// A group begins.
    pub const FIRST: u8 = 1 << 0;
    /// A group ends.
    pub const LAST: u8 = 1 << 1;
}

/// Header of a stream, 64 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct StreamHeader {
    /// CRC-32C of every later byte.
    pub crc: U32,
    /// The bytes `VSHP`.
    pub magic: U32,
    /// Always 1.
    pub version: U16,
    /// Zeros.
    pub spare: [u8; 6],
    /// Volume tag of the original.
    pub volume_tag: U64,
    /// Serial of the mark at which the stream begins.
    pub serial: U64,
    /// Checksum of that mark.
    pub check: U32,
    /// Bytes of a logical block.
    pub block_bytes: U32,
    /// Bytes of an inode.
    pub inode_bytes: U32,
    /// Zeros.
    pub spare_2: [u8; 20],
}
const _: () = assert!(size_of::<StreamHeader>() == 64);

impl StreamHeader {
    /// The header for a volume with this geometry, from this mark on.
    pub fn new(volume_tag: u64, from: Mark, block_bytes: u32, inode_bytes: u32) -> Self {
        let mut header = StreamHeader {
            magic: MAGIC.into(),
            version: VERSION.into(),
            volume_tag: volume_tag.into(),
            serial: from.serial.into(),
            check: from.check.into(),
            block_bytes: block_bytes.into(),
            inode_bytes: inode_bytes.into(),
            ..StreamHeader::new_zeroed()
        };
        header.crc = crc32c(&header.as_bytes()[4..]).into();
        header
    }

    /// Writes the header.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&self, into: &mut dyn Write) -> io::Result<()> {
        into.write_all(self.as_bytes())
    }

    /// The mark at which the stream begins.
    pub fn from(&self) -> Mark {
        Mark {
            serial: self.serial.get(),
            check: self.check.get(),
        }
    }
}

/// One partial segment, 64 bytes; its payload follows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct StreamRecord {
    /// CRC-32C of every later byte and of the payload.
    pub crc: U32,
    /// The bytes `VSRC`.
    pub magic: U32,
    /// One of [`record_kind`].
    pub kind: u8,
    /// Bits of [`record_flags`].
    pub flags: u8,
    /// Zeros.
    pub spare: [u8; 2],
    /// Length of the payload, at most [`MAX_PAYLOAD_BYTES`].
    pub payload_bytes: U32,
    /// Serial of the partial.
    pub serial: U64,
    /// CRC-32C of the partial's header.
    pub check: U32,
    /// CRC-32C of the header of the partial before it.
    pub predecessor: U32,
    /// Time at which it was made, in nanoseconds since 1970.
    pub written_ns: I64,
    /// Inodes in use after the group.
    pub inodes_used: U64,
    /// Blocks in use after the group.
    pub blocks_used: U64,
    /// Sectors in use after the group.
    pub sectors_used: U64,
}
const _: () = assert!(size_of::<StreamRecord>() == 64);

impl StreamRecord {
    /// The mark at the end of the partial, if a group ends there.
    pub fn mark(&self) -> Mark {
        Mark {
            serial: self.serial.get(),
            check: self.check.get(),
        }
    }

    /// True if `flag` is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn computed_crc(&self, payload: &[u8]) -> u32 {
        crc32c_of(&[&self.as_bytes()[4..], payload])
    }
}

/// One change in a payload, 40 bytes; its content follows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct StreamItem {
    /// Kind, as in the entries of summaries.
    pub kind: u8,
    /// Zeros.
    pub spare: [u8; 3],
    /// The inode's version.
    pub version: U32,
    /// Inode number.
    pub ino: U64,
    /// The block's number, or the record's first field.
    pub from: U64,
    /// The time at which a user wrote the block, or the record's second field.
    pub to: U64,
    /// Bytes of content.
    pub bytes: U32,
    /// Zeros.
    pub spare_2: [u8; 4],
}
const _: () = assert!(size_of::<StreamItem>() == 40);

/// A record with its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The fixed part; checksum and payload length are computed when it is written.
    pub header: StreamRecord,
    /// Items without gaps.
    pub payload: Vec<u8>,
}

impl Record {
    /// The end of a stream, after this mark.
    pub fn end(mark: Mark) -> Self {
        Record {
            header: StreamRecord {
                kind: record_kind::END,
                serial: mark.serial.into(),
                check: mark.check.into(),
                predecessor: mark.check.into(),
                ..StreamRecord::new_zeroed()
            },
            payload: Vec::new(),
        }
    }

    /// Writes the record.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&self, into: &mut dyn Write) -> io::Result<()> {
        let mut header = self.header;
        header.magic = RECORD_MAGIC.into();
        header.payload_bytes = (self.payload.len() as u32).into();
        header.crc = header.computed_crc(&self.payload).into();
        into.write_all(header.as_bytes())?;
        into.write_all(&self.payload)
    }
}

/// Parses records of a stream, each whole and after the one before.
#[derive(Debug)]
pub struct StreamReader<R> {
    from: R,
    header: StreamHeader,
    /// Mark of the last record.
    at: Mark,
    ended: bool,
}

impl<R: Read> StreamReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`ShipError::BadStream`] if it is none, or of another version; errors of the
    /// reader.
    pub fn new(mut from: R) -> Result<Self> {
        let bad = |problem: &str| ShipError::bad_header(problem);
        let mut header = StreamHeader::new_zeroed();
        if fill(&mut from, header.as_mut_bytes())? < size_of::<StreamHeader>() {
            return Err(bad("it is shorter than a header"));
        }
        if header.magic.get() != MAGIC {
            return Err(bad("it does not begin like one"));
        }
        if header.crc.get() != crc32c(&header.as_bytes()[4..]) {
            return Err(bad("its header is damaged"));
        }
        if header.version.get() != VERSION {
            let version = header.version.get();
            return Err(bad(&format!("its version is {version}, and 1 is known")));
        }
        Ok(StreamReader {
            from,
            at: header.from(),
            header,
            ended: false,
        })
    }

    /// The header.
    pub fn header(&self) -> &StreamHeader {
        &self.header
    }

    /// The next record; `None` after the end.
    ///
    /// # Errors
    /// [`ShipError::BadStream`] if it is cut, damaged, or does not follow; errors of the
    /// reader.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        if self.ended {
            return Ok(None);
        }
        let after = self.at;
        let bad = |problem: String| ShipError::BadStream { after, problem };
        let mut header = StreamRecord::new_zeroed();
        if fill(&mut self.from, header.as_mut_bytes())? < size_of::<StreamRecord>() {
            return Err(bad("it is cut off".into()));
        }
        let length = header.payload_bytes.get();
        if header.magic.get() != RECORD_MAGIC || length > MAX_PAYLOAD_BYTES {
            return Err(bad("what follows is no record".into()));
        }
        let mut payload = Vec::new();
        let mut limited = (&mut self.from).take(length.into());
        let read = limited.read_to_end(&mut payload);
        read.map_err(|error| ShipError::Io("the stream", error))?;
        if payload.len() < length as usize {
            return Err(bad("it is cut off".into()));
        }
        if header.crc.get() != header.computed_crc(&payload) {
            return Err(bad("the next record is damaged".into()));
        }
        let expected = match header.kind {
            record_kind::END => after.serial,
            record_kind::GROUP | record_kind::OTHER => after.serial.wrapping_add(1),
            kind => return Err(bad(format!("a record is of kind {kind}"))),
        };
        if header.serial.get() != expected || header.predecessor.get() != after.check {
            let found = header.serial.get();
            return Err(bad(format!(
                "partial {expected} of its log should follow, not {found} or one of another life"
            )));
        }
        self.ended = header.kind == record_kind::END;
        self.at = header.mark();
        Ok(Some(Record { header, payload }))
    }
}

/// Reads until `bytes` is full or the input ends; returns the number of bytes.
fn fill(from: &mut impl Read, bytes: &mut [u8]) -> Result<usize> {
    let mut at = 0;
    while at < bytes.len() {
        match from.read(&mut bytes[at..]) {
            Ok(0) => break,
            Ok(more) => at += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ShipError::Io("the stream", error)),
        }
    }
    Ok(at)
}
