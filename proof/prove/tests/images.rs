//! Mutated images cause no panic, no endless loop and no unbounded use of memory.

use std::time::Instant;
use varve_device::MemoryImage;
use varve_prove::crafted;
use varve_prove::explorer::Plan;
use varve_prove::generator::Generator;
use varve_prove::images::{self, Mutants, Outcomes, Repair, peak_memory_bytes};
use varve_prove::mounted::Subject;
use varve_prove::random::{Random, announce_seed, scaled};
use varve_prove::repair::learn_repair;
use varve_prove::subjects::Log;

fn mutate(
    subject: &impl Subject,
    repair: Option<fn(&MemoryImage) -> Repair>,
    seed: u64,
    count: u64,
) {
    let start = Instant::now();
    let generator = Generator::new(Plan::quick(seed).profile, Random::new(seed));
    let mutants = Mutants::new(subject, repair, &images::workload(seed), generator, 4096);
    let mut mutants = match mutants {
        Ok(mutants) => mutants,
        Err(failure) => panic!("{failure}"),
    };
    let before = peak_memory_bytes();
    let mut outcomes = Outcomes::default();
    for index in 0..count {
        if let Err(failure) = mutants.try_one(seed, index, &mut outcomes) {
            panic!("{failure}");
        }
    }
    let rate = count as f64 / start.elapsed().as_secs_f64();
    eprintln!("{outcomes:?}, {rate:.0} mutants/s");
    if let (Some(before), Some(after)) = (before, peak_memory_bytes()) {
        let grown = after.saturating_sub(before) >> 20;
        assert!(
            grown <= 256,
            "{grown} MiB more memory than before the mutants"
        );
    }
}

#[test]
fn mutants_of_the_log() {
    let seed = announce_seed("mutants_of_the_log", 1);
    mutate(&Log::default(), Some(learn_repair), seed, scaled(600));
}

#[test]
fn a_partial_that_describes_more_than_it_holds_ends_the_log() {
    match crafted::too_long(&Log::default()) {
        Ok(tried) => assert!(tried >= 10, "only {tried} forgeries"),
        Err(failure) => panic!("{failure}"),
    }
}
