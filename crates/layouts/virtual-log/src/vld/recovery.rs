//! Recovery of a virtual log disk: the newest checkpoint's map, amended by the
//! log's newest records ([`crate::recovery`]).

use crate::error::VldError;
use crate::format::{Entry, Layout, MapRecord, RecordHeader, Superblock, TailRecord};
use crate::map::Map;
use crate::medium::Medium;
use crate::recovery::{self, Threaded};
use crate::virtual_log::VirtualLog;

use super::checkpoint;

pub use crate::recovery::Source;

/// Number of attempts to read.
const READS: usize = 3;

/// A report of the recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// The method by which the tail was found.
    pub source: Source,
    /// Number of map records read by following branches.
    pub records_read: u64,
    /// Number of records younger than the newest complete transaction, which were never
    /// acknowledged and are destroyed.
    pub records_discarded: u64,
    /// The last record that the checkpoint used reflects; 0 for none.
    pub checkpoint_seq: u64,
    /// The last record recovered; 0 if there is none above the checkpoints.
    pub tail_seq: u64,
    /// Number of checkpoints that could not be read.
    pub checkpoints_damaged: u32,
}

/// The result of recovery.
#[derive(Debug)]
pub(super) struct Recovered {
    pub map: Map,
    pub log: VirtualLog,
    pub checkpoints: [Option<(u64, u64)>; 2],
    /// Units of the records to be destroyed.
    pub discarded: Vec<u64>,
    /// Units that could not be read and may contain records.
    pub unreadable: Vec<u64>,
    pub report: Recovery,
}

/// A medium with a known layout.
pub(super) struct Finder<'a, M: Medium> {
    pub medium: &'a M,
    pub layout: &'a Layout,
}

/// Finds the layout, and recovers map and log.
pub(super) fn recover<M: Medium>(medium: &M) -> Result<(Layout, Recovered), VldError> {
    let layout = find_layout(medium)?;
    let finder = Finder {
        medium,
        layout: &layout,
    };
    let checkpoints = [0, 1].map(|region| checkpoint::read(medium, &layout, region));
    let numbers = [0, 1].map(|region: usize| {
        let checkpoint = checkpoints[region].as_ref();
        checkpoint.map(|checkpoint| (checkpoint.serial, checkpoint.seq))
    });
    let found = recovery::find(&finder, numbers)?;
    let base = checkpoints
        .into_iter()
        .flatten()
        .max_by_key(|found| found.serial);
    let report = Recovery {
        source: found.source,
        records_read: found.records_read,
        records_discarded: found.discarded.len() as u64,
        checkpoint_seq: base.as_ref().map_or(0, |base| base.seq),
        tail_seq: found.tail_seq,
        checkpoints_damaged: numbers.iter().filter(|number| number.is_none()).count() as u32,
    };
    let mut map = base.map_or_else(|| Map::new(&layout), |base| base.map);
    for record in &found.newest {
        let entries = record.entries.iter().map(|&(entry, _)| entry);
        map.set_piece(record.header.piece.get(), entries);
    }
    let recovered = Recovered {
        map,
        log: found.log,
        checkpoints: numbers,
        discarded: found.discarded,
        unreadable: found.unreadable,
        report,
    };
    Ok((layout, recovered))
}

/// Reads up to three times, because a read that fails once may succeed later.
pub(super) fn read<M: Medium>(medium: &M, at: u64, into: &mut [u8]) -> varve_device::Result<()> {
    let mut tries = (0..READS).map(|_| medium.read(at, into));
    let first = tries.next().expect("one");
    first.or_else(|error| tries.find_map(Result::ok).ok_or(error))
}

/// Returns the layout in the superblock at the beginning, or in its copy at the end.
fn find_layout<M: Medium>(medium: &M) -> Result<Layout, VldError> {
    let geometry = medium.geometry();
    let step = u64::from(geometry.logical_block.max(512));
    let superblock = |at: u64| -> Result<Result<Layout, _>, VldError> {
        let mut bytes = vec![0; step as usize];
        read(medium, at, &mut bytes)?;
        Ok(Superblock::parse(&bytes).and_then(|found| Layout::of(&found)))
    };
    let fits = |layout: &Layout| {
        let bytes = layout.physical_blocks * u64::from(layout.block_bytes);
        bytes <= geometry.size && layout.unit_bytes >= geometry.logical_block
    };
    if geometry.size < step {
        let source = crate::format::FormatError::Short {
            length: geometry.size as usize,
        };
        let device = medium.name();
        return Err(VldError::NoVolume { device, source });
    }
    let source = match superblock(0)? {
        Ok(layout) if fits(&layout) => return Ok(layout),
        Ok(layout) => crate::format::FormatError::Field(format!(
            "a volume of {} blocks of {} bytes in units of {}, the medium has {} bytes",
            layout.physical_blocks, layout.block_bytes, layout.unit_bytes, geometry.size
        )),
        Err(source) => source,
    };
    // The copy is in the last whole block, whatever the block size.
    for power in 9..20 {
        let block_bytes = 1u64 << power;
        let blocks = geometry.size / block_bytes;
        let at = blocks.saturating_sub(1) * block_bytes;
        if blocks == 0 || !at.is_multiple_of(step) {
            continue;
        }
        if let Ok(layout) = superblock(at)?
            && fits(&layout)
            && layout.block_byte(layout.last_block()) == at
        {
            return Ok(layout);
        }
    }
    let device = medium.name();
    Err(VldError::NoVolume { device, source })
}

impl<M: Medium> Threaded for Finder<'_, M> {
    type Record = MapRecord;

    fn name(&self) -> String {
        self.medium.name()
    }

    fn read_bytes(&self, at: u64, into: &mut [u8]) -> varve_device::Result<()> {
        self.medium.read(at, into)
    }

    fn unit_bytes(&self) -> u64 {
        u64::from(self.layout.unit_bytes)
    }

    fn units(&self) -> u64 {
        self.layout.units()
    }

    fn pieces(&self) -> u64 {
        self.layout.pieces()
    }

    fn record_units(&self) -> std::ops::Range<u64> {
        let each = u64::from(self.layout.units_per_block());
        self.layout.eager_start() * each..self.layout.last_block() * each
    }

    fn parse(&self, bytes: &[u8], unit: u64) -> Option<MapRecord> {
        MapRecord::parse(bytes, unit, self.layout).ok()
    }

    fn header<'r>(&self, record: &'r MapRecord) -> &'r RecordHeader {
        &record.header
    }

    /// Returns true if every block that the transaction wrote matches its checksum.
    fn data_is_there(&self, record: &MapRecord) -> bool {
        let mut bytes = vec![0; self.layout.block_bytes as usize];
        let fresh = record
            .entries
            .iter()
            .filter(|(entry, fresh)| *fresh && entry.place != 0);
        fresh.into_iter().all(|&(Entry { place, crc }, _)| {
            let at = self.layout.place_byte(place);
            read(self.medium, at, &mut bytes).is_ok() && crate::format::crc32c(&bytes) == crc
        })
    }

    fn tail_record(&self) -> Option<TailRecord> {
        let mut block = vec![0; self.layout.block_bytes as usize];
        let at = self.layout.block_byte(self.layout.tail_block());
        read(self.medium, at, &mut block).ok()?;
        TailRecord::parse(&block, self.layout.volume).ok()
    }
}
