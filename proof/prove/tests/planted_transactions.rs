//! Tests of the transaction harness: each planted bug must be found by the tests that run
//! without it.
//!
//! ```sh
//! cargo test -p varve-prove --features planted --test planted_transactions -- --nocapture
//! ```

use std::time::{Duration, Instant};
use varve_fs::Isolation;
use varve_fs::planted::{self, Planted};
use varve_prove::transactions::{crashes, interleaved};

/// Largest number of stories with power cuts per bug.
const STORIES: u64 = 40;
/// Largest number of rounds with threads per bug, because the host decides the order of
/// the threads.
const ROUNDS: u64 = 60;

fn by_cuts(bug: Planted) -> Option<String> {
    (0..STORIES).find_map(|story| {
        let mut done = crashes::Done::default();
        let plan = crashes::Plan {
            bug: Some(bug),
            ..crashes::Plan::quick(1)
        };
        let failure = planted::with(bug, || crashes::explore(&plan, story, &mut done)).err()?;
        let states = done.counts.states;
        let told = failure.account.last().cloned().unwrap_or_default();
        Some(format!(
            "story {story}, state {states}: {:?}: {told}",
            failure.promise
        ))
    })
}

fn by_threads(bug: Planted, isolation: Isolation, subpage: bool) -> Option<String> {
    (0..ROUNDS).find_map(|round| {
        let plan = interleaved::Plan {
            subpage,
            bug: Some(bug),
            patience: Duration::from_secs(1),
            outsiders: bug != Planted::LocksKept,
            ..interleaved::Plan::quick(isolation, round)
        };
        match interleaved::run(&plan) {
            Err(text) => Some(format!("round {round}: {text}")),
            Ok(ran) => {
                let found = ran.judgement.found.first()?;
                Some(format!(
                    "round {round}: {:?}: {}",
                    found.anomaly, found.told
                ))
            }
        }
    })
}

fn cast(bug: Planted) -> Option<String> {
    match bug {
        Planted::CommitTorn
        | Planted::CommitUnflushed
        | Planted::ReadsUndurable
        | Planted::MemberWithoutData
        | Planted::ChildChangesKept => by_cuts(bug),
        Planted::NamesUnvalidated => by_threads(bug, Isolation::Snapshot, false),
        Planted::StaleOverlay | Planted::AppendedWhereItEnded => {
            by_threads(bug, Isolation::Locking, true)
        }
        Planted::LocksBeforeMerge | Planted::LocksKept | Planted::ChildLocksReleased => {
            by_threads(bug, Isolation::Locking, false)
        }
        other => panic!("{other:?} is planted elsewhere"),
    }
}

#[test]
fn every_planted_bug_is_caught() {
    let mut missed = Vec::new();
    for bug in Planted::OF_TRANSACTIONS {
        let begun = Instant::now();
        let caught = cast(bug);
        let took = begun.elapsed().as_secs_f64();
        let told = caught.as_deref().unwrap_or("MISSED");
        eprintln!("{bug:?}: {took:.1} s: {told:.300}");
        if caught.is_none() {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
