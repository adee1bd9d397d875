//! All short workloads, with a power cut at every write.

use varve_prove::bounded;
use varve_prove::explorer::{Explorer, Plan};
use varve_prove::mounted::Subject;
use varve_prove::random::{announce_seed, scaled};
use varve_prove::subjects::{Log, Toy};

/// Explores every `stride`th sequence. The seed decides which is the first.
fn explore(subject: &impl Subject, length: u32, stride: u64, test: &str) {
    let seed = announce_seed(test, 1);
    let plan = Plan {
        units: vec![4096],
        ..Plan::quick(seed)
    };
    let explorer = Explorer::new(subject);
    for index in (seed % stride..bounded::count(length)).step_by(stride as usize) {
        let workload = bounded::sequence(length, index);
        if let Err(failure) = explorer.explore(&workload, &plan) {
            panic!("sequence {index} of {length}\n{failure}");
        }
    }
    eprintln!("{:?}", explorer.counts());
}

#[test]
fn single_operations_on_the_toy() {
    explore(&Toy::default(), 1, 1, "single_operations_on_the_toy");
}

#[test]
fn pairs_on_the_toy() {
    explore(
        &Toy::default(),
        2,
        (97 / scaled(1)).max(1),
        "pairs_on_the_toy",
    );
}

#[test]
fn single_operations_on_the_log() {
    explore(&Log::default(), 1, 1, "single_operations_on_the_log");
}

#[test]
fn pairs_on_the_log() {
    explore(
        &Log::default(),
        2,
        (97 / scaled(1)).max(1),
        "pairs_on_the_log",
    );
}
