//! The allocation study by hand: what each policy does under each workload, and
//! how many requests a second of host time are simulated.
//!
//! `cargo run --release -p varve-lab --example allocation [SCALE [SECONDS]]`; the
//! seconds are those after which a throughput test ends that is not stable.

use std::time::Instant;
use varve_lab::simulator::allocation::{Assumptions, Load, PolicyKind, Test, fill, throughput};

fn main() {
    let number = |nth| std::env::args().nth(nth).and_then(|text| text.parse().ok());
    let usual = Assumptions::default();
    let assumed = Assumptions {
        scale: number(1).unwrap_or(usual.scale),
        limit_s: number(2).unwrap_or(usual.limit_s),
        ..usual
    };
    let policies = [
        ("buddy", PolicyKind::Buddy),
        ("restricted", PolicyKind::RESTRICTED),
        ("extents", PolicyKind::EXTENTS),
        ("fixed, aged", PolicyKind::Fixed { aged: true }),
        ("fixed, in order", PolicyKind::Fixed { aged: false }),
    ];
    for load in Load::ALL {
        for (name, policy) in policies {
            let begun = Instant::now();
            let filled = fill(load, policy, &assumed, 1);
            let all = filled.requests + filled.asked;
            let rate = all as f64 / begun.elapsed().as_secs_f64() / 1e6;
            println!(
                "{} {name}: internal {:.1} %, external {:.1} %, {} requests, {} for room, {rate:.1} M/s",
                load.name(),
                100.0 * filled.internal,
                100.0 * filled.external,
                filled.requests,
                filled.asked
            );
            for test in [Test::Application, Test::Sequential] {
                let begun = Instant::now();
                let Some(found) = throughput(load, policy, test, &assumed, 1) else {
                    println!("   {test:?}: no room for the files");
                    continue;
                };
                println!(
                    "   {test:?} {:.1} %, {:?} after {:.0} s, {} requests, {:.2} s of host",
                    100.0 * found.share,
                    found.ending,
                    found.seconds,
                    found.requests,
                    begun.elapsed().as_secs_f64()
                );
            }
        }
    }
}
