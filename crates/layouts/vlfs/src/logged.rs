//! The records of a VLFS volume for the virtual log's recovery, and the check of the
//! data that they name.

use crate::format::{Delta, Measures, Record, Totals};
use crate::lookup::Store;
use varve_device::Crc32c;
use varve_format::SECTOR;
use varve_fs::planted::{self, Planted};
use varve_vlog::format::{RecordHeader, TailRecord};
use varve_vlog::recovery::Threaded;

/// Number of bytes read at once.
const PART: u64 = 1 << 20;

/// A record of the log.
#[derive(Clone, Debug)]
pub enum Logged {
    /// A record of a piece of the inode map, by a full transaction.
    Map(Record),
    /// A record of changes, by a brief transaction.
    Changes(Delta),
}

impl Logged {
    /// Returns the totals of the volume after the record's transaction.
    pub fn totals(&self) -> Totals {
        match self {
            Logged::Map(record) => record.totals,
            Logged::Changes(delta) => delta.totals,
        }
    }

    /// Returns the record of changes, if it is one.
    pub fn changes(&self) -> Option<&Delta> {
        match self {
            Logged::Changes(delta) => Some(delta),
            Logged::Map(_) => None,
        }
    }
}

impl Threaded for Store {
    type Record = Logged;

    fn name(&self) -> String {
        self.medium.name()
    }

    fn read_bytes(&self, at: u64, into: &mut [u8]) -> varve_device::Result<()> {
        self.medium.read(at, into)
    }

    fn unit_bytes(&self) -> u64 {
        self.measures.unit_bytes.into()
    }

    fn units(&self) -> u64 {
        self.measures.units()
    }

    fn pieces(&self) -> u64 {
        self.measures.pieces_and_slots()
    }

    fn record_units(&self) -> std::ops::Range<u64> {
        self.measures.record_units()
    }

    fn parse(&self, bytes: &[u8], unit: u64) -> Option<Logged> {
        let of_changes = || Delta::parse(bytes, unit, &self.measures);
        let record = Record::parse(bytes, unit, &self.measures).map(Logged::Map);
        record.or_else(|_| of_changes().map(Logged::Changes)).ok()
    }

    fn header<'r>(&self, record: &'r Logged) -> &'r RecordHeader {
        match record {
            Logged::Map(record) => &record.header,
            Logged::Changes(delta) => &delta.header,
        }
    }

    /// Returns true for a record of changes if a full transaction is younger.
    fn is_retired(&self, root: &Logged, record: &Logged) -> bool {
        let folded = match root {
            Logged::Map(record) => record.header.seq.get(),
            Logged::Changes(delta) => delta.folded,
        };
        matches!(record, Logged::Changes(delta) if delta.header.seq.get() <= folded)
    }

    fn data_is_there(&self, record: &Logged) -> bool {
        if planted::is(Planted::UncheckedPayload) {
            return true;
        }
        match record {
            Logged::Map(record) => record.runs.iter().all(|run| {
                let bytes = u64::from(run.units.get()) * u64::from(self.measures.unit_bytes);
                let at = self.measures.unit_byte(run.unit.get().into());
                self.holds(at, bytes, run.crc.get())
            }),
            Logged::Changes(delta) => {
                let fresh = delta.changes.iter().filter(|(_, fresh)| *fresh);
                fresh.filter_map(|(change, _)| change.place()).all(|place| {
                    let bytes = u64::from(place.sectors) * SECTOR;
                    self.holds(place.sector * SECTOR, bytes, place.crc)
                })
            }
        }
    }

    fn tail_record(&self) -> Option<TailRecord> {
        let mut block = vec![0; self.measures.block_bytes as usize];
        let at = self.measures.block_byte(Measures::TAIL_BLOCK);
        self.read_patiently(at, &mut block).ok()?;
        TailRecord::parse(&block, self.measures.volume).ok()
    }
}

impl Store {
    /// Returns true if `bytes` bytes at `at` have the expected checksum.
    fn holds(&self, mut at: u64, bytes: u64, expected: u32) -> bool {
        let mut crc = Crc32c::default();
        let end = at + bytes;
        while at < end {
            let mut part = vec![0; PART.min(end - at) as usize];
            if self.read_patiently(at, &mut part).is_err() {
                return false;
            }
            crc.update(&part);
            at += part.len() as u64;
        }
        crc.value() == expected
    }
}
