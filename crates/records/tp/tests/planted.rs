//! The crash explorer finds every planted fault.

use crate::common::copying;
use crate::common::explore::{Effort, explore};
use crate::common::on_device;
use crate::common::snapshots;
use crate::common::wherever_pages_lie;
use std::panic::{AssertUnwindSafe, catch_unwind};
use varve_tp::planted::{Planted, with};
use varve_tp::{Placement, TornPages};

/// Explores workloads with a fault until one shows it, starting with seed 1000 plus
/// `first`.
fn caught(planted: Planted, placement: Placement, first: u64) -> Option<String> {
    let effort = Effort {
        placement,
        transactions: 60,
        nested: 12,
        draws: 8,
    };
    for seed in (first..20).chain(0..first) {
        let run = || with(planted, || explore(1000 + seed, effort));
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(_)) => {}
            Ok(Err(what)) => return Some(what),
            Err(_) => return Some("panicked".into()),
        }
    }
    None
}

/// Runs snapshots with a fault until one shows it.
fn caught_by_snapshots(planted: Planted) -> Option<String> {
    for seed in 0..10 {
        let run = || with(planted, || snapshots::run(2000 + seed, 120));
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(())) => {}
            Ok(Err(what)) => return Some(what),
            Err(_) => return Some("panicked".into()),
        }
    }
    None
}

/// The sweep finds every planted fault of a device's table of files.
#[test]
fn every_mistake_on_a_device_is_caught() {
    use Planted::*;
    std::panic::set_hook(Box::new(|_| {}));
    let effort = on_device::Effort {
        placement: Placement::Shadow,
        steps: 20,
        nested: 200,
    };
    let mut missed = Vec::new();
    let mistakes = [
        TableOverNewest,
        TableBeforeFiles,
        NameNotDurable,
        TableUnflushed,
        GrowthNotNoted,
        GapNotZeroed,
    ];
    for mistake in mistakes {
        let found = (1..=5).find_map(|seed| {
            let run = || with(mistake, || on_device::sweep(seed, effort));
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(_)) => None,
                Ok(Err(what)) => Some(what),
                Err(_) => Some("panicked".into()),
            }
        });
        match found {
            Some(what) => eprintln!("{mistake:?}: {what}"),
            None => missed.push(mistake),
        }
    }
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "missed: {missed:?}");
}

#[test]
fn every_mistake_is_caught() {
    use Planted::*;
    std::panic::set_hook(Box::new(|_| {}));
    // Some faults are found quickly by one workload only, which runs first.
    let mistakes = [
        (CheckpointBeforeLog, 0),
        (CommitBeforeSync, 0),
        (UndoSkipped, 0),
        (SplitLost, 9),
        (CheckpointTooNew, 0),
        (CheckpointBeforePages, 0),
        (PageInPlace, 0),
        (SlotReusedEarly, 0),
        (LogRecycledEarly, 2),
        (IndexEntryLost, 5),
        (NeighbourLost, 5),
        (BatchUnchecked, 0),
        (LifeNotRenewed, 1),
        (UndoRepeated, 0),
        (RedoTwice, 0),
        (ActiveForgotten, 0),
        (CheckpointUnsynced, 0),
    ];
    let mut missed = Vec::new();
    let in_place = [
        (PageBeforeLog, TornPages::Never),
        (PageBeforeLog, TornPages::LogImages),
        (ImageLeftOut, TornPages::LogImages),
        (ImageTooOld, TornPages::LogImages),
        (ImagesNotRestored, TornPages::LogImages),
        (CheckpointBeforePages, TornPages::Never),
        (CheckpointBeforePages, TornPages::LogImages),
        (CheckpointTooNew, TornPages::Never),
    ];
    for (mistake, torn) in in_place {
        match caught(mistake, Placement::InPlace(torn), 0) {
            Some(what) => eprintln!("{mistake:?}, {torn:?}: {what}"),
            None => missed.push(mistake),
        }
    }
    for (mistake, first) in mistakes {
        match caught(mistake, Placement::Shadow, first) {
            Some(what) => eprintln!("{mistake:?}: {what}"),
            None => missed.push(mistake),
        }
    }
    let mistakes = [
        LaterCommitSeen,
        VersionDroppedEarly,
        ChainFreedEarly,
        VersionNotNoted,
        LaterCommitOverwritten,
    ];
    for mistake in mistakes {
        match caught_by_snapshots(mistake) {
            Some(what) => eprintln!("{mistake:?}: {what}"),
            None => missed.push(mistake),
        }
    }
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "missed: {missed:?}");
}

/// The tests of copies find every planted fault of copies.
#[test]
fn every_mistake_with_copies_is_caught() {
    use Planted::*;
    std::panic::set_hook(Box::new(|_| {}));
    let in_pieces = |_| wherever_pages_lie(|| copying::backup_at_work(24 * 4096));
    let mistakes: [(Planted, fn(u64)); 8] = [
        (PageCopiedTorn, in_pieces),
        (SlotsNotHeld, copying::standby_follows),
        (LogNotHeld, copying::archive_leads_everywhere),
        (ArchivedEarly, copying::crashes_of_original),
        (BackupNamedEarly, copying::crashes_of_original),
        (GapTaken, copying::misfits_are_named),
        (ReceiptUnsynced, copying::crashes_of_standby),
        (IdentityKept, copying::standby_follows),
    ];
    let missed: Vec<Planted> = mistakes
        .into_iter()
        .filter(|(mistake, test)| {
            // There are more rounds for faults that need a race of threads.
            (1..=30).all(|seed| {
                let run = || with(*mistake, || test(seed));
                catch_unwind(AssertUnwindSafe(run)).is_ok()
            })
        })
        .map(|(mistake, _)| mistake)
        .collect();
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "missed: {missed:?}");
}
