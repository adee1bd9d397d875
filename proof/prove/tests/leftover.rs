//! A partial segment torn in one life and completed by a torn one of the next must not
//! become valid again. `leftover.rs` explains how.

use varve_prove::leftover::{returned, returned_at_random};
use varve_prove::mounted::Subject;
use varve_prove::random::{announce_seed, scaled};
use varve_prove::subjects::{Log, Toy};

fn hold_at_random(subject: &impl Subject, seed: u64, rounds: u64) {
    for unit in [512, 4096] {
        let (mut tried, mut returned) = (0, 0);
        for round in 0..rounds {
            let found = returned_at_random(subject, unit, seed.wrapping_mul(1_000_003) + round);
            if found.1 > 0 {
                eprintln!("round {round}, units of {unit}: {} came back", found.1);
            }
            (tried, returned) = (tried + found.0, returned + found.1);
        }
        eprintln!("units of {unit}: {returned} of {tried} leftovers came back");
        assert!(tried > 0, "no leftover was torn");
        assert_eq!(returned, 0, "with units of {unit} bytes");
    }
}

fn hold(subject: &impl Subject) {
    for unit in [512, 4096] {
        let (tried, returned) = returned(subject, unit);
        eprintln!("units of {unit}: {returned} of {tried} leftovers came back");
        assert!(tried > 0, "no leftover was torn");
        assert_eq!(returned, 0, "with units of {unit} bytes");
    }
}

#[test]
fn no_leftover_is_completed_on_the_toy() {
    hold(&Toy::default());
}

#[test]
fn no_leftover_is_completed_on_the_log() {
    hold(&Log::default());
}

#[test]
fn no_random_leftover_is_completed_on_the_toy() {
    let seed = announce_seed("no_random_leftover_is_completed_on_the_toy", 1);
    hold_at_random(&Toy::default(), seed, scaled(10));
}

#[test]
fn no_random_leftover_is_completed_on_the_log() {
    let seed = announce_seed("no_random_leftover_is_completed_on_the_log", 1);
    hold_at_random(&Log::default(), seed, scaled(10));
}
