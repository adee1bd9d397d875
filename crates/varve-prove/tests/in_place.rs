//! FFS put to the proof: power cuts, the model, the full volume.

use std::time::Instant;
use varve_prove::explorer::{Counts, Explorer, Plan};
use varve_prove::full;
use varve_prove::generator::Profile;
use varve_prove::in_place::InPlace;
use varve_prove::random::{announce_seed, scaled};
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

/// Two extended attributes fit a block.
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

#[test]
fn everything_against_the_model() {
    let seed = announce_seed("everything_against_the_model", 1);
    for (round, subject) in [InPlace::default(), InPlace::with_fragments()]
        .into_iter()
        .enumerate()
    {
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
    for (round, subject) in [InPlace::default(), InPlace::with_fragments()]
        .into_iter()
        .enumerate()
    {
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
    for (round, subject) in (0..).zip([InPlace::default(), InPlace::with_fragments()]) {
        if let Err(failure) = full::cycles(&subject.small(), seed + round, scaled(5)) {
            panic!("{failure}");
        }
    }
}

/// What FFS's own policy passes, each of the others does.
#[test]
fn every_policy_survives_power_cuts_and_full_volumes() {
    let seed = announce_seed("every_policy_survives_power_cuts_and_full_volumes", 1);
    for (nth, subject) in (0..).zip(InPlace::of_every_policy()) {
        eprintln!("{}", subject.format.policy);
        let plan = Plan {
            units: vec![4096],
            ..Plan::quick(seed + nth)
        };
        let counts = explore(&subject, &plan, scaled(1), 30);
        assert!(counts.states > 30);
        let small = subject.small();
        let counts = explore(&small, &InPlace::churn(seed + nth), scaled(1), 60);
        assert!(counts.states > 30);
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

/// The harness is tested, too: mistakes planted in FFS are caught by what is used
/// without them.
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
            Planted::FragmentShared => (InPlace::with_fragments().small(), 512),
            _ => (InPlace::default().small(), 4096),
        };
        let plan = Plan {
            units: vec![unit],
            ..quick.clone()
        };
        let explorer = Explorer::new(&subject);
        let caught = (0..60).find(|&index| {
            let explored = || explorer.explore_generated(index, 100, &plan);
            let with_bug = || varve_fs::planted::with(bug, explored);
            let outcome = varve_prove::panics::catch(with_bug);
            !matches!(outcome, Ok(Ok(())))
        });
        eprintln!("{bug:?}: {caught:?}, {:?}", explorer.counts());
        assert!(caught.is_some(), "{bug:?} is not caught");
    }
}
