//! The full volume: deletes always succeed and free their space.

use varve_prove::full;
use varve_prove::random::{announce_seed, scaled};
use varve_prove::subjects::Log;

fn cycles(subject: &Log, seed: u64, count: u64) {
    if let Err(failure) = full::cycles(subject, seed, count) {
        panic!("{failure}");
    }
}

#[test]
fn fill_and_delete_cycles() {
    let seed = announce_seed("fill_and_delete_cycles", 1);
    cycles(
        &Log {
            device_bytes: 6 << 20,
            ..Log::default()
        },
        seed,
        scaled(25),
    );
}

#[test]
fn fill_and_delete_cycles_of_a_tiny_volume() {
    let seed = announce_seed("fill_and_delete_cycles_of_a_tiny_volume", 2);
    cycles(
        &Log {
            device_bytes: 3584 << 10,
            ..Log::default()
        },
        seed,
        scaled(25),
    );
}
