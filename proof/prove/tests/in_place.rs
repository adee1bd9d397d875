//! Tests of FFS: power cuts, the model, the full volume.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;
use varve_device::{CrashExplorer, Limits, MemoryDevice};
use varve_prove::explorer::{Counts, Explorer, Plan};
use varve_prove::full;
use varve_prove::generator::{Generator, Profile};
use varve_prove::in_place::InPlace;
use varve_prove::random::{Random, announce_seed, scaled};
use varve_prove::reference::Course;

fn explore(subject: &InPlace, plan: &Plan, workloads: u64, length: u64) -> Counts {
    let start = Instant::now();
    let mut plan = plan.clone();
    plan.profile.xattr_bytes = XATTR_BYTES;
    let plan = &plan;
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

/// Length of an attribute value in bytes, such that two extended attributes fit in a
/// block.
const XATTR_BYTES: u64 = 1000;

fn everything() -> Profile {
    Profile {
        xattr_bytes: XATTR_BYTES,
        ..Profile::everything()
    }
}

#[test]
fn power_cuts() {
    let seed = announce_seed("power_cuts", 1);
    let plan = Plan {
        units: vec![4096],
        ..Plan::quick(seed)
    };
    let counts = explore(&InPlace::default(), &plan, scaled(10), 40);
    assert!(counts.states > 500);
}

#[test]
fn power_cuts_with_fragments_of_a_sector() {
    let seed = announce_seed("power_cuts_with_fragments_of_a_sector", 1);
    let mut plan = Plan {
        units: vec![512],
        ..Plan::quick(seed)
    };
    plan.profile.tails = true;
    let counts = explore(&InPlace::with_fragments(), &plan, scaled(6), 40);
    assert!(counts.states > 300);
}

#[test]
fn power_cuts_where_room_is_reused() {
    let seed = announce_seed("power_cuts_where_room_is_reused", 1);
    let plan = InPlace::churn(seed);
    let counts = explore(&InPlace::default().small(), &plan, scaled(2), 120);
    assert!(counts.states > 200);
    let plan = Plan {
        units: vec![512],
        ..plan
    };
    let counts = explore(&InPlace::with_fragments().small(), &plan, scaled(2), 120);
    assert!(counts.states > 200);
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
    let counts = explore(&InPlace::default(), &plan, scaled(2), 12);
    assert!(counts.nested_states > 20);
}

/// Returns the plan for FFS without a journal, on a medium that writes each unit whole or
/// not at all, as this layout requires.
fn plan_in_place(seed: u64, unit: u32) -> Plan {
    let mut plan = Plan {
        units: vec![unit],
        whole_units: true,
        ..Plan::quick(seed)
    };
    plan.profile.xattr_bytes = XATTR_BYTES;
    plan
}

#[test]
fn power_cuts_where_metadata_is_ordered() {
    let seed = announce_seed("power_cuts_where_metadata_is_ordered", 1);
    let plan = plan_in_place(seed, 4096);
    let counts = explore(&InPlace::default().ordered(), &plan, scaled(8), 40);
    assert!(counts.states > 300);
    let mut plan = plan_in_place(seed + 1, 512);
    plan.profile.tails = true;
    let counts = explore(&InPlace::with_fragments().ordered(), &plan, scaled(4), 40);
    assert!(counts.states > 100);
}

#[test]
fn power_cuts_where_nothing_is_ordered() {
    let seed = announce_seed("power_cuts_where_nothing_is_ordered", 1);
    let plan = plan_in_place(seed, 4096);
    let counts = explore(&InPlace::default().unordered(), &plan, scaled(8), 40);
    assert!(counts.states > 300);
    let mut plan = plan_in_place(seed + 1, 512);
    plan.profile.tails = true;
    let counts = explore(&InPlace::with_fragments().unordered(), &plan, scaled(4), 40);
    assert!(counts.states > 100);
}

/// A name that was removed from a directory may exist again after that directory moved,
/// because both calls return before either is durable. (Seed 3 of the test above showed
/// that the contract knew names by their paths alone.)
#[test]
fn a_directory_moves_that_something_was_removed_from() {
    let seed = announce_seed("a_directory_moves_that_something_was_removed_from", 1);
    let subject = InPlace::default().unordered();
    let explorer = Explorer::new(&subject);
    let story = "mkdir b; symlink b/a 20; fsync b; unlink b/a; rename b a; checkpoint";
    let explored = explorer.explore_story(story, &plan_in_place(seed, 4096));
    explored.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(explorer.counts().states > 10, "{:?}", explorer.counts());
}

#[test]
fn power_cuts_where_room_is_reused_in_place() {
    let seed = announce_seed("power_cuts_where_room_is_reused_in_place", 1);
    for subject in [InPlace::default().ordered(), InPlace::default().unordered()] {
        let plan = Plan {
            whole_units: true,
            ..InPlace::churn(seed)
        };
        let counts = explore(&subject.small(), &plan, scaled(1), 120);
        assert!(counts.states > 100);
    }
}

/// On a medium where units can read as errors, files may be lost, but nothing else. The
/// repaired volume is sound, and a second repair finds nothing.
#[test]
fn what_is_torn_is_repaired() {
    let seed = announce_seed("what_is_torn_is_repaired", 1);
    let mut repaired = 0;
    for subject in [InPlace::default().ordered(), InPlace::default().unordered()] {
        let mut plan = Plan::quick(seed);
        plan.profile.xattr_bytes = XATTR_BYTES;
        let random = Random::new(seed);
        let operations = Generator::new(plan.profile.clone(), random).take(40);
        let explorer = Explorer::new(&subject);
        let trace = explorer
            .trace(&operations, &plan)
            .unwrap_or_else(|f| panic!("{f}"));
        let base = explorer.fresh_image().unwrap_or_else(|f| panic!("{f}"));
        let limits = Limits {
            torn_writes: 3,
            torn_variants: 9,
            ..plan.limits
        };
        let mut crashes = CrashExplorer::new(&base, &trace, 4096, limits);
        for stop in crashes.stops().collect::<Vec<_>>() {
            let _ = crashes.for_each(stop, seed, |image, description| {
                let device = Arc::new(MemoryDevice::from_image(&image));
                let found = subject.repair(device.clone());
                let found = found.unwrap_or_else(|error| panic!("{description}: {error}"));
                assert_eq!(found, Vec::<String>::new(), "{description}");
                repaired += 1;
                ControlFlow::<()>::Continue(())
            });
        }
    }
    eprintln!("{repaired} images");
    assert!(repaired > 100);
}

fn configurations() -> [InPlace; 4] {
    [
        InPlace::default(),
        InPlace::with_fragments(),
        InPlace::with_fragments().ordered(),
        InPlace::default().unordered(),
    ]
}

#[test]
fn everything_against_the_model() {
    let seed = announce_seed("everything_against_the_model", 1);
    for (round, subject) in configurations().into_iter().enumerate() {
        let course = Course::new(everything(), 1200);
        let subject = InPlace {
            device_bytes: 64 << 20,
            ..subject
        };
        if let Err(failure) = course.run_on(seed + round as u64, &subject) {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_small_volume_against_the_model() {
    let seed = announce_seed("a_small_volume_against_the_model", 1);
    for (round, subject) in configurations().into_iter().enumerate() {
        let course = Course {
            may_be_full: true,
            ..Course::new(everything(), 1200)
        };
        if let Err(failure) = course.run_on(seed + round as u64, &subject.small()) {
            panic!("{failure}");
        }
    }
}

#[test]
fn fill_and_delete_cycles() {
    let seed = announce_seed("fill_and_delete_cycles", 1);
    for (round, subject) in (0..).zip(configurations()) {
        if let Err(failure) = full::cycles(&subject.small(), seed + round, scaled(5)) {
            panic!("{failure}");
        }
    }
}

/// Returns each policy with each order of metadata.
fn policies_and_orders() -> Vec<InPlace> {
    let policies = InPlace::of_every_policy().into_iter();
    let orders = |subject: InPlace| {
        [
            subject.clone(),
            subject.clone().ordered(),
            subject.unordered(),
        ]
    };
    policies.flat_map(orders).collect()
}

/// Every other policy passes the tests that FFS's own policy passes.
#[test]
fn every_policy_survives_power_cuts_in_every_order() {
    let seed = announce_seed("every_policy_survives_power_cuts_in_every_order", 1);
    for (nth, subject) in (0..).zip(policies_and_orders()) {
        eprintln!(
            "{}, {}",
            subject.format.policy,
            subject.format.metadata.name()
        );
        let whole_units = subject.format.metadata.is_in_place();
        let plan = Plan {
            whole_units,
            ..plan_in_place(seed + nth, 4096)
        };
        let names = explore(&subject, &plan, scaled(1), 30);
        let plan = Plan {
            whole_units,
            ..InPlace::churn(seed + nth)
        };
        let churn = explore(&subject.small(), &plan, scaled(1), 60);
        // A workload that syncs early and seldom changes names has few states.
        assert!(names.states > 10 && names.states + churn.states > 60);
    }
}

#[test]
fn every_policy_on_small_and_full_volumes() {
    let seed = announce_seed("every_policy_on_small_and_full_volumes", 1);
    for (nth, subject) in (0..).zip(policies_and_orders()) {
        eprintln!(
            "{}, {}",
            subject.format.policy,
            subject.format.metadata.name()
        );
        let small = subject.small();
        let course = Course {
            may_be_full: true,
            ..Course::new(everything(), scaled(400))
        };
        if let Err(failure) = course.run_on(seed + nth, &small) {
            panic!("{failure}");
        }
        if let Err(failure) = full::cycles(&small, seed + nth, scaled(2)) {
            panic!("{failure}");
        }
    }
}

/// The last fragments of a file move to space that another file has freed, because the
/// space after them is used.
#[cfg(feature = "planted")]
const MOVED_TAIL: &str = "create c; write c 0+40960 #9; sync; unlink c; sync; \
     create a; write a 0+600 #1; fsync a; create b; write b 0+600 #2; sync; \
     write a 600+2000 #3; fsync a";

/// The data of a file uses the place of another file's indirect block, which a record
/// mentions.
#[cfg(feature = "planted")]
const REUSED_INDIRECT: &str = "create a; write a 49152+4096 #1; sync; unlink a; sync; \
     create b; write b 0+45056 #2; fsync b";

/// Tests of the harness: bugs planted in FFS are found by the tests that run without
/// them.
#[cfg(feature = "planted")]
#[test]
fn planted_mistakes_are_caught() {
    use varve_fs::planted::Planted;
    let seed = announce_seed("planted_mistakes_are_caught", 1);
    let quick = Plan {
        patience: std::time::Duration::ZERO,
        ..InPlace::churn(seed)
    };
    let others = [
        Planted::CommitWithoutFlush,
        Planted::OrphansNotFreed,
        Planted::NoFlushBeforeRecord,
    ];
    for bug in Planted::OF_FFS.into_iter().chain(others) {
        let (subject, unit) = match bug {
            Planted::FragmentShared | Planted::MovedTailUnflushed => {
                (InPlace::with_fragments().small(), 512)
            }
            _ => (InPlace::default().small(), 4096),
        };
        let mut plan = Plan {
            units: vec![unit],
            ..quick.clone()
        };
        if bug == Planted::OrphansNotFreed {
            // Files that are open when they lose their names.
            plan.profile = Profile {
                xattr_bytes: XATTR_BYTES,
                ..Profile::crash()
            };
        }
        let explorer = Explorer::new(&subject);
        let caught = (0..60).find(|&index| {
            let explored = || match bug {
                Planted::MovedTailUnflushed => explorer.explore_story(MOVED_TAIL, &plan),
                Planted::ReuseJournalled => explorer.explore_story(REUSED_INDIRECT, &plan),
                _ => explorer.explore_generated(index, 100, &plan),
            };
            let with_bug = || varve_fs::planted::with(bug, explored);
            let outcome = varve_prove::panics::catch(with_bug);
            !matches!(outcome, Ok(Ok(())))
        });
        eprintln!("{bug:?}: {caught:?}, {:?}", explorer.counts());
        assert!(caught.is_some(), "{bug:?} is not caught");
    }
}

/// The same for FFS that writes metadata in place.
#[cfg(feature = "planted")]
#[test]
fn planted_mistakes_without_a_journal_are_caught() {
    use varve_fs::planted::Planted;
    let seed = announce_seed("planted_mistakes_without_a_journal_are_caught", 1);
    let others = [Planted::CommitWithoutFlush];
    for bug in Planted::OF_FFS_IN_PLACE.into_iter().chain(others) {
        let subject = InPlace::default().ordered();
        let churn = Plan {
            whole_units: true,
            patience: std::time::Duration::ZERO,
            ..InPlace::churn(seed)
        };
        let names = Plan {
            patience: std::time::Duration::ZERO,
            ..plan_in_place(seed, 4096)
        };
        let (subject, plan) = match bug {
            Planted::FragmentShared => {
                let units = vec![512];
                (
                    InPlace::with_fragments().ordered().small(),
                    Plan { units, ..churn },
                )
            }
            Planted::BlockFreeWhileReferenced | Planted::ReuseUncommitted => {
                (subject.small(), churn)
            }
            _ => (subject, names),
        };
        let explorer = Explorer::new(&subject);
        let mut how = String::new();
        let caught = (0..60).find(|&index| {
            let explored = || explorer.explore_generated(index, 100, &plan);
            let with_bug = || varve_fs::planted::with(bug, explored);
            let outcome = varve_prove::panics::catch(with_bug);
            match &outcome {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => how = failure.to_string(),
                Err(text) => how.clone_from(text),
            }
            !matches!(outcome, Ok(Ok(())))
        });
        eprintln!("{bug:?}: {caught:?}, {:?}\n{how}", explorer.counts());
        assert!(caught.is_some(), "{bug:?} is not caught");
    }
}
