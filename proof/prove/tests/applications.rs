//! Applications under crashes, at the size for continuous integration. If `/dev/fuse` or
//! a program is missing, the test prints a message and is skipped. In continuous
//! integration it fails instead.

use varve_prove::applications::{
    Application, Explored, Extent, Git, LogAndManifest, Replace, Sqlite, explore, missing,
};
use varve_prove::random::{announce_seed, scaled};

/// Number of steps of one recording.
const STEPS: u64 = 24;
/// Number of power cuts in one recording.
const CUTS: usize = 40;

fn skipped(application: &dyn Application) -> bool {
    let Some(missing) = missing(application) else {
        return false;
    };
    assert!(std::env::var_os("CI").is_none(), "CI must have {missing}");
    eprintln!("SKIPPED: {missing}");
    true
}

/// Explores the number of recordings that the scale asks for.
fn survives(test: &str, application: &dyn Application) {
    let seed = announce_seed(test, 1);
    if skipped(application) {
        return;
    }
    for recording in 0..scaled(1) {
        let extent = Extent {
            steps: STEPS,
            cuts: CUTS,
            seed: seed + recording,
            lie_one_in: 0,
        };
        match explore(application, &extent) {
            Ok(Explored { counts, .. }) => eprintln!("{}: {counts:?}", application.name()),
            Err(failure) => panic!("{failure}"),
        }
    }
}

#[test]
fn sqlite_with_a_write_ahead_log() {
    survives("sqlite_with_a_write_ahead_log", &Sqlite::WAL);
}

#[test]
fn sqlite_with_a_rollback_journal() {
    survives("sqlite_with_a_rollback_journal", &Sqlite::ROLLBACK);
}

#[test]
fn sqlite_without_syncs_in_strict_order() {
    survives("sqlite_without_syncs_in_strict_order", &Sqlite::UNSYNCED);
}

#[test]
fn git_commits_and_packs() {
    survives("git_commits_and_packs", &Git::SYNCED);
}

#[test]
fn files_replaced_by_renaming() {
    survives("files_replaced_by_renaming", &Replace::SYNCED);
}

#[test]
fn files_replaced_without_syncs() {
    survives("files_replaced_without_syncs", &Replace::CLOSED);
}

#[test]
fn a_log_and_a_manifest() {
    survives("a_log_and_a_manifest", &LogAndManifest::SYNCED);
}

#[test]
fn a_log_and_a_manifest_without_syncs_in_strict_order() {
    survives(
        "a_log_and_a_manifest_without_syncs_in_strict_order",
        &LogAndManifest::UNSYNCED,
    );
}

/// A device whose flushes do nothing loses acknowledged data, and the check of each
/// application must find that. A check that cannot fail proves nothing.
#[test]
fn lying_flushes_are_noticed() {
    let seed = announce_seed("lying_flushes_are_noticed", 1);
    for application in varve_prove::applications::all() {
        if skipped(application) {
            continue;
        }
        let extent = Extent {
            steps: STEPS,
            cuts: CUTS / 2,
            seed,
            lie_one_in: 4,
        };
        let explored = explore(application, &extent);
        let explored = explored.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(
            explored.broken > 0,
            "{}: nothing noticed",
            application.name()
        );
    }
}
