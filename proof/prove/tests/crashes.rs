//! Power cuts at every write of random workloads.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use varve_device::{Event, trace_fingerprint};
use varve_fs::MemoryOptions;
use varve_prove::explorer::{Counts, Explorer, Plan};
use varve_prove::failure::Failure;
use varve_prove::generator::Generator;
use varve_prove::groups::explore_groups;
use varve_prove::mounted::Subject;
use varve_prove::operation::story;
use varve_prove::random::{Random, announce_seed, scaled};
use varve_prove::subjects::{Log, Toy};
use varve_prove::variants::Variant;

fn explore(subject: &impl Subject, plan: &Plan, workloads: u64, length: u64) -> Counts {
    let start = Instant::now();
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

fn explore_variant(variant: &Variant, workloads: u64) -> Counts {
    explore(&variant.subject, &variant.plan, workloads, variant.length)
}

#[test]
fn the_file_system_on_the_toy() {
    let seed = announce_seed("the_file_system_on_the_toy", 1);
    let counts = explore(&Toy::default(), &Plan::quick(seed), scaled(40), 40);
    assert!(counts.states > 500);
}

#[test]
fn the_log() {
    let seed = announce_seed("the_log", 1);
    let counts = explore_variant(&Variant::plain(seed), scaled(40));
    assert!(counts.states > 500);
}

#[test]
fn the_log_under_cleaning() {
    let seed = announce_seed("the_log_under_cleaning", 1);
    let counts = explore_variant(&Variant::under_cleaning(seed), scaled(5));
    assert!(counts.states > 500);
}

#[test]
fn the_log_under_sorted_cleaning() {
    let seed = announce_seed("the_log_under_sorted_cleaning", 1);
    let counts = explore_variant(&Variant::under_sorted_cleaning(seed), scaled(3));
    assert!(counts.states > 200);
}

#[test]
fn the_log_under_coalescing() {
    let seed = announce_seed("the_log_under_coalescing", 1);
    let counts = explore_variant(&Variant::under_coalescing(seed), scaled(10));
    assert!(counts.states > 200);
}

#[test]
fn the_log_with_other_measures() {
    let seed = announce_seed("the_log_with_other_measures", 1);
    let counts = explore_variant(&Variant::with_other_measures(seed), scaled(10));
    assert!(counts.states > 500);
}

#[test]
fn the_log_with_deep_indexes() {
    let seed = announce_seed("the_log_with_deep_indexes", 1);
    let counts = explore_variant(&Variant::with_deep_indexes(seed), scaled(3));
    assert!(counts.states > 200);
}

#[test]
fn the_log_with_flushes_between() {
    let seed = announce_seed("the_log_with_flushes_between", 1);
    let counts = explore_variant(&Variant::with_flushes_between(seed), scaled(10));
    assert!(counts.states > 500);
}

#[test]
fn the_log_with_claims() {
    let seed = announce_seed("the_log_with_claims", 1);
    let counts = explore_variant(&Variant::with_claims(seed), scaled(15));
    assert!(counts.states > 500);
}

#[test]
fn the_log_writing_ahead() {
    let seed = announce_seed("the_log_writing_ahead", 1);
    let counts = explore_variant(&Variant::writing_ahead(seed), scaled(5));
    assert!(counts.states > 200);
}

#[test]
fn the_log_with_strangers() {
    let seed = announce_seed("the_log_with_strangers", 1);
    let counts = explore_variant(&Variant::with_strangers(seed), scaled(4));
    assert!(counts.states > 500);
}

#[test]
fn the_log_in_strict_order() {
    let seed = announce_seed("the_log_in_strict_order", 1);
    let counts = explore_variant(&Variant::in_strict_order(seed), scaled(20));
    assert!(counts.states > 500);
}

/// Describes how event `at` of two traces differs.
fn differing(first: &[Event], second: &[Event], at: usize) -> String {
    match (first.get(at), second.get(at)) {
        (
            Some(Event::Write { offset, data }),
            Some(Event::Write {
                offset: other_offset,
                data: other,
            }),
        ) => {
            let byte = data.iter().zip(other.iter()).position(|(a, b)| a != b);
            let (length, other_length) = (data.len(), other.len());
            format!("{length} at {offset}, {other_length} at {other_offset}, from byte {byte:?}")
        }
        (first, second) => {
            let kind = |event: Option<&Event>| match event {
                Some(Event::Write { offset, data }) => format!("{} at {offset}", data.len()),
                other => format!("{other:?}"),
            };
            format!("{}, {}", kind(first), kind(second))
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let seed = announce_seed("the_same_seed_gives_the_same_trace", 1);
    let subject = Log::default();
    let explorer = Explorer::new(&subject);
    for round in seed..seed + scaled(10) {
        let plan = Plan::quick(round);
        let operations = Generator::new(plan.profile.clone(), Random::new(round)).take(60);
        let trace = || match explorer.trace(&operations, &plan) {
            Ok(trace) => trace,
            Err(failure) => panic!("{failure}"),
        };
        let (first, second) = (trace(), trace());
        if trace_fingerprint(&first) != trace_fingerprint(&second) {
            let at = first
                .iter()
                .zip(&second)
                .position(|(one, other)| one != other);
            let at = at.unwrap_or(first.len().min(second.len()));
            let story = varve_prove::operation::tell(&operations);
            panic!(
                "seed {round}: event {at} differs: {}\n{story}",
                differing(&first, &second, at)
            );
        }
    }
}

#[test]
fn the_file_system_between_groups() {
    let seed = announce_seed("the_file_system_between_groups", 1);
    let (start, plan) = (Instant::now(), Plan::quick(seed));
    let mut states = 0;
    for index in 0..scaled(150) {
        let random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(index));
        let operations = Generator::new(plan.profile.clone(), random).take(60);
        match explore_groups(&operations, &MemoryOptions::default(), plan.patience) {
            Ok(count) => states += count,
            Err(failure) => panic!("workload {index}\n{failure}"),
        }
    }
    let rate = states as f64 / start.elapsed().as_secs_f64();
    eprintln!("{states} states, {rate:.0} states/s");
    assert!(states > 1000);
}

/// Continues after failures, and prints the shortest story of each kind.
fn collect(subject: &Log, plan: &Plan, workloads: u64, length: u64) {
    let explorer = Explorer::new(subject);
    let mut kinds: BTreeMap<String, (u64, u64, Failure)> = BTreeMap::new();
    for index in 0..workloads {
        let Err(failure) = explorer.explore_generated(index, length, plan) else {
            continue;
        };
        let last = failure.account.last().cloned().unwrap_or_default();
        let kind: String = last
            .chars()
            .filter(char::is_ascii_alphabetic)
            .take(80)
            .collect();
        eprintln!(
            "workload {index}: {:?}, {} operations",
            failure.promise,
            failure.story.len()
        );
        let (count, first, shortest) = kinds.entry(kind).or_insert((0, index, failure.clone()));
        *count += 1;
        if failure.story.len() < shortest.story.len() {
            (*first, *shortest) = (index, failure);
        }
    }
    for (kind, (count, index, failure)) in &kinds {
        eprintln!("=== {count} times {kind}, workload {index}\n{failure}");
    }
    eprintln!("{:?}", explorer.counts());
    assert!(kinds.is_empty());
}

#[test]
#[ignore = "for finding several mistakes at once"]
fn collected_failures_of_the_log() {
    let seed = announce_seed("collected_failures_of_the_log -- --ignored", 1);
    let plan = Plan {
        patience: Duration::from_secs(20),
        ..Plan::quick(seed)
    };
    collect(&Log::default(), &plan, scaled(100), 40);
}

/// Failures of workloads with much cleaning, many checkpoints and repeated crashes.
#[test]
#[ignore = "for finding several mistakes at once"]
fn collected_failures_of_the_cleaner() {
    use varve_prove::generator::Kind::{Clean, LayoutCheckpoint};
    let seed = announce_seed("collected_failures_of_the_cleaner -- --ignored", 1);
    let mut plan = Plan {
        patience: Duration::from_secs(60),
        ..Plan::quick(seed)
    };
    plan.profile.kinds.extend([Clean; 10]);
    plan.profile.kinds.extend([LayoutCheckpoint; 6]);
    (plan.units, plan.nested_one_in) = (vec![4096], 20);
    (plan.afterwards_one_in, plan.older_one_in) = (3, 3);
    collect(&Log::default(), &plan, scaled(60), 40);
}

/// Failures of writes that are torn in one life and that the next life may complete.
#[test]
#[ignore = "for finding several mistakes at once"]
fn collected_failures_of_second_lives() {
    let seed = announce_seed("collected_failures_of_second_lives -- --ignored", 1);
    let Variant {
        subject,
        plan,
        length,
    } = Variant::second_lives(seed);
    collect(&subject, &plan, scaled(20), length);
}

/// Explores the story in the file that `VARVE_STORY` names, thoroughly. With
/// `VARVE_SECOND_LIFE`, the test runs that second story after each crash and cuts the
/// power again.
#[test]
fn a_story_from_the_environment() {
    let Ok(path) = std::env::var("VARVE_STORY") else {
        return;
    };
    let seed = announce_seed("a_story_from_the_environment", 1);
    let text = std::fs::read_to_string(path).expect("the file that VARVE_STORY names");
    let (mut plan, operations) = (Plan::thorough(seed), story(&text));
    if let Ok(second_life) = std::env::var("VARVE_SECOND_LIFE") {
        plan.second_life = Some(story(&second_life));
        (plan.afterwards_one_in, plan.older_one_in) = (1, 1);
        plan.nested_one_in = 1;
    }
    let grouped = explore_groups(&operations, &MemoryOptions::default(), plan.patience);
    eprintln!("between groups: {grouped:?}");
    if let Err(failure) = Explorer::new(&Toy::default()).explore(&operations, &plan) {
        panic!("on the toy\n{failure}");
    }
    if let Err(failure) = Explorer::new(&Log::default()).explore(&operations, &plan) {
        panic!("on the log\n{failure}");
    }
}
