//! Every crash point of generated workloads.

use crate::common::explore::{Effort, explore};
use varve_tp::{Placement, TornPages};

fn explored(placement: Placement, rounds: u64) {
    let seed = crate::common::seed("whatever_a_crash_leaves");
    let effort = Effort {
        placement,
        transactions: 60,
        nested: 60,
        draws: 4,
    };
    let given = std::env::var("VARVE_ROUNDS");
    let given = given.ok().and_then(|rounds| rounds.parse().ok());
    let mut looked = 0;
    for round in 0..given.unwrap_or(rounds) {
        looked += explore(seed + round, effort).unwrap_or_else(|what| panic!("{what}"));
    }
    eprintln!("{looked} images");
    assert!(looked > 200 * rounds, "{looked} images");
}

#[test]
fn whatever_a_crash_leaves_is_a_committed_state() {
    explored(Placement::Shadow, 3);
}

#[test]
fn whatever_a_crash_leaves_is_a_committed_state_in_place() {
    explored(Placement::InPlace(TornPages::LogImages), 2);
}

#[test]
fn whatever_a_crash_leaves_is_a_committed_state_in_place_untorn() {
    explored(Placement::InPlace(TornPages::Never), 1);
}

/// On a device without a file system the table of files is also affected by the crash.
#[test]
fn whatever_a_crash_leaves_of_a_device_is_whole() {
    use crate::common::on_device::{Effort, sweep};
    let seed = crate::common::seed("whatever_a_crash_leaves_of_a_device_is_whole");
    let given = std::env::var("VARVE_ROUNDS");
    let given = given.ok().and_then(|rounds| rounds.parse().ok());
    for (placement, steps) in crate::common::PLACEMENTS.into_iter().zip([40, 30, 30]) {
        let mut looked = 0;
        for round in 0..given.unwrap_or(1) {
            let effort = Effort {
                placement,
                steps,
                nested: 50,
            };
            looked += sweep(seed + round, effort).unwrap_or_else(|what| panic!("{what}"));
        }
        eprintln!("{placement:?}: {looked} states");
        assert!(looked > 500, "{looked} states");
    }
}

/// The pages of large values are freed after the commit, and a restart completes that.
#[test]
fn what_a_commit_has_to_free_is_freed_by_the_restart() {
    use crate::common::{TABLE, content, small};
    use std::sync::Arc;
    use varve_tp::Durability;
    use varve_tp::storage::{MemoryStorage, Survival};
    let storage = MemoryStorage::new();
    let environment = small().open_storage(Arc::new(storage.clone())).unwrap();
    let transaction = environment.begin_write();
    let table = transaction.open_table(TABLE).unwrap();
    for number in 0..1_100u32 {
        table.insert(&number.to_be_bytes(), &[1; 1100]).unwrap();
    }
    transaction.commit().unwrap();
    environment.close().unwrap();
    // The record numbers files in the order of their names.
    let renewed = MemoryStorage::with_files(storage.files());
    let environment = small().open_storage(Arc::new(renewed.clone())).unwrap();
    let before = renewed.files();
    renewed.record();
    let transaction = environment.begin_write();
    let table = transaction.open_table(TABLE).unwrap();
    for number in 0..1_100u32 {
        assert!(table.remove(&number.to_be_bytes()).unwrap());
    }
    transaction.commit_with(Durability::Buffered).unwrap();
    environment.sync().unwrap();
    let mut crashes = renewed.crashes(before);
    let (mut finished, mut kept) = (0, 0);
    let mut point = 0;
    while crashes.step() {
        point += 1;
        // The commit is among the last requests.
        if point % 16 != 0 && point + 50 < crashes.len() {
            continue;
        }
        let image = crashes.image(Survival::All);
        let again = Arc::new(MemoryStorage::with_files(image));
        let environment = small().open_storage(again).unwrap();
        finished += environment.recovery().finished;
        let verified = environment.verify().unwrap();
        assert_eq!(verified.lost_pages, 0, "{verified:?}");
        match content(&environment).len() {
            0 => assert_eq!(verified.overflow_pages, 0),
            1_100 => kept += 1,
            some => panic!("{some} of 1,100"),
        }
    }
    assert!(finished > 0 && kept > 0, "{finished} {kept}");
}

/// Log that a process has written and not synced remains in the host's memory when the
/// process is killed. A restart reads it there and builds on it, so it must sync it
/// first.
#[test]
fn a_process_dies_and_then_the_power_goes() {
    use crate::common::{TABLE, content, small};
    use std::sync::Arc;
    use varve_tp::Durability;
    use varve_tp::storage::{MemoryStorage, Survival};
    for placement in crate::common::PLACEMENTS {
        let storage = MemoryStorage::new();
        let mut options = small();
        options.placement(placement);
        let environment = options.open_storage(Arc::new(storage.clone())).unwrap();
        let before = storage.files();
        let storage = MemoryStorage::with_files(before.clone());
        drop(environment);
        storage.record();
        let environment = options.open_storage(Arc::new(storage.clone())).unwrap();
        for number in 0..150u32 {
            let transaction = environment.begin_write();
            let table = transaction.open_table(TABLE).unwrap();
            table.insert(&number.to_be_bytes(), &[7; 900]).unwrap();
            transaction.commit_with(Durability::Buffered).unwrap();
        }
        std::mem::forget(environment);
        storage.mark(1);
        let environment = options.open_storage(Arc::new(storage.clone())).unwrap();
        let kept = content(&environment);
        assert!(kept.len() > 50, "some of the log was written");
        drop(environment);
        storage.mark(2);
        let mut crashes = storage.crashes(before);
        let mut looked = 0;
        while crashes.step() {
            if crashes.mark() == 0 {
                continue;
            }
            for survival in [Survival::None, Survival::All] {
                let image = Arc::new(MemoryStorage::with_files(crashes.image(survival)));
                let environment = small().open_storage(image).unwrap();
                let found = content(&environment);
                // Each commit is whole, and none is missing before another.
                assert!(kept.iter().take(found.len()).eq(found.iter()));
                if crashes.mark() == 2 {
                    assert!(found == kept, "{placement:?}");
                }
                looked += 1;
            }
        }
        assert!(looked > 20, "{looked}");
    }
}
