//! The search for the log's tail in all units that may contain records.

use std::collections::BTreeMap;

use super::{Root, Threaded};
use crate::error::VldError;

/// Number of bytes that are read at once.
const PART: u64 = 1 << 20;

/// A record that was found.
struct Seen {
    /// Its units: more than one if a write failed and was repeated elsewhere.
    units: Vec<u64>,
    /// Sequence number of the first record of its transaction.
    first: u64,
    count: u32,
    /// Sequence number of the root before that.
    previous: u64,
}

/// The result of reading all units.
struct All {
    /// The records by sequence number.
    records: BTreeMap<u64, Seen>,
    /// Units that could not be read.
    unreadable: Vec<u64>,
}

/// Finds the newest complete transaction above `stop`, down to which the log certainly
/// reaches; `newer` is the last record that the newest checkpoint reflects. There may
/// be a second root, for the case that the first leads to a log with gaps.
///
/// # Errors
/// If a structure that was durable is missing.
pub(super) fn scan<T: Threaded>(finder: &T, stop: u64, newer: u64) -> Result<Vec<Root>, VldError> {
    let all = read_all(finder, stop);
    let seen = &all.records;
    let Some((&last, newest)) = seen.last_key_value() else {
        return Ok(vec![root(finder, &all, None, stop, newer)?]);
    };
    // The newest transaction is in doubt. The one before is durable, because the newest
    // began only when its flush had returned.
    let whole = group(seen, newest.first);
    let sound = |members: &Vec<u64>| members.iter().all(|&unit| data_is_there(finder, unit));
    // A checkpoint is written only over durable records, so the records that it
    // reflects count.
    if whole
        .as_ref()
        .is_some_and(|members| last <= newer || sound(members))
    {
        return Ok(vec![root(finder, &all, Some(last), stop, newer)?]);
    }
    let previous = newest.previous;
    let mut found = Vec::new();
    if previous <= stop {
        found.push(root(finder, &all, None, stop, newer)?);
    } else if let Some(before) = seen.get(&previous)
        && group(seen, before.first).is_some()
    {
        found.push(root(finder, &all, Some(previous), stop, newer)?);
    }
    // If space of the one before is reused, the newest was flushed. Blocks of it that
    // do not match have decayed since, and are errors when they are read.
    if whole.is_some() {
        found.push(root(finder, &all, Some(last), stop, newer)?);
    }
    if found.is_empty() {
        return Err(finder.damaged(format!(
            "the transaction of record {last} is incomplete, and so is that of record {previous}, \
             which was durable before"
        )));
    }
    Ok(found)
}

/// Returns the root at record `chosen`, or at the checkpoint at `stop` if there is
/// none.
fn root<T: Threaded>(
    finder: &T,
    all: &All,
    chosen: Option<u64>,
    stop: u64,
    newer: u64,
) -> Result<Root, VldError> {
    let reached = chosen.unwrap_or(stop);
    if reached < newer {
        return Err(finder.damaged(format!(
            "the newest checkpoint reflects record {newer}, the newest one found is {reached}"
        )));
    }
    let seen = &all.records;
    let discarded = seen.range(reached + 1..);
    let mut last_seq = seen.last_key_value().map_or(0, |(&seq, _)| seq);
    if !all.unreadable.is_empty() {
        // A transaction may be hidden in unreadable units: its numbers are not assigned
        // again.
        last_seq = last_seq.max(stop).max(newer) + finder.pieces();
    }
    Ok(Root {
        at: chosen.map(|seq| (seq, seen[&seq].units[0])),
        discarded: discarded.flat_map(|(_, seen)| seen.units.clone()).collect(),
        last_seq,
        unreadable: all.unreadable.clone(),
    })
}

/// Returns the units of a transaction's records, in order; `None` if a record is
/// missing.
fn group(seen: &BTreeMap<u64, Seen>, first: u64) -> Option<Vec<u64>> {
    let count = seen.range(first..).next().map(|(_, seen)| seen.count)?;
    (first..first + u64::from(count))
        .map(|seq| {
            let member = seen.get(&seq)?;
            (member.first == first && member.count == count).then_some(member.units[0])
        })
        .collect()
}

fn data_is_there<T: Threaded>(finder: &T, unit: u64) -> bool {
    let record = finder.record(unit);
    record.is_some_and(|record| finder.data_is_there(&record))
}

/// Returns every valid record above `stop`.
fn read_all<T: Threaded>(finder: &T, stop: u64) -> All {
    let unit_bytes = finder.unit_bytes();
    let (mut records, mut unreadable) = (BTreeMap::new(), Vec::new());
    let range = finder.record_units();
    let mut at = range.start * unit_bytes;
    let end = range.end * unit_bytes;
    while at < end {
        let length = PART.min(end - at) as usize;
        let mut part = vec![0; length];
        if finder.read_bytes(at, &mut part).is_err() {
            // An unreadable unit does not make its neighbours unreadable.
            for (nth, unit) in (0u64..).zip(part.chunks_exact_mut(unit_bytes as usize)) {
                let offset = at + nth * unit_bytes;
                if finder.read_patiently(offset, unit).is_err() {
                    unit.fill(0);
                    unreadable.push(offset / unit_bytes);
                }
            }
        }
        let first = at / unit_bytes;
        for (nth, bytes) in (0u64..).zip(part.chunks_exact(unit_bytes as usize)) {
            let Some(found) = finder.parse(bytes, first + nth) else {
                continue;
            };
            let header = finder.header(&found);
            if header.seq.get() > stop {
                let record = records.entry(header.seq.get()).or_insert_with(|| Seen {
                    units: Vec::new(),
                    first: header.first.get(),
                    count: header.count.get(),
                    previous: header.previous.get(),
                });
                record.units.push(first + nth);
            }
        }
        at += length as u64;
    }
    All {
        records,
        unreadable,
    }
}
