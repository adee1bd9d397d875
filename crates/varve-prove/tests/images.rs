//! Mutated images: no panic, no hang, no unbounded memory.

use std::time::Instant;
use varve_device::MemoryImage;
use varve_prove::explorer::Plan;
use varve_prove::generator::Generator;
use varve_prove::images::{Mutants, Outcomes, Repair, peak_memory_bytes};
use varve_prove::mounted::Subject;
use varve_prove::operation::Operation;
use varve_prove::random::{Random, announce_seed, scaled};
use varve_prove::repair::LogRepair;
use varve_prove::subjects::Log;

/// A workload with enough files for index nodes and directory nodes.
fn workload(seed: u64) -> Vec<Operation> {
    let mut profile = Plan::quick(seed).profile;
    profile
        .names
        .extend((0..30).map(|number| format!("{number}^9")));
    profile.file_blocks = 40;
    Generator::new(profile, Random::new(seed)).take(250)
}

fn mutate(
    subject: &impl Subject,
    repair: Option<fn(&MemoryImage) -> Repair>,
    seed: u64,
    count: u64,
) {
    let start = Instant::now();
    let generator = Generator::new(Plan::quick(seed).profile, Random::new(seed));
    let mutants = Mutants::new(subject, repair, &workload(seed), generator, 4096);
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
    let learn = |original: &MemoryImage| {
        let repair = LogRepair::new(original);
        Box::new(move |image: &mut MemoryImage, changed: &[_]| repair.repair(image, changed))
            as Repair
    };
    mutate(&Log::default(), Some(learn), seed, scaled(600));
}
