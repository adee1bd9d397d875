//! Recovery of a virtual log: from its tail, or from a search for it.
//!
//! The owner of a map in a virtual log defines how its records are read ([`Threaded`]).
//! This module defines what a root is and when it counts, both for the virtual log disk
//! and for the file system on a virtual log.
//!
//! The root leads to every record above the older checkpoint, the youngest first. The
//! first record met of each piece is its newest, older ones are dead. A record that a
//! branch names but that is no longer there had been overwritten, and its space was
//! reused: it is not needed. Missing records are detected by count, because every
//! record has the number of live pieces.
//!
//! If the tail record is not valid, every unit that may contain a record is read. The
//! newest transaction of which all records and all data are intact has the root. At
//! most one transaction is in doubt, because the next one begins only when its flush
//! has returned. Its records name the previous root, which is the fallback. If that
//! root is gone, its space was reused, so the newest transaction was durable. Records
//! younger than the root are discarded.

mod scan;

use crate::format::NO_ROOT;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::error::VldError;
use crate::format::{RecordHeader, TailRecord};
use crate::virtual_log::VirtualLog;

/// Number of attempts to read.
const READS: usize = 3;

/// The method by which the log's tail was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The record that was written when the volume was parked names the tail.
    Tail,
    /// Every unit that may contain a record was read.
    Scan,
}

/// A volume whose map is kept by a virtual log, as recovery needs it.
pub trait Threaded {
    /// A record, decoded and checked.
    type Record: Clone;

    /// Returns the medium's name, for messages.
    fn name(&self) -> String;

    /// Reads bytes of the medium.
    ///
    /// # Errors
    /// The errors of the medium.
    fn read_bytes(&self, at: u64, into: &mut [u8]) -> varve_device::Result<()>;

    /// Returns the size of a unit, in bytes.
    fn unit_bytes(&self) -> u64;

    /// Returns the number of units of the medium.
    fn units(&self) -> u64;

    /// Returns the number of pieces of the map, which is also the number of records of
    /// the largest transaction.
    fn pieces(&self) -> u64;

    /// Returns the units that may contain records.
    fn record_units(&self) -> Range<u64>;

    /// Parses the record in the bytes of a unit, if it is one.
    fn parse(&self, bytes: &[u8], unit: u64) -> Option<Self::Record>;

    /// Returns the header of a record.
    fn header<'r>(&self, record: &'r Self::Record) -> &'r RecordHeader;

    /// Returns true if `record`, with `root` the youngest, was retired
    /// ([`VirtualLog::retire`]) and is not needed any more.
    fn is_retired(&self, _root: &Self::Record, _record: &Self::Record) -> bool {
        false
    }

    /// Returns true if the blocks that the record's transaction wrote, as far as the
    /// record has entries for them, match their checksums.
    fn data_is_there(&self, record: &Self::Record) -> bool;

    /// Returns the tail record, if it is valid.
    fn tail_record(&self) -> Option<TailRecord>;

    /// Creates the error about a structure that is missing.
    fn damaged(&self, what: String) -> VldError {
        VldError::Damaged {
            device: self.name(),
            what,
        }
    }

    /// Reads up to three times, because a read that fails once may succeed later.
    ///
    /// # Errors
    /// The first failure, if all attempts fail.
    fn read_patiently(&self, at: u64, into: &mut [u8]) -> varve_device::Result<()> {
        let mut tries = (0..READS).map(|_| self.read_bytes(at, into));
        let first = tries.next().expect("one");
        first.or_else(|error| tries.find_map(Result::ok).ok_or(error))
    }

    /// Returns the record in a unit, if it is one.
    fn record(&self, unit: u64) -> Option<Self::Record> {
        let mut bytes = vec![0; self.unit_bytes() as usize];
        self.read_patiently(unit * self.unit_bytes(), &mut bytes)
            .ok()?;
        self.parse(&bytes, unit)
    }
}

/// The beginning of a log, and the records to be destroyed.
#[derive(Debug)]
struct Root {
    /// Sequence number and unit; `None` if the checkpoints contain everything.
    at: Option<(u64, u64)>,
    discarded: Vec<u64>,
    /// The highest number that may have been assigned.
    last_seq: u64,
    /// Units that could not be read.
    unreadable: Vec<u64>,
}

/// The result of recovery.
#[derive(Debug)]
pub struct Found<R> {
    /// The records kept.
    pub log: VirtualLog,
    /// The newest record of each piece that has one, the youngest first: they amend the
    /// newest checkpoint.
    pub newest: Vec<R>,
    /// The method by which the tail was found.
    pub source: Source,
    /// Number of records read by following branches.
    pub records_read: u64,
    /// The last record recovered; 0 if there is none above the checkpoints.
    pub tail_seq: u64,
    /// Units of the records to be destroyed.
    pub discarded: Vec<u64>,
    /// Units that could not be read and may contain records.
    pub unreadable: Vec<u64>,
}

/// Finds the log above `checkpoints`: for each of the two its serial and the last
/// record that it reflects, or `None` if it is not valid.
///
/// # Errors
/// If a structure that was durable is missing.
pub fn find<T: Threaded>(
    volume: &T,
    checkpoints: [Option<(u64, u64)>; 2],
) -> Result<Found<T::Record>, VldError> {
    let base = checkpoints.iter().flatten().max().map(|&(_, seq)| seq);
    let seq = base.unwrap_or(0);
    // The log reaches at least down to this number. If one checkpoint is damaged or
    // half written, it reaches only down to the other one.
    let stop = match checkpoints {
        [Some((_, one)), Some((_, other))] => one.min(other),
        _ => seq,
    };
    let from_tail =
        tail(volume, seq).and_then(|root| follow(volume, root, base, stop, Source::Tail).ok());
    if let Some(found) = from_tail {
        return Ok(found);
    }
    let roots = scan::scan(volume, stop, seq)?;
    let built = roots
        .into_iter()
        .map(|root| follow(volume, root, base, stop, Source::Scan));
    // Of two failures the first one is more informative.
    let built = built.reduce(|first, second| first.or_else(|first| second.map_err(|_| first)));
    built.expect("a root at least")
}

/// Returns the root that the tail record names, if the record is valid. A tail older
/// than the newest checkpoint should have been cleared and does not count.
fn tail<T: Threaded>(volume: &T, checkpoint_seq: u64) -> Option<Root> {
    let tail = volume.tail_record()?;
    let (seq, unit) = (tail.seq.get(), tail.unit.get());
    if seq < checkpoint_seq || seq >= u64::MAX / 2 {
        return None;
    }
    let at = match unit {
        NO_ROOT => None,
        unit if unit < volume.units() => Some((seq, unit)),
        _ => return None,
    };
    Some(Root {
        at,
        discarded: Vec::new(),
        last_seq: seq,
        unreadable: Vec::new(),
    })
}

/// Follows the branches from the root.
fn follow<T: Threaded>(
    volume: &T,
    root: Root,
    base: Option<u64>,
    stop: u64,
    source: Source,
) -> Result<Found<T::Record>, VldError> {
    let base_seq = base.unwrap_or(0);
    let next = root.last_seq.max(base_seq) + 1;
    let mut found = Found {
        log: VirtualLog::new(next, stop, base_seq),
        newest: Vec::new(),
        source,
        records_read: 0,
        tail_seq: root.at.map_or(0, |(seq, _)| seq),
        discarded: root.discarded,
        unreadable: root.unreadable,
    };
    // A root that both checkpoints reflect is not needed, and may be gone.
    let Some((root_seq, root_unit)) = root.at.filter(|(seq, _)| *seq > stop) else {
        return match base {
            Some(_) => Ok(found),
            None => Err(volume.damaged("neither a checkpoint nor a map record is left".to_owned())),
        };
    };
    let first = volume
        .record(root_unit)
        .filter(|first| volume.header(first).seq.get() == root_seq);
    let Some(first) = first else {
        let what = format!("record {root_seq}, the log's root, is not in unit {root_unit}");
        return Err(volume.damaged(what));
    };
    let header = volume.header(&first);
    let (floor, newer) = (header.floor.get(), header.newer.get());
    let expected = match stop {
        _ if stop == floor => header.live.get(),
        _ if stop == newer => header.live_newer.get(),
        _ => {
            return Err(volume.damaged(format!(
                "record {root_seq} was written over checkpoints at {floor} and {newer}; of \
                 those found, the older is at {stop}"
            )));
        }
    };
    let mut seen = BTreeSet::new();
    // Maps each sequence number to its unit and parent.
    let mut frontier = BTreeMap::from([(root_seq, (root_unit, None))]);
    while let Some((seq, (unit, parent))) = frontier.pop_last() {
        let record = match parent {
            None => Some(first.clone()),
            Some(_) => volume.record(unit),
        };
        found.records_read += 1;
        let Some(record) = record.filter(|record| volume.header(record).seq.get() == seq) else {
            continue;
        };
        let header = volume.header(&record);
        let piece = header.piece.get();
        let retired = volume.is_retired(&first, &record);
        found.log.restore((seq, unit), piece, parent, retired);
        for branch in header.branches {
            let (older, unit) = (branch.seq.get(), branch.unit.get());
            if older > stop {
                // The youngest record that names it is its parent.
                frontier.entry(older).or_insert((unit, Some(seq)));
            }
        }
        if !retired && seen.insert(piece) {
            found.newest.push(record);
        }
    }
    if seen.len() != expected as usize {
        return Err(volume.damaged(format!(
            "record {root_seq} counts {expected} live map records, {} are found",
            seen.len()
        )));
    }
    Ok(found)
}
