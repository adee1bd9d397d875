//! A record of changes: the changes of brief transactions since the record's slot was
//! begun. It is one unit: the virtual log's header, the totals of the volume, the
//! number of the fold before, the changes.

use super::{Change, Malformed, Measures, Totals, crc32c};
use varve_vlog::format::RecordHeader;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic number, behind the checksum.
pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"VLFD");

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Fixed {
    header: RecordHeader,
    totals: Totals,
    folded: U64,
    bytes: U32,
    spare: U32,
}
const FIXED: usize = size_of::<Fixed>();
const _: () = assert!(FIXED == 192);

/// Returns how many bytes of changes fit in a record of `unit_bytes` bytes.
pub(super) fn room(unit_bytes: u32) -> usize {
    unit_bytes as usize - FIXED
}

/// A decoded record of changes.
#[derive(Clone, Debug)]
pub struct Delta {
    /// The header of the virtual log. Its piece is a slot, numbered behind the pieces
    /// of the map.
    pub header: RecordHeader,
    /// The totals of the volume after this transaction.
    pub totals: Totals,
    /// Sequence number of the last record of the fold before.
    pub folded: u64,
    /// The changes in order, each with whether this transaction made it.
    pub changes: Vec<(Change, bool)>,
}

impl Delta {
    /// Returns the record's unit, with its checksum.
    ///
    /// # Panics
    /// If there are more changes than fit.
    pub fn encode(&self, measures: &Measures) -> Vec<u8> {
        let changes: Vec<u8> = (self.changes.iter())
            .flat_map(|(change, fresh)| change.encode(*fresh))
            .collect();
        assert!(
            changes.len() <= measures.changes_bytes(),
            "too many changes"
        );
        let fixed = Fixed {
            header: RecordHeader {
                magic: MAGIC.into(),
                ..self.header
            },
            totals: self.totals,
            folded: self.folded.into(),
            bytes: (changes.len() as u32).into(),
            spare: 0.into(),
        };
        let mut bytes = fixed.as_bytes().to_vec();
        bytes.extend_from_slice(&changes);
        bytes.resize(measures.unit_bytes as usize, 0);
        let crc = crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Parses the record in the bytes of unit `unit`.
    ///
    /// # Errors
    /// As [`super::Record::parse`].
    pub fn parse(bytes: &[u8], unit: u64, measures: &Measures) -> Result<Self, Malformed> {
        let bad = |problem: &str| Malformed::new("record of changes", problem);
        let (fixed, rest) = Fixed::read_from_prefix(bytes).map_err(|_| bad("cut short"))?;
        let header = fixed.header;
        if bytes.len() != measures.unit_bytes as usize {
            return Err(bad("cut short"));
        }
        if header.magic.get() != MAGIC || header.volume.get() != measures.volume {
            return Err(bad("none of this volume"));
        }
        let computed = crc32c(&bytes[4..]);
        if computed != header.crc.get() {
            let stored = header.crc.get();
            return Err(Malformed::checksum("record of changes", computed, stored));
        }
        header
            .check(unit, measures.units(), measures.pieces_and_slots())
            .map_err(|error| bad(&error.to_string()))?;
        if u64::from(header.piece.get()) < measures.pieces() {
            return Err(bad("a piece of the map"));
        }
        if header.count.get() != 1 || fixed.folded.get() > header.previous.get() {
            return Err(bad("of several records, or folded before it was written"));
        }
        let mut left = (rest.get(..fixed.bytes.get() as usize))
            .ok_or_else(|| bad("changes beyond its end"))?;
        let mut changes = Vec::new();
        while !left.is_empty() {
            let (change, fresh, rest) = Change::decode(left, measures)?;
            changes.push((change, fresh));
            left = rest;
        }
        Ok(Delta {
            header,
            totals: fixed.totals,
            folded: fixed.folded.get(),
            changes,
        })
    }
}
