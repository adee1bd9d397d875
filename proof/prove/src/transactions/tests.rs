//! Tests of the judge: handmade histories, each with one error, and correct ones.

use super::history::{Action, Anomaly, Level, Outcome, Record};
use super::judge;

fn r(object: u32, values: &[u64]) -> Action {
    Action::Read {
        object,
        values: values.to_vec(),
    }
}

fn w(object: u32, value: u64) -> Action {
    Action::Append { object, value }
}

/// Returns records that all happened at the same time.
fn at_once(all: &[&[Action]]) -> Vec<Record> {
    let record = |actions: &&[Action]| Record {
        begun: 0,
        ended: 100,
        actions: actions.to_vec(),
        outcome: Outcome::Committed,
    };
    all.iter().map(record).collect()
}

/// Returns records that each began after the one before had ended.
fn in_turn(all: &[&[Action]]) -> Vec<Record> {
    let mut records = at_once(all);
    for (at, record) in records.iter_mut().enumerate() {
        (record.begun, record.ended) = (at as u64 * 2, at as u64 * 2 + 1);
    }
    records
}

/// Checks which anomaly each level finds.
#[track_caller]
fn finds(records: &[Record], snapshot: Option<Anomaly>, serializable: Option<Anomaly>) {
    for (level, anomaly) in [
        (Level::Snapshot, snapshot),
        (Level::Serializable, serializable),
    ] {
        let judgement = judge(records, level);
        let found: Vec<_> = judgement.found.iter().map(|found| found.anomaly).collect();
        let expected: Vec<_> = anomaly.into_iter().collect();
        assert_eq!(found, expected, "{level:?}: {:?}", judgement.found);
    }
}

#[test]
fn one_after_the_other_is_right() {
    let records = in_turn(&[
        &[r(1, &[]), w(1, 1), w(2, 2)],
        &[r(1, &[1]), r(2, &[2]), w(1, 3), r(1, &[1, 3])],
        &[r(1, &[1, 3]), r(2, &[2])],
    ]);
    finds(&records, None, None);
    assert!(judge(&records, Level::Serializable).edges >= 4);
}

#[test]
fn who_ran_at_once_may_come_in_any_order() {
    // The second saw nothing of the first, and precedes it.
    let records = at_once(&[&[w(1, 1), w(2, 2)], &[r(1, &[]), r(2, &[])], &[r(2, &[2])]]);
    finds(&records, None, None);
}

#[test]
fn dirty_reads() {
    let mut records = at_once(&[&[w(1, 1)], &[r(1, &[1])]]);
    records[0].outcome = Outcome::Aborted;
    let aborted = Some(Anomaly::AbortedRead);
    finds(&records, aborted, aborted);
    // The end of the first is unknown. Another transaction saw it, so it happened.
    records[0].outcome = Outcome::Unknown;
    finds(&records, None, None);
    // An aborted transaction may have seen anything.
    records[1].outcome = Outcome::Aborted;
    records[0].outcome = Outcome::Aborted;
    finds(&records, None, None);
}

#[test]
fn a_value_in_between() {
    let records = at_once(&[&[w(1, 1), w(1, 2)], &[r(1, &[1])], &[r(1, &[1, 2])]]);
    let judgement = judge(&records, Level::Snapshot);
    assert!(judgement.has(Anomaly::IntermediateRead));
    // A transaction may see its own intermediate value.
    let records = at_once(&[&[w(1, 1), r(1, &[1]), w(1, 2)], &[r(1, &[1, 2])]]);
    finds(&records, None, None);
}

#[test]
fn reads_that_disagree() {
    let unrepeatable = Some(Anomaly::Unrepeatable);
    let records = at_once(&[&[w(1, 1)], &[r(1, &[]), r(1, &[1])]]);
    finds(&records, unrepeatable, unrepeatable);
    let records = at_once(&[&[w(1, 1), r(1, &[])]]);
    let judgement = judge(&records, Level::Snapshot);
    assert!(judgement.has(Anomaly::Unrepeatable), "its own is missing");
}

#[test]
fn garbage() {
    let garbage = Some(Anomaly::Garbage);
    finds(&at_once(&[&[r(1, &[7])]]), garbage, garbage);
    finds(&at_once(&[&[w(2, 7)], &[r(1, &[7])]]), garbage, garbage);
    let records = at_once(&[&[w(1, 7)], &[r(1, &[7, 7])]]);
    finds(&records, garbage, garbage);
}

#[test]
fn updates_that_are_lost() {
    let lost = Some(Anomaly::LostUpdate);
    // Both saw the empty list and appended.
    let records = at_once(&[
        &[r(1, &[]), w(1, 1)],
        &[r(1, &[]), w(1, 2)],
        &[r(1, &[1, 2])],
    ]);
    finds(&records, lost, lost);
    // One of the appends is missing afterwards.
    let mut records = at_once(&[&[r(1, &[]), w(1, 1)], &[r(1, &[]), w(1, 2)], &[r(1, &[2])]]);
    (records[2].begun, records[2].ended) = (200, 201);
    finds(&records, lost, lost);
    // The two reads saw different orders.
    let records = at_once(&[&[w(1, 1)], &[w(1, 2)], &[r(1, &[1])], &[r(1, &[2])]]);
    let divergent = Some(Anomaly::DivergentOrder);
    finds(&records, divergent, divergent);
}

#[test]
fn writes_that_interleave() {
    let records = at_once(&[
        &[w(1, 1), w(2, 4)],
        &[w(1, 2), w(2, 3)],
        &[r(1, &[1, 2]), r(2, &[3, 4])],
    ]);
    let dirty = Some(Anomaly::DirtyWrite);
    finds(&records, dirty, dirty);
}

#[test]
fn information_in_a_circle() {
    let records = at_once(&[&[w(1, 1), r(2, &[2])], &[w(2, 2), r(1, &[1])]]);
    let circular = Some(Anomaly::CircularFlow);
    finds(&records, circular, circular);
}

#[test]
fn another_seen_in_part() {
    let records = at_once(&[&[w(1, 1), w(2, 2)], &[r(1, &[1]), r(2, &[])], &[r(2, &[2])]]);
    let skew = Some(Anomaly::ReadSkew);
    finds(&records, skew, skew);
}

#[test]
fn write_skew_is_for_snapshots_alone() {
    let records = at_once(&[
        &[r(1, &[]), r(2, &[]), w(1, 1)],
        &[r(1, &[]), r(2, &[]), w(2, 2)],
        &[r(1, &[1]), r(2, &[2])],
    ]);
    finds(&records, None, Some(Anomaly::WriteSkew));
    assert_eq!(judge(&records, Level::Snapshot).skews, 1);
}

#[test]
fn two_who_saw_two_others_in_two_orders() {
    let records = at_once(&[
        &[w(1, 1)],
        &[w(2, 2)],
        &[r(1, &[1]), r(2, &[])],
        &[r(1, &[]), r(2, &[2])],
        &[r(1, &[1]), r(2, &[2])],
    ]);
    let fork = Some(Anomaly::LongFork);
    finds(&records, fork, fork);
}

#[test]
fn something_old_is_seen() {
    let records = in_turn(&[&[w(1, 1)], &[r(1, &[])], &[r(1, &[1])]]);
    let stale = Some(Anomaly::Stale);
    finds(&records, stale, stale);
    // The same through a third transaction.
    let records = in_turn(&[
        &[w(1, 1)],
        &[w(2, 2)],
        &[r(1, &[]), r(2, &[2])],
        &[r(1, &[1])],
    ]);
    finds(&records, stale, stale);
}
