//! A piece of the log in transit: a header, and bytes of one segment.

use super::identity::Id;
use crate::error::{Error, Result};
use crate::log::LogShape;
use crate::log::format::{BATCH_HEADER, BatchHeader};
use crate::planted::{self, Planted};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: U64 = U64::from_bytes(*b"VTPLOG01");
pub(crate) const HEADER: usize = 64;

/// Header of a piece.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Stored {
    magic: U64,
    /// CRC-32C of the rest of this header.
    header_crc: U32,
    /// CRC-32C of the bytes behind it.
    bytes_crc: U32,
    id: [u8; 16],
    /// LSN of its first byte.
    from: U64,
    length: U32,
    segment_bytes: U32,
    unit: U32,
    reserved: [u8; 12],
}

const _: () = assert!(size_of::<Stored>() == HEADER);

/// A piece of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    pub id: Id,
    pub from: u64,
    pub segment_bytes: u32,
    pub unit: u32,
    pub bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    pub(crate) fn header(&self) -> [u8; HEADER] {
        let mut stored = Stored {
            magic: MAGIC,
            header_crc: 0.into(),
            bytes_crc: crate::checksum(0, self.bytes).into(),
            id: self.id.0,
            from: self.from.into(),
            length: (self.bytes.len() as u32).into(),
            segment_bytes: self.segment_bytes.into(),
            unit: self.unit.into(),
            reserved: [0; 12],
        };
        stored.header_crc = crate::checksum(0, &stored.as_bytes()[12..]).into();
        stored.as_bytes().try_into().expect("its size")
    }

    /// Parses a piece; `name` identifies it in errors.
    pub(crate) fn parse(name: &str, all: &'a [u8]) -> Result<Self> {
        let wrong = |what: &str| Err(Error::damaged(name, 0, what));
        let Ok((stored, rest)) = Stored::read_from_prefix(all) else {
            return wrong("it is cut off");
        };
        if stored.magic != MAGIC {
            return wrong("it is no piece of a log");
        }
        if stored.header_crc.get() != crate::checksum(0, &all[12..HEADER]) {
            return wrong("its header has a wrong checksum");
        }
        let Some(bytes) = rest.get(..stored.length.get() as usize) else {
            return wrong("it is cut off");
        };
        if stored.bytes_crc.get() != crate::checksum(0, bytes) {
            return wrong("it has a wrong checksum");
        }
        let (from, segment) = (stored.from.get(), u64::from(stored.segment_bytes.get()));
        let within = segment > 0 && from % segment + bytes.len() as u64 <= segment;
        if !within || from > 1 << 62 {
            return wrong("it is not within one segment");
        }
        Ok(Piece {
            id: Id(stored.id),
            from,
            segment_bytes: stored.segment_bytes.get(),
            unit: stored.unit.get(),
            bytes,
        })
    }
}

/// A position up to which a log was followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// End of the last batch.
    pub at: u64,
    /// Life of the last batch.
    pub life: u32,
    /// Beginning of that life, as far as batches show it.
    pub life_begins: u64,
    /// Time at which the last batch was closed; 0 if unknown.
    pub time_s: u32,
}

impl Position {
    /// Advances behind this batch.
    pub(crate) fn pass(&mut self, shape: LogShape, at: u64, header: &BatchHeader) {
        if header.life.get() > self.life {
            self.life = header.life.get();
            self.life_begins = at;
        }
        self.time_s = header.time_s.get();
        self.at = at + shape.padded(header.length.get().into());
    }
}

/// A batch in a piece.
pub(crate) struct Found<'a> {
    pub at: u64,
    pub header: BatchHeader,
    /// Bytes including the header, without padding.
    pub bytes: &'a [u8],
}

/// Returns the batch that follows a position, if it is in these bytes, which begin at
/// `from`.
///
/// Lives never decrease: a batch that an earlier life left behind its end is not taken
/// for the successor of a batch of a later life.
pub(crate) fn walk<'a>(
    shape: LogShape,
    position: &Position,
    from: u64,
    bytes: &'a [u8],
) -> Option<Found<'a>> {
    [position.at, shape.next_segment(position.at)]
        .into_iter()
        .find_map(|at| {
            let rest = bytes.get(usize::try_from(at.checked_sub(from)?).ok()?..)?;
            let header = BatchHeader::parse(rest, at)?;
            let length = u64::from(header.length.get());
            let follows =
                header.previous_end.get() == position.at || planted::is(Planted::GapTaken);
            if !follows || header.life.get() < position.life || !shape.batch_fits(at, length) {
                return None;
            }
            // The padding is a part of the batch.
            let batch = rest.get(..shape.padded(length) as usize)?;
            let batch = &batch[..length as usize];
            let crc = crate::checksum(0, &batch[BATCH_HEADER as usize..]);
            (crc == header.records_crc.get()).then_some(Found {
                at,
                header,
                bytes: batch,
            })
        })
}

/// Entry point of the fuzzer: parses bytes as a piece, also with right checksums.
pub fn look(data: &[u8]) {
    let _ = Piece::parse("data", data);
    let mut sealed = data.to_vec();
    if sealed.len() < HEADER {
        return;
    }
    sealed[..8].copy_from_slice(MAGIC.as_bytes());
    let length = ((sealed.len() - HEADER) as u32).to_le_bytes();
    sealed[40..44].copy_from_slice(&length);
    let crc = crate::checksum(0, &sealed[HEADER..]);
    sealed[12..16].copy_from_slice(&crc.to_le_bytes());
    // The header's checksum covers that of the bytes.
    let crc = crate::checksum(0, &sealed[12..HEADER]);
    sealed[8..12].copy_from_slice(&crc.to_le_bytes());
    let Ok(piece) = Piece::parse("data", &sealed) else {
        return;
    };
    let shape = LogShape {
        segment: piece.segment_bytes.into(),
        unit: 512,
        max_segments: 4,
        max_record: 1 << 16,
        batch: 1 << 16,
    };
    let mut position = Position {
        at: piece.from,
        life: 0,
        life_begins: 0,
        time_s: 0,
    };
    while let Some(found) = walk(shape, &position, piece.from, piece.bytes) {
        position.pass(shape, found.at, &found.header);
        assert!(position.at > found.at, "it goes on");
    }
}
