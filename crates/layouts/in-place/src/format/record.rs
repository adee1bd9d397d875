//! A record of the journal: the sectors of metadata that a transaction changed. A
//! record is valid if its checksum is.

use super::{DiskUsage, Geometry, SECTOR_BYTES};
use varve_format::{Malformed, crc32c};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: u32 = u32::from_le_bytes(*b"VFJR");

/// The beginning of a record, 80 bytes; its runs follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RecordHeader {
    magic: U32,
    /// CRC-32C of every later byte of the record.
    crc: U32,
    tag: U64,
    mount_id: U64,
    /// Number of bytes written to the journal before the record.
    position: U64,
    /// Length of the record, in bytes.
    bytes: U32,
    /// Number of runs.
    runs: U32,
    /// The usage of the volume once the record is valid.
    usage: DiskUsage,
    /// Number of groups in the record.
    groups: U64,
    /// The position where the record before ends. This record begins there, or at the
    /// next beginning of the journal.
    follows: U64,
}
const _: () = assert!(size_of::<RecordHeader>() == 80);

/// A run of adjacent sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first sector.
    pub sector: u64,
    /// Number of sectors, at most 65,535.
    pub count: u16,
}

const RUN_BYTES: usize = 8;

fn front_bytes(runs: usize) -> usize {
    (size_of::<RecordHeader>() + runs * RUN_BYTES).next_multiple_of(SECTOR_BYTES)
}

/// Returns the length in bytes of a record of `sectors` sectors in `runs` runs, padded
/// to `unit`.
pub fn record_bytes(runs: usize, sectors: usize, unit: usize) -> usize {
    (front_bytes(runs) + sectors * SECTOR_BYTES).next_multiple_of(unit)
}

/// Identifies a record: its volume, its mount, and its place in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The volume's tag.
    pub tag: u64,
    /// The mount that writes it.
    pub mount_id: u64,
    /// Number of bytes written to the journal before the record.
    pub position: u64,
    /// The position where the record before ends.
    pub follows: u64,
}

impl RecordHeader {
    /// Writes the header and the runs of a record to `into`, which is as long as the
    /// record and already contains its sectors from [`Self::payload`] on.
    pub fn write(into: &mut [u8], identity: Identity, runs: &[Run], usage: DiskUsage, groups: u64) {
        let mut header = RecordHeader {
            magic: MAGIC.into(),
            crc: 0.into(),
            tag: identity.tag.into(),
            mount_id: identity.mount_id.into(),
            position: identity.position.into(),
            bytes: (into.len() as u32).into(),
            runs: (runs.len() as u32).into(),
            usage,
            groups: groups.into(),
            follows: identity.follows.into(),
        };
        let (front, rest) = into.split_at_mut(size_of::<RecordHeader>());
        for (slot, run) in rest.chunks_exact_mut(RUN_BYTES).zip(runs) {
            let packed = run.sector | u64::from(run.count) << 48;
            slot.copy_from_slice(&packed.to_le_bytes());
        }
        front.copy_from_slice(header.as_bytes());
        header.crc = crc32c(&into[8..]).into();
        into[..8].copy_from_slice(&header.as_bytes()[..8]);
    }

    /// Returns the offset of a record's sectors, in bytes.
    pub fn payload(runs: usize) -> usize {
        front_bytes(runs)
    }

    /// Returns the length of the record that begins with these bytes, if its identity
    /// is the expected one and the length is at most `most`.
    pub fn length(bytes: &[u8], identity: Identity, most: u64) -> Option<u64> {
        let (header, _) = RecordHeader::ref_from_prefix(bytes).ok()?;
        let found = Identity {
            tag: header.tag.get(),
            mount_id: header.mount_id.get(),
            position: header.position.get(),
            follows: header.follows.get(),
        };
        let length = u64::from(header.bytes.get());
        let fits = length.is_multiple_of(SECTOR_BYTES as u64) && (1024..=most).contains(&length);
        (header.magic.get() == MAGIC && found == identity && fits).then_some(length)
    }

    /// Parses a whole record: its runs, and the usage. Returns `None` if the checksum
    /// differs, because the power failed while the record was written.
    ///
    /// # Errors
    /// If the checksum is right and the content is not.
    pub fn parse(
        bytes: &[u8],
        geometry: &Geometry,
    ) -> Result<Option<(Vec<Run>, DiskUsage)>, Malformed> {
        let bad = |problem: String| Malformed::new("journal record", problem);
        let (header, rest) =
            RecordHeader::ref_from_prefix(bytes).map_err(|_| bad("too short".into()))?;
        if header.crc.get() != crc32c(&bytes[8..]) {
            return Ok(None);
        }
        let count = header.runs.get() as usize;
        if count > rest.len() / RUN_BYTES {
            return Err(bad(format!("{count} runs in {} bytes", bytes.len())));
        }
        let mut sectors = 0;
        let mut runs = Vec::with_capacity(count);
        for slot in rest.chunks_exact(RUN_BYTES).take(count) {
            let mut packed = [0; RUN_BYTES];
            packed.copy_from_slice(slot);
            let packed = u64::from_le_bytes(packed);
            let run = Run {
                sector: packed & ((1 << 48) - 1),
                count: (packed >> 48) as u16,
            };
            let end = run.sector + u64::from(run.count);
            if run.count == 0 || !(run.sector..end).all(|s| geometry.may_be_journalled(s)) {
                return Err(bad(format!("{run:?} is no place for metadata")));
            }
            sectors += usize::from(run.count);
            runs.push(run);
        }
        match front_bytes(count) + sectors * SECTOR_BYTES <= bytes.len() {
            true => Ok(Some((runs, header.usage))),
            false => Err(bad(format!("{sectors} sectors in {} bytes", bytes.len()))),
        }
    }
}
