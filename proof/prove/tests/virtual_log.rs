//! Tests of VLFS: power cuts, the model, the full volume, decay of the medium.

use std::time::Instant;
use varve_prove::explorer::{Counts, Explorer, Plan};
use varve_prove::full;
use varve_prove::generator::{Kind, Profile};
use varve_prove::random::{announce_seed, scaled};
use varve_prove::reference::Course;
use varve_prove::virtual_log::VirtualLog;

fn explore(subject: &VirtualLog, plan: &Plan, workloads: u64, length: u64) -> Counts {
    let start = Instant::now();
    let plan = &Plan {
        profile: with_longest(plan.profile.clone()),
        ..plan.clone()
    };
    let explorer = Explorer::new(subject);
    for index in 0..workloads {
        if let Err(failure) = explorer.explore_generated(index, length, plan) {
            panic!("workload {index}\n{failure}");
        }
    }
    let counts = explorer.counts();
    let rate = counts.states as f64 / start.elapsed().as_secs_f64();
    eprintln!("{counts:?}, {rate:.0} states/s");
    counts
}

/// Returns the profile with extended attributes of the longest size that Linux allows.
fn with_longest(profile: Profile) -> Profile {
    Profile {
        xattr_bytes: 65_536,
        ..profile
    }
}

#[test]
fn power_cuts() {
    let seed = announce_seed("power_cuts", 1);
    let plan = Plan {
        units: vec![4096],
        ..Plan::quick(seed)
    };
    let counts = explore(&VirtualLog::default(), &plan, scaled(12), 40);
    assert!(counts.states > 500);
}

#[test]
fn power_cuts_with_units_of_a_sector() {
    let seed = announce_seed("power_cuts_with_units_of_a_sector", 1);
    let subject = VirtualLog::with_small_units();
    let plan = VirtualLog::in_sectors(Plan::quick(seed));
    let counts = explore(&subject, &plan, scaled(6), 40);
    assert!(counts.states > 300);
}

/// Volumes with one to three slots, which are all in use most of the time.
#[test]
fn power_cuts_with_few_slots() {
    let seed = announce_seed("power_cuts_with_few_slots", 1);
    for slots in 1..=3 {
        let subject = VirtualLog::with_small_units().with_slots(slots);
        let plan = VirtualLog::in_sectors(VirtualLog::churn(seed + slots));
        let counts = explore(&subject, &plan, scaled(1), 50);
        assert!(counts.states > 100);
    }
    let plan = VirtualLog::churn(seed);
    let counts = explore(&VirtualLog::small().with_slots(1), &plan, scaled(1), 50);
    assert!(counts.states > 100);
}

/// The position of the head decides which place is near, and records are among the data.
/// Each recovery searches the whole drive, so the test has few states.
#[test]
fn power_cuts_inside_a_drive() {
    let seed = announce_seed("power_cuts_inside_a_drive", 1);
    let mut plan = Plan {
        nested_one_in: u64::MAX,
        ..VirtualLog::in_sectors(compacted(seed))
    };
    (plan.limits.exhaustive_writes, plan.limits.random_subsets) = (2, 2);
    (plan.limits.each_shape, plan.limits.torn_variants) = (1, 1);
    let subject = VirtualLog::in_drive().with_slots(2);
    let counts = explore(&subject, &plan, scaled(1), 30);
    assert!(counts.states > 50);
}

#[test]
fn a_drive_against_the_model() {
    let seed = announce_seed("a_drive_against_the_model", 1);
    let mut profile = Profile::everything();
    profile.kinds.extend(compacted(seed).profile.kinds);
    let course = Course {
        may_be_full: true,
        ..Course::new(with_longest(profile), 1200)
    };
    if let Err(failure) = course.run_on(seed, &VirtualLog::in_drive()) {
        panic!("{failure}");
    }
}

#[test]
fn power_cuts_where_room_is_reused() {
    let seed = announce_seed("power_cuts_where_room_is_reused", 1);
    let plan = VirtualLog::churn(seed);
    let counts = explore(&VirtualLog::small(), &plan, scaled(2), 120);
    assert!(counts.states > 200);
}

#[test]
fn power_cuts_where_the_volume_is_full() {
    let seed = announce_seed("power_cuts_where_the_volume_is_full", 1);
    let counts = explore(
        &VirtualLog::default().least(),
        &VirtualLog::churn(seed),
        scaled(2),
        100,
    );
    assert!(counts.states > 200);
    let plan = VirtualLog::in_sectors(VirtualLog::churn(seed));
    let subject = VirtualLog::with_small_units().least();
    let counts = explore(&subject, &plan, scaled(1), 100);
    assert!(counts.states > 200);
}

/// Returns a plan with much compaction. Some of it takes effect after other operations.
fn compacted(seed: u64) -> Plan {
    let mut plan = VirtualLog::churn(seed);
    let kinds = &mut plan.profile.kinds;
    kinds.extend([Kind::Coalesce, Kind::Coalesce, Kind::Clean, Kind::Clean]);
    kinds.extend([Kind::Claim; 4]);
    kinds.extend([Kind::Move; 4]);
    plan
}

#[test]
fn power_cuts_while_the_compactor_moves() {
    let seed = announce_seed("power_cuts_while_the_compactor_moves", 1);
    let counts = explore(&VirtualLog::small(), &compacted(seed), scaled(1), 100);
    assert!(counts.states > 200);
    let plan = VirtualLog::in_sectors(compacted(seed));
    let counts = explore(&VirtualLog::with_small_units(), &plan, scaled(1), 100);
    assert!(counts.states > 200);
}

/// Attributes are set, replaced by longer and shorter ones, removed and moved, in short
/// and in full transactions, with a power cut at each write and flush.
#[test]
fn power_cuts_around_long_attributes() {
    let seed = announce_seed("power_cuts_around_long_attributes", 1);
    for (nth, unit_bytes) in (0..).zip([512, 1024, 2048, 4096]) {
        let mut subject = VirtualLog::default();
        subject.format.unit_bytes = unit_bytes;
        let plan = Plan {
            units: vec![unit_bytes],
            ..Plan::thorough(seed + nth)
        };
        for text in [
            "create a; setxattr a p 100 #1; sync; setxattr a p 65536 #2; fsync a;
             setxattr a q 60000 #3; fsync a; setxattr a p 20000 #4; fsync a; layout-checkpoint;
             setxattr a p 65536 #5; fsync a; removexattr a q; fsync a; setxattr a p 10 #6; fsync a",
            "create a; setxattr a p 50000 #1; create b; setxattr b p 65536 #2; write b 0+40960 #3;
             sync; unlink b; sync; claim; setxattr a p 9000 #4; fsync a; move; coalesce;
             setxattr a q 40000 #5; kill; setxattr a p 65536 #6; fsync a; removexattr a q; unlink a;
             sync",
        ] {
            let explorer = Explorer::new(&subject);
            if let Err(failure) = explorer.explore_story(text, &plan) {
                panic!("units of {unit_bytes}: {failure}");
            }
            let counts = explorer.counts();
            eprintln!("{counts:?}");
            assert!(counts.states > 80);
        }
    }
}

#[test]
fn the_compactor_against_the_model() {
    let seed = announce_seed("the_compactor_against_the_model", 1);
    for (round, subject) in (0..).zip([VirtualLog::small(), VirtualLog::with_small_units()]) {
        let mut profile = Profile::everything();
        profile.kinds.extend(compacted(seed).profile.kinds);
        let course = Course {
            may_be_full: true,
            ..Course::new(with_longest(profile), 1200)
        };
        if let Err(failure) = course.run_on(seed + round, &subject) {
            panic!("{failure}");
        }
    }
}

#[test]
fn short_lives_one_after_the_other() {
    let seed = announce_seed("short_lives_one_after_the_other", 1);
    let plan = Plan {
        units: vec![4096],
        nested_one_in: 40,
        depth: 3,
        ..Plan::quick(seed)
    };
    let counts = explore(&VirtualLog::default(), &plan, scaled(2), 12);
    assert!(counts.nested_states > 20);
}

#[test]
fn everything_against_the_model() {
    let seed = announce_seed("everything_against_the_model", 1);
    for round in 0..scaled(2) {
        let course = Course::new(with_longest(Profile::everything()), 1200);
        let subject = VirtualLog {
            device_bytes: 64 << 20,
            ..VirtualLog::default()
        };
        if let Err(failure) = course.run_on(seed + round, &subject) {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_small_volume_against_the_model() {
    let seed = announce_seed("a_small_volume_against_the_model", 1);
    for (round, subject) in [VirtualLog::small(), VirtualLog::with_small_units()]
        .iter()
        .enumerate()
    {
        let course = Course {
            may_be_full: true,
            ..Course::new(with_longest(Profile::everything()), 1200)
        };
        if let Err(failure) = course.run_on(seed + round as u64, subject) {
            panic!("{failure}");
        }
    }
}

#[test]
fn fill_and_delete_cycles() {
    let seed = announce_seed("fill_and_delete_cycles", 1);
    let sizes = [
        VirtualLog::small(),
        VirtualLog::with_small_units(),
        VirtualLog::default().least(),
        VirtualLog::with_small_units().least(),
    ];
    for (round, subject) in (0..).zip(sizes) {
        if let Err(failure) = full::cycles(&subject, seed + round, scaled(5)) {
            panic!("{failure}");
        }
    }
}

/// Tests of the harness: bugs planted in VLFS are found by the tests that run without
/// them.
#[cfg(feature = "planted")]
#[test]
fn planted_mistakes_are_caught() {
    use varve_fs::planted::Planted;
    let seed = announce_seed("planted_mistakes_are_caught", 1);
    let plan = Plan {
        units: vec![4096],
        patience: std::time::Duration::ZERO,
        ..Plan::quick(seed)
    };
    for bug in [
        Planted::UncheckedPayload,
        Planted::CommitWithoutFlush,
        Planted::OrphansNotFreed,
    ] {
        assert_caught(bug, &VirtualLog::default(), &plan, (40, 0));
    }
}

/// Checks that one of sixty workloads finds the bug. Each has `length` operations, and
/// the workload with the number `first` is tried first.
#[cfg(feature = "planted")]
fn assert_caught(
    bug: varve_fs::planted::Planted,
    subject: &VirtualLog,
    plan: &Plan,
    (length, first): (u64, u64),
) {
    let explorer = Explorer::new(subject);
    let caught = (first..60).chain(0..first).find(|&index| {
        let explored = || explorer.explore_generated(index, length, plan);
        let with_bug = || varve_fs::planted::with(bug, explored);
        let outcome = varve_prove::panics::catch(with_bug);
        !matches!(outcome, Ok(Ok(())))
    });
    eprintln!("{bug:?}: {caught:?}, {:?}", explorer.counts());
    assert!(caught.is_some(), "{bug:?} is not caught");
}

/// The same for bugs of the compactor.
#[cfg(feature = "planted")]
#[test]
fn planted_mistakes_of_the_compactor_are_caught() {
    use varve_fs::planted::Planted;
    let seed = announce_seed("planted_mistakes_of_the_compactor_are_caught", 1);
    let plan = Plan {
        patience: std::time::Duration::ZERO,
        ..compacted(seed)
    };
    for bug in [Planted::MoveUnchecked, Planted::ReuseUnsettled] {
        assert_caught(bug, &VirtualLog::small(), &plan, (100, 0));
    }
}

/// The same for bugs with records of changes.
#[cfg(feature = "planted")]
#[test]
fn planted_mistakes_with_changes_are_caught() {
    use varve_fs::planted::Planted;
    let seed = announce_seed("planted_mistakes_with_changes_are_caught", 1);
    for bug in Planted::OF_THE_VIRTUAL_LOG {
        // Metadata must be overwritten between two folds. With some seeds that takes many
        // workloads.
        let seed = match bug {
            Planted::MetadataNotHeld => seed + 15,
            _ => seed,
        };
        let mut plan = Plan {
            units: vec![512],
            patience: std::time::Duration::ZERO,
            ..VirtualLog::churn(seed)
        };
        if bug == Planted::ChangesOneByOne {
            // A place must be used again one slot later, which is rare. Any image shows
            // the bug.
            (plan.limits.exhaustive_writes, plan.limits.random_subsets) = (0, 0);
            (plan.limits.each_shape, plan.limits.torn_writes) = (1, 0);
            (plan.nested_one_in, plan.afterwards_one_in) = (u64::MAX, u64::MAX);
        }
        let subject = match bug {
            // The log wraps often in little space.
            Planted::ChangesOneByOne => VirtualLog::with_small_units().least(),
            _ => VirtualLog::with_small_units(),
        };
        let first = match bug {
            Planted::ChangesOneByOne => 38,
            Planted::MetadataNotHeld => 3,
            _ => 0,
        };
        assert_caught(bug, &subject, &plan, (100, first));
    }
}
