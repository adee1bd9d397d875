//! Runs each model of chapter 4 once, and tells events of the simulator a second.
//!
//! ```sh
//! cargo run --release -p varve-lab --example transactions
//! ```

use std::time::Instant;
use varve_lab::simulator::transactions::{Locking, Model, Parameters, bounds, simulate};

fn main() {
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
