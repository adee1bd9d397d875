//! Every crash point of generated workloads.

mod common;

use common::explore::{Effort, explore};

#[test]
fn whatever_a_crash_leaves_is_a_committed_state() {
    let seed = common::seed("whatever_a_crash_leaves");
    let effort = Effort {
        transactions: 60,
        nested: 60,
        draws: 4,
    };
    let rounds = std::env::var("VARVE_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok());
    let mut looked = 0;
    for round in 0..rounds.unwrap_or(5) {
        looked += explore(seed + round, effort).unwrap_or_else(|what| panic!("{what}"));
    }
    eprintln!("{looked} images");
    assert!(looked > 1_000, "{looked} images");
}
