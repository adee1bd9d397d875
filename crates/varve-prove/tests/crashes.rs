//! Power cuts at every write of random workloads.

use std::time::Instant;
use varve_prove::explorer::{Counts, Explorer, Plan};
use varve_prove::mounted::Subject;
use varve_prove::random::{announce_seed, scaled};
use varve_prove::subjects::Toy;

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
    let counts = explore(&Toy::default(), &Plan::quick(seed), scaled(20), 20);
    assert!(counts.states > 1000);
}
