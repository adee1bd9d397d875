//! Mistakes between threads, planted: each must be caught, or the schedules
//! prove nothing.

use crate::stage::run;
use crate::{caches, cleaner, durability, group_commit, passages, transactions};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use varve_fs::planted::{Planted, with};

/// More than any of them has needed, by far.
const SCHEDULES_MAX: u64 = 4000;

/// Runs `story` with `bug` planted until it fails.
fn is_caught(bug: Planted, story: fn()) {
    let schedules = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&schedules);
    let counted = move || {
        counter.fetch_add(1, Relaxed);
        story();
    };
    let exploring = AssertUnwindSafe(|| run(1, SCHEDULES_MAX, counted));
    let caught = with(bug, || catch_unwind(exploring)).is_err();
    let schedules = schedules.load(Relaxed);
    assert!(caught, "{bug:?} was not caught in {schedules} schedules");
    eprintln!("{bug:?}: schedule {schedules}");
}

#[test]
fn a_lost_wake_up_is_caught() {
    is_caught(Planted::WakeUpLost, durability::story);
}

#[test]
fn a_flush_that_covers_what_came_later_is_caught() {
    is_caught(Planted::FlushCoversLater, durability::story);
}

#[test]
fn an_fsync_content_with_an_earlier_capture_is_caught() {
    is_caught(Planted::EarlierCapture, group_commit::story);
}

#[test]
fn an_inode_loaded_twice_is_caught() {
    is_caught(Planted::LoadedTwice, caches::story);
}

#[test]
fn a_fetch_that_was_overtaken_is_caught() {
    is_caught(Planted::OvertakenFetch, caches::story);
}

#[test]
fn a_way_that_is_not_looked_at_again_is_caught() {
    is_caught(Planted::TrailUnchecked, passages::story);
    is_caught(Planted::TrailUnchecked, passages::removal);
}

#[test]
fn a_move_that_is_not_checked_again_is_caught() {
    is_caught(Planted::MoveUnchecked, cleaner::story);
}

#[test]
fn commits_that_are_answered_too_early_are_caught() {
    is_caught(Planted::CommitUnflushed, transactions::commits);
    is_caught(Planted::MemberWithoutData, transactions::commits);
    is_caught(Planted::ReadsUndurable, transactions::readers);
}

#[test]
fn locks_that_are_kept_or_given_up_too_early_are_caught() {
    is_caught(Planted::LocksKept, transactions::counters);
    is_caught(Planted::LocksBeforeMerge, transactions::counters);
}
