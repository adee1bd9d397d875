//! The search for the log's tail wherever records may be.

use std::collections::BTreeMap;

use super::{Root, Threaded};
use crate::error::VldError;

/// Bytes read at once.
const PART: u64 = 1 << 20;

/// A record seen.
struct Seen {
    /// Where: more than once if writing it failed and it was tried elsewhere.
    units: Vec<u64>,
    /// Its transaction.
    first: u64,
    count: u32,
    /// The root before that.
    previous: u64,
}

/// Everything seen.
struct All {
    /// By number.
    records: BTreeMap<u64, Seen>,
    /// Units that could not be read.
    unreadable: Vec<u64>,
}

/// Finds the newest whole transaction above `stop`, down to which the log is
/// sure to reach; `newer` is what the newest checkpoint reflects. There may be a
/// second answer, for when the first leads to a log with holes.
///
/// # Errors
/// When what must be there, because it was durable, is not.
pub(super) fn scan<T: Threaded>(finder: &T, stop: u64, newer: u64) -> Result<Vec<Root>, VldError> {
    let all = read_all(finder, stop);
    let seen = &all.records;
    let Some((&last, newest)) = seen.last_key_value() else {
        return Ok(vec![root(finder, &all, None, stop, newer)?]);
    };
    // The newest transaction is in doubt; the one before is durable, as the
    // newest was begun only when its flush had returned.
    let whole = group(seen, newest.first);
    let sound = |members: &Vec<u64>| members.iter().all(|&unit| data_is_there(finder, unit));
    // A checkpoint is written over what is durable: what it reflects counts.
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
    // If room of the one before is reused, the newest had been flushed: what
    // fails of its data has decayed since, and is an error where it is read.
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

/// The root at record `chosen`; at the checkpoint at `stop` if there is none.
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
        // A transaction may be hidden there: its numbers are not given again.
        last_seq = last_seq.max(stop).max(newer) + finder.pieces();
    }
    Ok(Root {
        at: chosen.map(|seq| (seq, seen[&seq].units[0])),
        discarded: discarded.flat_map(|(_, seen)| seen.units.clone()).collect(),
        last_seq,
        unreadable: all.unreadable.clone(),
    })
}

/// The units of a transaction's records, in order; `None` if one is missing.
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

/// Every sound record above `stop`, by number.
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
            // A bad place hides its own unit, not its neighbours.
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
