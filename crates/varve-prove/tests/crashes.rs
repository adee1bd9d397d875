//! Power cuts at every write of random workloads.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use varve_fs::MemoryOptions;
use varve_prove::explorer::{Counts, Explorer, Plan};
use varve_prove::failure::Failure;
use varve_prove::generator::Generator;
use varve_prove::groups::explore_groups;
use varve_prove::mounted::Subject;
use varve_prove::operation::story;
use varve_prove::random::{Random, announce_seed, scaled};
use varve_prove::subjects::{Log, Toy};

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

#[test]
fn the_file_system_on_the_toy() {
    let seed = announce_seed("the_file_system_on_the_toy", 1);
    let counts = explore(&Toy::default(), &Plan::quick(seed), scaled(40), 40);
    assert!(counts.states > 500);
}

#[test]
fn the_log() {
    let seed = announce_seed("the_log", 1);
    let counts = explore(&Log::default(), &Plan::quick(seed), scaled(40), 40);
    assert!(counts.states > 500);
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

/// Goes on after failures, and tells the shortest story of each kind.
#[test]
#[ignore = "for finding several mistakes at once"]
fn collected_failures_of_the_log() {
    let seed = announce_seed("collected_failures_of_the_log -- --ignored", 1);
    let mut plan = Plan::quick(seed);
    plan.patience = Duration::from_secs(5);
    let subject = Log::default();
    let explorer = Explorer::new(&subject);
    let mut kinds: BTreeMap<String, (u64, Failure)> = BTreeMap::new();
    for index in 0..scaled(100) {
        let Err(failure) = explorer.explore_generated(index, 40, &plan) else {
            continue;
        };
        let last = failure.account.last().cloned().unwrap_or_default();
        let kind: String = last
            .chars()
            .filter(char::is_ascii_alphabetic)
            .take(80)
            .collect();
        let (count, shortest) = kinds.entry(kind).or_insert((0, failure.clone()));
        *count += 1;
        if failure.story.len() < shortest.story.len() {
            *shortest = failure;
        }
    }
    for (kind, (count, failure)) in &kinds {
        eprintln!("=== {count} times {kind}\n{failure}");
    }
    eprintln!("{:?}", explorer.counts());
    assert!(kinds.is_empty());
}

/// Explores the story in the file that `VARVE_STORY` names, thoroughly.
#[test]
fn a_story_from_the_environment() {
    let Ok(path) = std::env::var("VARVE_STORY") else {
        return;
    };
    let seed = announce_seed("a_story_from_the_environment", 1);
    let text = std::fs::read_to_string(path).expect("the file that VARVE_STORY names");
    let (plan, operations) = (Plan::thorough(seed), story(&text));
    let grouped = explore_groups(&operations, &MemoryOptions::default(), plan.patience);
    eprintln!("between groups: {grouped:?}");
    if let Err(failure) = Explorer::new(&Toy::default()).explore(&operations, &plan) {
        panic!("on the toy\n{failure}");
    }
    if let Err(failure) = Explorer::new(&Log::default()).explore(&operations, &plan) {
        panic!("on the log\n{failure}");
    }
}
