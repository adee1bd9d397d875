//! Faults at every request, and decay of the medium: each read returns an error or the
//! right data.

use varve_device::FaultKind;
use varve_prove::explorer::Plan;
use varve_prove::faults::{Attack, Decay, REPORTED, SILENT, Tally};
use varve_prove::generator::Generator;
use varve_prove::mounted::Subject;
use varve_prove::operation::Operation;
use varve_prove::random::{Random, announce_seed, scaled};
use varve_prove::subjects::{Log, Toy};

fn workload(seed: u64, length: u64) -> Vec<Operation> {
    Generator::new(Plan::quick(seed).profile, Random::new(seed)).take(length)
}

/// Injects every kind of fault at every `stride`th request that it can strike, once and
/// permanently.
fn attack(subject: &impl Subject, kinds: &[FaultKind], seed: u64, stride: u64) -> Tally {
    let mut tally = Tally::default();
    let operations = workload(seed, 40);
    let attack = Attack {
        subject,
        seed,
        block_bytes: 4096,
    };
    let places = (seed % stride, stride);
    let told = &mut |_, found: &Tally| tally.add(found);
    if let Err(failure) = attack.attack_everywhere(&operations, kinds, places, told) {
        panic!("{failure}");
    }
    report(&tally);
    tally
}

fn report(tally: &Tally) {
    eprintln!(
        "{} runs, {} struck: {} operations failed, {} remounts reported damage, {} had unreadable \
         parts, {} were intact, {} older",
        tally.runs,
        tally.struck,
        tally.failed_operations,
        tally.damage_reported,
        tally.unreadable,
        tally.intact,
        tally.older
    );
    for (kind, count) in tally.injected.iter().filter(|(_, count)| *count > 0) {
        eprintln!("  {kind:?}: {count}");
    }
}

fn decay(subject: &impl Subject, seed: u64, flips: u64) {
    let mut tally = Tally::default();
    for unmounted in [true, false] {
        let attack = Attack {
            subject,
            seed,
            block_bytes: 4096,
        };
        let decay = match Decay::new(attack, &workload(seed, 60), unmounted) {
            Ok(decay) => decay,
            Err(failure) => panic!("{failure}"),
        };
        let mut random = Random::new(seed);
        for _ in 0..flips {
            if let Err(failure) = decay.flip(&mut random, &mut tally) {
                panic!("{failure}");
            }
        }
    }
    report(&tally);
}

#[test]
fn reported_faults_on_the_toy() {
    let seed = announce_seed("reported_faults_on_the_toy", 1);
    for round in 0..scaled(4) {
        attack(&Toy::default(), &REPORTED, seed + round, 1);
    }
}

#[test]
fn silent_faults_on_the_toy() {
    let seed = announce_seed("silent_faults_on_the_toy", 1);
    for round in 0..scaled(4) {
        attack(&Toy::default(), &SILENT, seed + round, 1);
    }
}

#[test]
fn decay_on_the_toy() {
    let seed = announce_seed("decay_on_the_toy", 1);
    decay(&Toy::default(), seed, scaled(200));
}

#[test]
fn reported_faults_on_the_log() {
    let seed = announce_seed("reported_faults_on_the_log", 1);
    for round in 0..scaled(4) {
        attack(&Log::default(), &REPORTED, seed + round, 1);
    }
}

#[test]
fn silent_faults_on_the_log() {
    let seed = announce_seed("silent_faults_on_the_log", 1);
    for round in 0..scaled(4) {
        attack(&Log::default(), &SILENT, seed + round, 1);
    }
}

#[test]
fn decay_on_the_log() {
    let seed = announce_seed("decay_on_the_log", 1);
    decay(&Log::default(), seed, scaled(200));
}
