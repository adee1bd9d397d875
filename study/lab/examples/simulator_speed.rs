//! How fast the simulator is: block writes, the cleaner's included, per second.
//!
//! ```text
//! cargo run --release -p varve-lab --example simulator_speed
//! ```
//!
//! One thread, so on a busy machine `time` tells more than what is printed.

use std::time::Instant;
use varve_lab::simulator::{Age, Setup, Shape, Simulator};
use varve_lab::workload::{Skew, Skewed, Workload, gather};

const LIVE: u32 = 200_000;
const SEGMENT_BLOCKS: u32 = 256;

fn main() {
    for policy in varve_lab::policy::all() {
        let name = policy.name();
        let mut workload = Skewed::of_blocks(Skew::Uniform, LIVE, 1);
        let locality = workload.locality();
        let setup = Setup {
            shape: Shape::for_utilisation(LIVE, LIVE, SEGMENT_BLOCKS, 0.8),
            live_max: LIVE,
            policy,
            batch: 1,
            buffer_blocks: None,
            reordering: None,
            age: Age::Youngest,
        };
        let mut sim = Simulator::new(setup, &*locality);
        let mut ops = Vec::new();
        workload.prefill(&mut ops);
        gather(&mut workload, 20 * LIVE as usize, &mut ops);
        let start = Instant::now();
        sim.run(&ops);
        let seconds = start.elapsed().as_secs_f64();
        let written = sim.counters().logged + sim.counters().moved();
        println!("{name:<14} {:.1} M/s", written as f64 / seconds / 1e6);
    }
}
