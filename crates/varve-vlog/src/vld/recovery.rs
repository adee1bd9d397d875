//! Recovery: the map from the tail, or from a search for it.
//!
//! The root leads to every record above the older checkpoint, youngest first:
//! the first record met of each piece is its newest, older ones are dead. A
//! record that a branch names but that is not there any more had been
//! overwritten, and its room reused: it is needed by nobody. That none is
//! missing is known by count, as every record says how many pieces are live.
//!
//! If the tail record is not to be believed, every unit of the eager space is
//! read. The newest transaction that is whole, records and data, is the root's:
//! at most one transaction is in doubt, because the next begins only when its
//! flush has returned. Its records name the root before, to fall back on; if
//! that is gone, its room was reused, so the newest was durable. What is younger
//! than the root is discarded.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::VldError;
use crate::format::{Entry, Layout, MapRecord, Superblock, TailRecord};
use crate::map::Map;
use crate::medium::Medium;
use crate::virtual_log::VirtualLog;

use super::checkpoint::{self, Checkpoint};
use super::scan::scan;
use super::state::NO_ROOT;

/// Times that recovery reads what fails.
const READS: usize = 3;

/// How the log's tail was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// By the record written when the power went down.
    Tail,
    /// By reading the whole eager space.
    Scan,
}

/// What recovery did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// How the tail was found.
    pub source: Source,
    /// Map records read by following branches.
    pub records_read: u64,
    /// Records younger than the newest whole transaction: never acknowledged,
    /// now gone.
    pub records_discarded: u64,
    /// The last record that the checkpoint used reflects; 0 for none.
    pub checkpoint_seq: u64,
    /// The last record recovered; 0 if there is none above the checkpoints.
    pub tail_seq: u64,
    /// Checkpoints that could not be read.
    pub checkpoints_damaged: u32,
}

/// Everything that recovery found.
#[derive(Debug)]
pub(super) struct Recovered {
    pub map: Map,
    pub log: VirtualLog,
    pub checkpoints: [Option<(u64, u64)>; 2],
    /// Units of records to be destroyed.
    pub discarded: Vec<u64>,
    /// Units that could not be read and may hold records.
    pub unreadable: Vec<u64>,
    pub report: Recovery,
}

/// A medium with a known layout, and its checkpoints' numbers.
pub(super) struct Finder<'a, M: Medium> {
    pub medium: &'a M,
    pub layout: &'a Layout,
}

/// Where the log begins, and what is to be destroyed.
pub(super) struct Root {
    /// `None` if the checkpoints have all.
    pub at: Option<(u64, u64)>,
    pub discarded: Vec<u64>,
    /// The highest number that was given, as far as can be known.
    pub last_seq: u64,
    /// Units that could not be read.
    pub unreadable: Vec<u64>,
}

/// Finds the layout and recovers map and log.
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
    let base = checkpoints
        .into_iter()
        .flatten()
        .max_by_key(|found| found.serial);
    let damaged = numbers.iter().filter(|number| number.is_none()).count() as u32;
    let seq = base.as_ref().map_or(0, |base| base.seq);
    // How far down the log is sure to reach: with one checkpoint damaged or
    // half written, only to the other.
    let stop = match numbers {
        [Some((_, one)), Some((_, other))] => one.min(other),
        _ => seq,
    };
    let from_tail = finder
        .tail(seq)
        .and_then(|root| finder.build(root, base.as_ref(), numbers, stop).ok());
    let (source, mut recovered) = match from_tail {
        Some(recovered) => (Source::Tail, recovered),
        None => {
            let roots = scan(&finder, stop, seq)?;
            let built = roots
                .into_iter()
                .map(|root| finder.build(root, base.as_ref(), numbers, stop));
            // Of two failures the first one tells more.
            let built =
                built.reduce(|first, second| first.or_else(|first| second.map_err(|_| first)));
            (Source::Scan, built.expect("a root at least")?)
        }
    };
    recovered.report.source = source;
    recovered.report.checkpoints_damaged = damaged;
    Ok((layout, recovered))
}

/// Reads, three times if need be: what fails once is not taken for lost.
pub(super) fn read<M: Medium>(medium: &M, at: u64, into: &mut [u8]) -> varve_device::Result<()> {
    let mut tries = (0..READS).map(|_| medium.read(at, into));
    let first = tries.next().expect("one");
    first.or_else(|error| tries.find_map(Result::ok).ok_or(error))
}

/// The superblock at the beginning, or its copy at the end.
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
    // The copy is in the last whole block, whatever a block is.
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

impl<M: Medium> Finder<'_, M> {
    pub fn damaged(&self, what: String) -> VldError {
        VldError::Damaged {
            device: self.medium.name(),
            what,
        }
    }

    /// The record in a unit, if it is one.
    pub fn record(&self, unit: u64) -> Option<MapRecord> {
        let mut bytes = vec![0; self.layout.unit_bytes as usize];
        read(self.medium, self.layout.unit_byte(unit), &mut bytes).ok()?;
        MapRecord::parse(&bytes, unit, self.layout).ok()
    }

    /// The root that the tail record names, if that is to be believed. A tail
    /// older than the newest checkpoint was not cleared when it should have been.
    fn tail(&self, checkpoint_seq: u64) -> Option<Root> {
        let mut block = vec![0; self.layout.block_bytes as usize];
        let at = self.layout.block_byte(self.layout.tail_block());
        read(self.medium, at, &mut block).ok()?;
        let tail = TailRecord::parse(&block, self.layout.volume).ok()?;
        let (seq, unit) = (tail.seq.get(), tail.unit.get());
        if seq < checkpoint_seq || seq >= u64::MAX / 2 {
            return None;
        }
        let at = match unit {
            NO_ROOT => None,
            unit if unit < self.layout.units() => Some((seq, unit)),
            _ => return None,
        };
        Some(Root {
            at,
            discarded: Vec::new(),
            last_seq: seq,
            unreadable: Vec::new(),
        })
    }

    /// Follows the branches from the root, and lays what the live records say
    /// over the newest checkpoint.
    fn build(
        &self,
        root: Root,
        base: Option<&Checkpoint>,
        checkpoints: [Option<(u64, u64)>; 2],
        stop: u64,
    ) -> Result<Recovered, VldError> {
        let base_seq = base.map_or(0, |base| base.seq);
        let mut map = base.map_or_else(|| Map::new(self.layout), |base| base.map.clone());
        let mut report = Recovery {
            source: Source::Scan,
            records_read: 0,
            records_discarded: root.discarded.len() as u64,
            checkpoint_seq: base_seq,
            tail_seq: root.at.map_or(0, |(seq, _)| seq),
            checkpoints_damaged: 0,
        };
        let next = root.last_seq.max(base_seq) + 1;
        // A root that both checkpoints reflect is not needed, and perhaps not there.
        let Some((root_seq, root_unit)) = root.at.filter(|(seq, _)| *seq > stop) else {
            if base.is_none() {
                return Err(
                    self.damaged("neither a checkpoint nor a map record is left".to_owned())
                );
            }
            return Ok(Recovered {
                map,
                log: VirtualLog::new(next, stop, base_seq),
                checkpoints,
                discarded: root.discarded,
                unreadable: root.unreadable,
                report,
            });
        };
        let first = self
            .record(root_unit)
            .filter(|found| found.header.seq.get() == root_seq);
        let Some(first) = first else {
            let what = format!("record {root_seq}, the log's root, is not in unit {root_unit}");
            return Err(self.damaged(what));
        };
        let header = first.header;
        let (floor, newer) = (header.floor.get(), header.newer.get());
        let expected = match stop {
            _ if stop == floor => header.live.get(),
            _ if stop == newer => header.live_newer.get(),
            _ => {
                return Err(self.damaged(format!(
                    "record {root_seq} was written over checkpoints at {floor} and {newer}; of \
                     those found, the older is at {stop}"
                )));
            }
        };
        let mut log = VirtualLog::new(next, stop, base_seq);
        let mut seen = BTreeSet::new();
        // Number to unit and parent.
        let mut frontier = BTreeMap::from([(root_seq, (root_unit, None))]);
        while let Some((seq, (unit, parent))) = frontier.pop_last() {
            let found = match parent {
                None => Some(first.clone()),
                Some(_) => self.record(unit),
            };
            report.records_read += 1;
            let Some(found) = found.filter(|found| found.header.seq.get() == seq) else {
                continue;
            };
            let piece = found.header.piece.get();
            log.restore(seq, unit, piece, parent);
            if seen.insert(piece) {
                map.set_piece(piece, found.entries.iter().map(|&(entry, _)| entry));
            }
            for branch in found.header.branches {
                let (older, unit) = (branch.seq.get(), branch.unit.get());
                if older > stop {
                    // The youngest record that names it is its parent.
                    frontier.entry(older).or_insert((unit, Some(seq)));
                }
            }
        }
        if seen.len() != expected as usize {
            return Err(self.damaged(format!(
                "record {root_seq} counts {expected} live map records, {} are found",
                seen.len()
            )));
        }
        Ok(Recovered {
            map,
            log,
            checkpoints,
            discarded: root.discarded,
            unreadable: root.unreadable,
            report,
        })
    }

    /// True if every block that the transaction wrote holds what it says.
    pub fn data_is_there(&self, record: &MapRecord) -> bool {
        let mut bytes = vec![0; self.layout.block_bytes as usize];
        let fresh = record
            .entries
            .iter()
            .filter(|(entry, fresh)| *fresh && entry.block != 0);
        fresh.into_iter().all(|&(Entry { block, crc }, _)| {
            let at = self.layout.block_byte(u64::from(block));
            read(self.medium, at, &mut bytes).is_ok() && crate::format::crc32c(&bytes) == crc
        })
    }
}
