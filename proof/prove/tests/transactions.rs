//! Transactions on the real log: histories of threads, power cuts, full volumes.

use varve_fs::Isolation;
use varve_prove::random::{announce_seed, scaled};
use varve_prove::transactions::{crashes, full, interleaved};

fn in_threads(isolation: Isolation, subpage: bool) {
    let seed = announce_seed("--test transactions in_threads", 1);
    let (mut committed, mut conflicts, mut skews, mut edges) = (0, 0, 0, 0);
    for round in 0..scaled(4) {
        let plan = interleaved::Plan {
            subpage,
            ..interleaved::Plan::quick(isolation, seed.wrapping_mul(1000) + round)
        };
        let ran = interleaved::run(&plan).unwrap_or_else(|text| panic!("round {round}: {text}"));
        let found = &ran.judgement.found;
        assert!(found.is_empty(), "round {round}: {found:#?}");
        committed += ran.judgement.committed;
        conflicts += ran.conflicts;
        skews += ran.judgement.skews;
        edges += ran.judgement.edges;
    }
    eprintln!(
        "{isolation:?}: {committed} committed, {conflicts} gave up, {edges} dependencies, {skews} write skews"
    );
    assert!(committed > 200 && conflicts > 10, "they did not meet");
}

#[test]
fn snapshots_in_threads() {
    in_threads(Isolation::Snapshot, false);
}

#[test]
fn serializable_ones_in_threads() {
    in_threads(Isolation::Serializable, false);
}

#[test]
fn locking_ones_in_threads() {
    in_threads(Isolation::Locking, false);
}

#[test]
fn locking_ones_in_threads_by_spans_of_bytes() {
    in_threads(Isolation::Locking, true);
}

#[test]
fn each_is_whole_or_absent_wherever_the_power_is_cut() {
    let seed = announce_seed("--test transactions whole_or_absent", 1);
    let mut done = crashes::Done::default();
    for story in 0..scaled(12).max(12) {
        let plan = crashes::Plan::quick(seed);
        crashes::explore(&plan, story, &mut done).unwrap_or_else(|failure| panic!("{failure}"));
    }
    eprintln!("{done:?}");
    assert!(
        done.handed > 12 && done.dropped > 12,
        "nothing was handed over"
    );
    assert!(done.commits > 30 && done.together > 1 && done.counts.states > 1000);
}

#[test]
fn on_a_full_volume_they_are_refused_as_a_whole_and_may_remove() {
    let seed = announce_seed("--test transactions full", 1);
    let mut done = full::Done::default();
    for volume in 0..scaled(6) {
        full::run(seed, volume, &mut done).unwrap_or_else(|failure| panic!("{failure}"));
    }
    eprintln!("{done:?}");
    let refused = done.refused_early + done.refused_at_commit;
    assert!(done.fitted > 0 && refused > 10 && done.removals > 20);
}
