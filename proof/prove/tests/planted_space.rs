//! Tests of the cases in `space.rs`: bugs planted in the accounts must be found by at
//! most as many cases as `space.rs` draws. Otherwise a passing run means nothing.

use varve_fs::planted::{self, Planted};
use varve_prove::random::announce_seed;
use varve_prove::space::{Case, Logs, VirtualLogs, Volumes, run};

/// Largest number of cases to draw; `space.rs` draws no fewer.
const CASES: u64 = 150;

/// Checks that each bug is found. The first case to try is one that has found it before.
fn are_found(bugs: &[Planted], volumes: &dyn Volumes, seed: u64, first: u64) {
    let mut missed = Vec::new();
    for &bug in bugs {
        let order = (first..CASES).chain(0..first);
        let cases = order.map(|nth| (nth, Case::nth_small(seed, nth)));
        // A bug is planted on one thread alone, so only cases with one thread are used.
        // Volumes filled by names are the hardest for the accounts; other volumes may
        // miss the bug and take longer.
        let mut cases =
            cases.filter(|(_, case)| case.threads == 1 && case.shape.device_bytes < 16 << 20);
        let found = cases.find_map(|(nth, case)| {
            let failed = planted::with(bug, || run(&case, volumes)).err()?;
            Some((nth, failed))
        });
        match found {
            Some((nth, failed)) => eprintln!("{bug:?}, by case {nth}: {failed}"),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn mistakes_in_the_accounts_of_the_log_are_found() {
    let seed = announce_seed("--features planted --test planted_space", 1);
    are_found(&Planted::OF_ROOM, &Logs, seed, 38);
}

#[test]
fn mistakes_in_the_accounts_of_the_virtual_log_are_found() {
    let seed = announce_seed("--features planted --test planted_space", 1);
    are_found(&[Planted::RoomUncounted], &VirtualLogs, seed, 0);
}
