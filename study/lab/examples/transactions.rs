//! Runs each model of chapter 4 once, and tells events of the simulator a second.
//!
//! ```sh
//! cargo run --release -p varve-lab --example transactions
//! cargo run --release -p varve-lab --example transactions calls
//! ```
//!
//! With `calls`: how far the embedded models fall behind at 1 MIPS where a system call
//! costs 0.25 ms (M2), and how busy the processor is, with what the chapter leaves open
//! decided in other ways; five seeds.

use std::time::Instant;
use varve_lab::simulator::transactions::{
    Assumptions, Locking, Model, Parameters, bounds, simulate,
};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("calls") => calls(),
        _ => models(),
    }
}

fn models() {
    let usual = Parameters {
        users: 100,
        ..Parameters::default()
    };
    let slow = Parameters {
        mips: 1.0,
        ..usual.clone()
    };
    let skewed = |skew, locking| Parameters {
        skew,
        locking,
        ..usual.clone()
    };
    let cases = [
        ("1 MIPS", slow),
        ("10 MIPS", usual.clone()),
        ("90/10", skewed(90, Locking::Page)),
        ("90/10, subpages", skewed(90, Locking::Subpage)),
        ("99/1, modified", skewed(99, Locking::ModifiedSubpage)),
    ];
    let mut events = 0;
    for (name, parameters) in cases {
        println!("{name}");
        for model in Model::ALL {
            let begun = Instant::now();
            let found = simulate(model, &parameters, 1);
            let took_s = begun.elapsed().as_secs_f64();
            events += found.events;
            let limits = bounds(model, &parameters);
            println!(
                "  {:<10} {:6.2} tps ({:.2} to {:.2}), aborted {:4.1} %, processor {:2.0} %, disks {:2.0} %, reads {:.1} ({:.1} % of it), log {:.2} %, writes {:.1}, hits {:.1} % ({:.1}), locks {:.1} ({:.1}), waits {:.2}, {:.0} s; {:.1} M events a second",
                model.name(),
                found.tps,
                limits.lower,
                limits.upper,
                found.aborted_percent(),
                100.0 * found.processor,
                100.0 * found.disks,
                found.reads,
                100.0 * found.reading,
                100.0 * found.logging,
                found.writes,
                100.0 * found.hits,
                100.0 * limits.hits,
                found.locks,
                limits.locks,
                found.waits,
                found.seconds,
                found.events as f64 / took_s / 1e6,
            );
        }
    }
    println!("{:.1} million events measured", events as f64 / 1e6);
}

const SEEDS: u64 = 5;

fn calls() {
    let usual = Assumptions::default();
    let cases = [
        ("usual", usual.clone()),
        (
            "no checkpoints",
            Assumptions {
                checkpoints: false,
                ..usual.clone()
            },
        ),
        (
            "reads before writes that nobody waits for",
            Assumptions {
                reads_first: true,
                ..usual.clone()
            },
        ),
        (
            "changes rounded down",
            Assumptions {
                rounded_down: true,
                ..usual
            },
        ),
    ];
    for (name, assumed) in cases {
        let parameters = Parameters {
            mips: 1.0,
            syscall: 250.0,
            assumed,
            ..Parameters::default()
        };
        for (user, os) in [(Model::UserRo, Model::OsRo), (Model::UserLfs, Model::OsLfs)] {
            let mean = |model: Model| {
                let mut sums = [0.0; 2];
                for seed in 1..=SEEDS {
                    let found = simulate(model, &parameters, seed);
                    sums[0] += found.tps / SEEDS as f64;
                    sums[1] += 100.0 * found.processor / SEEDS as f64;
                }
                sums
            };
            let ([fast, busy], [slow, busy_too]) = (mean(user), mean(os));
            println!(
                "{name}: {} {slow:.2} tps, {:.2} % below {} {fast:.2}; processor busy for {busy_too:.1} and {busy:.1} %",
                os.name(),
                100.0 * (1.0 - slow / fast),
                user.name(),
            );
        }
    }
}
