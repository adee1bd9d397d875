//! A map record: one piece of the inode map, and a list of the units that its
//! transaction wrote.
//!
//! It is one unit: the virtual log's header, the totals of the volume, the runs of
//! units that the transaction wrote with their checksums, the entries. A transaction
//! counts only if its runs match their checksums, so that data, inodes and records
//! share one flush. If a transaction has more runs than fit in its records, the runs
//! are flushed before the records, and not named.

use super::{Entry, Malformed, Measures, crc32c, entries};
use varve_fs::Usage;
use varve_vlog::format::RecordHeader;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: u32 = u32::from_le_bytes(*b"VLFM");

/// The totals of a volume.
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
pub struct Totals {
    inodes: U64,
    blocks: U64,
    sectors: U64,
    /// Number of stored blocks of data, without unwritten ones.
    stored: U64,
}

impl Totals {
    /// Creates the totals from the usage that the file system counts and the number of
    /// blocks stored.
    pub fn new(usage: Usage, stored: u64) -> Self {
        Totals {
            inodes: usage.inodes.into(),
            blocks: usage.blocks.into(),
            sectors: usage.sectors.into(),
            stored: stored.into(),
        }
    }

    /// Returns the usage that the file system counts.
    pub fn usage(&self) -> Usage {
        Usage {
            inodes: self.inodes.get(),
            blocks: self.blocks.get(),
            sectors: self.sectors.get(),
        }
    }

    /// Returns the number of blocks stored.
    pub fn stored(&self) -> u64 {
        self.stored.get()
    }
}

/// A run of adjacent units that a transaction wrote.
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
pub struct Run {
    /// The first unit.
    pub unit: U32,
    /// Number of units; 0 for no run.
    pub units: U32,
    /// CRC-32C of the units.
    pub crc: U32,
}

const HEADER: usize = size_of::<RecordHeader>();
const FIXED: usize = HEADER + size_of::<Totals>();
const _: () = assert!(HEADER == 144 && FIXED == 176);

/// Returns the number of runs that a record of `unit_bytes` bytes can name.
pub(super) fn runs_per_record(unit_bytes: u32) -> usize {
    unit_bytes as usize / 64 - 1
}

/// Returns the number of entries of a whole piece.
pub(super) fn entries_per_record(unit_bytes: u32) -> usize {
    let runs = runs_per_record(unit_bytes) * size_of::<Run>();
    (unit_bytes as usize - FIXED - runs) / size_of::<Entry>()
}

/// A decoded map record.
#[derive(Clone, Debug)]
pub struct Record {
    /// The header of the virtual log.
    pub header: RecordHeader,
    /// The totals of the volume after this transaction.
    pub totals: Totals,
    /// The runs that the transaction wrote, as far as this record names them.
    pub runs: Vec<Run>,
    /// The entries of the piece.
    pub entries: Vec<Entry>,
}

impl Record {
    /// Returns the record's unit, with its checksum.
    ///
    /// # Panics
    /// If there are more entries or runs than fit.
    pub fn encode(&self, measures: &Measures) -> Vec<u8> {
        assert!(
            self.runs.len() <= measures.runs_per_record()
                && self.entries.len() <= measures.entries_per_record(),
            "a record of {} runs and {} entries",
            self.runs.len(),
            self.entries.len()
        );
        let header = RecordHeader {
            magic: MAGIC.into(),
            ..self.header
        };
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(self.totals.as_bytes());
        bytes.extend_from_slice(self.runs.as_bytes());
        bytes.resize(FIXED + measures.runs_per_record() * size_of::<Run>(), 0);
        bytes.extend_from_slice(self.entries.as_bytes());
        bytes.resize(measures.unit_bytes as usize, 0);
        let crc = crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Parses the record in the bytes of unit `unit`.
    ///
    /// # Errors
    /// If there is no record of this volume, or one that is damaged, belongs to another
    /// unit, or contradicts itself.
    pub fn parse(bytes: &[u8], unit: u64, measures: &Measures) -> Result<Self, Malformed> {
        let bad = |problem: &str| Malformed::new("map record", problem);
        if bytes.len() != measures.unit_bytes as usize {
            return Err(bad("cut short"));
        }
        let (header, _) = RecordHeader::read_from_prefix(bytes).map_err(|_| bad("cut short"))?;
        if header.magic.get() != MAGIC || header.volume.get() != measures.volume {
            return Err(bad("none of this volume"));
        }
        let computed = crc32c(&bytes[4..]);
        if computed != header.crc.get() {
            return Err(Malformed::checksum(
                "map record",
                computed,
                header.crc.get(),
            ));
        }
        header
            .check(unit, measures.units(), measures.pieces_and_slots())
            .map_err(|error| bad(&error.to_string()))?;
        if u64::from(header.piece.get()) >= measures.pieces() {
            return Err(bad("a slot for changes"));
        }
        let (totals, rest) =
            Totals::read_from_prefix(&bytes[HEADER..]).map_err(|_| bad("cut short"))?;
        let room = measures.runs_per_record();
        let runs: Vec<Run> = entries::<Run>(rest)[..room]
            .iter()
            .copied()
            .take_while(|run| run.units.get() > 0)
            .collect();
        let within = |run: &Run| {
            let (unit, units) = (u64::from(run.unit.get()), u64::from(run.units.get()));
            let eager = measures.eager_units();
            eager.contains(&unit) && unit + units <= eager.end
        };
        if !runs.iter().all(within) {
            return Err(bad("a run outside of the volume"));
        }
        let count = measures.entries_of(header.piece.get());
        let found = &entries::<Entry>(&rest[room * size_of::<Run>()..])[..count];
        for entry in found {
            entry.check(&measures.eager_units())?;
        }
        Ok(Record {
            header,
            totals,
            runs,
            entries: found.to_vec(),
        })
    }
}
