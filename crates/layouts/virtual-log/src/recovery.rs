//! Recovery of a virtual log: from its tail, or from a search for it.
//!
//! Whoever keeps a map in a virtual log says how its records are read
//! ([`Threaded`]); what a root is, and when one counts, is decided here, for
//! the virtual log disk and for the file system on a virtual log alike.
//!
//! The root leads to every record above the older checkpoint, youngest first:
//! the first record met of each piece is its newest, older ones are dead. A
//! record that a branch names but that is not there any more had been
//! overwritten, and its room reused: it is needed by nobody. That none is
//! missing is known by count, as every record says how many pieces are live.
//!
//! If the tail record is not to be believed, every unit that may hold a record
//! is read. The newest transaction that is whole, records and data, is the
//! root's: at most one transaction is in doubt, because the next begins only
//! when its flush has returned. Its records name the root before, to fall back
//! on; if that is gone, its room was reused, so the newest was durable. What is
//! younger than the root is discarded.

mod scan;

use crate::format::NO_ROOT;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::error::VldError;
use crate::format::{RecordHeader, TailRecord};
use crate::virtual_log::VirtualLog;

/// Times that recovery reads what fails.
const READS: usize = 3;

/// How the log's tail was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// By the record written when the power went down.
    Tail,
    /// By reading every unit that may hold a record.
    Scan,
}

/// A volume whose map is kept by a virtual log, as recovery sees it.
pub trait Threaded {
    /// A record, decoded and checked.
    type Record: Clone;

    /// The medium's name, for messages.
    fn name(&self) -> String;

    /// Bytes of the medium.
    ///
    /// # Errors
    /// The medium's.
    fn read_bytes(&self, at: u64, into: &mut [u8]) -> varve_device::Result<()>;

    /// Bytes of a unit.
    fn unit_bytes(&self) -> u64;

    /// Units of the medium.
    fn units(&self) -> u64;

    /// Pieces of the map: the largest transaction has as many records.
    fn pieces(&self) -> u64;

    /// Where records may be.
    fn record_units(&self) -> Range<u64>;

    /// The record in a unit's bytes, if it is one.
    fn parse(&self, bytes: &[u8], unit: u64) -> Option<Self::Record>;

    /// What a record says before its entries.
    fn header<'r>(&self, record: &'r Self::Record) -> &'r RecordHeader;

    /// True if `record`, with `root` the youngest, was retired
    /// ([`VirtualLog::retire`]) and says nothing any more.
    fn is_retired(&self, _root: &Self::Record, _record: &Self::Record) -> bool {
        false
    }

    /// True if everything that the record's transaction wrote, and the record
    /// answers for, holds what it says.
    fn data_is_there(&self, record: &Self::Record) -> bool;

    /// The tail record, if there is a whole one.
    fn tail_record(&self) -> Option<TailRecord>;

    /// Something that must be there is not.
    fn damaged(&self, what: String) -> VldError {
        VldError::Damaged {
            device: self.name(),
            what,
        }
    }

    /// Reads, three times if need be: what fails once is not taken for lost.
    ///
    /// # Errors
    /// The first failure, if all fail.
    fn read_patiently(&self, at: u64, into: &mut [u8]) -> varve_device::Result<()> {
        let mut tries = (0..READS).map(|_| self.read_bytes(at, into));
        let first = tries.next().expect("one");
        first.or_else(|error| tries.find_map(Result::ok).ok_or(error))
    }

    /// The record in a unit, if it is one.
    fn record(&self, unit: u64) -> Option<Self::Record> {
        let mut bytes = vec![0; self.unit_bytes() as usize];
        self.read_patiently(unit * self.unit_bytes(), &mut bytes)
            .ok()?;
        self.parse(&bytes, unit)
    }
}

/// Where the log begins, and what is to be destroyed.
#[derive(Debug)]
struct Root {
    /// `None` if the checkpoints have all.
    at: Option<(u64, u64)>,
    discarded: Vec<u64>,
    /// The highest number that was given, as far as can be known.
    last_seq: u64,
    /// Units that could not be read.
    unreadable: Vec<u64>,
}

/// What recovery found of a log.
#[derive(Debug)]
pub struct Found<R> {
    /// The records kept.
    pub log: VirtualLog,
    /// The newest record of each piece that has one, youngest first: they
    /// amend the newest checkpoint.
    pub newest: Vec<R>,
    /// How the tail was found.
    pub source: Source,
    /// Records read by following branches.
    pub records_read: u64,
    /// The last record recovered; 0 if there is none above the checkpoints.
    pub tail_seq: u64,
    /// Units of records to be destroyed.
    pub discarded: Vec<u64>,
    /// Units that could not be read and may hold records.
    pub unreadable: Vec<u64>,
}

/// Finds the log above `checkpoints`: serial and last record reflected of each
/// of the two, `None` for one that is not whole.
///
/// # Errors
/// When what must be there, because it was durable, is not.
pub fn find<T: Threaded>(
    volume: &T,
    checkpoints: [Option<(u64, u64)>; 2],
) -> Result<Found<T::Record>, VldError> {
    let base = checkpoints.iter().flatten().max().map(|&(_, seq)| seq);
    let seq = base.unwrap_or(0);
    // How far down the log is sure to reach: with one checkpoint damaged or
    // half written, only to the other.
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
    // Of two failures the first one tells more.
    let built = built.reduce(|first, second| first.or_else(|first| second.map_err(|_| first)));
    built.expect("a root at least")
}

/// The root that the tail record names, if that is to be believed. A tail
/// older than the newest checkpoint was not cleared when it should have been.
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
    // A root that both checkpoints reflect is not needed, and perhaps not there.
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
    // Number to unit and parent.
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
