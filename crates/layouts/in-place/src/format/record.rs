//! A record of the journal: the sectors of metadata that a transaction changed. It
//! counts if its checksum does.

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
    /// Bytes written to the journal before it.
    position: U64,
    /// Bytes of the record.
    bytes: U32,
    /// Runs in it.
    runs: U32,
    /// What lives on the volume once it counts.
    usage: DiskUsage,
    /// Groups in it.
    groups: U64,
    /// Where the record before it ends. It lies right there, or at the journal's
    /// next beginning.
    follows: U64,
}
const _: () = assert!(size_of::<RecordHeader>() == 80);

/// Sectors behind each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first.
    pub sector: u64,
    /// How many, 65,535 at most.
    pub count: u16,
}

const RUN_BYTES: usize = 8;

fn front_bytes(runs: usize) -> usize {
    (size_of::<RecordHeader>() + runs * RUN_BYTES).next_multiple_of(SECTOR_BYTES)
}

/// Bytes of a record of so many sectors in so many runs, padded to `unit`.
pub fn record_bytes(runs: usize, sectors: usize, unit: usize) -> usize {
    (front_bytes(runs) + sectors * SECTOR_BYTES).next_multiple_of(unit)
}

/// Whose record, and where in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The volume's tag.
    pub tag: u64,
    /// The mount that writes it.
    pub mount_id: u64,
    /// Bytes written to the journal before it.
    pub position: u64,
    /// Where the record before it ends.
    pub follows: u64,
}

impl RecordHeader {
    /// Begins a record in `into`, which is as long as the record, and has its
    /// sectors behind `runs`; see [`Self::payload`].
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

    /// Where a record's sectors begin.
    pub fn payload(runs: usize) -> usize {
        front_bytes(runs)
    }

    /// How long the record is that begins with these bytes, if it is this one.
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

    /// Parses a whole record: its runs, and what lives with it. `None` if the
    /// checksum differs: the power went while it was written.
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
