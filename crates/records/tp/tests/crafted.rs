//! Crafted pages, logs and checkpoints with right checksums give an error, never a panic.
//! The fuzzer continues from here.

use crate::common::{Random, seed};
use varve_tp::fuzzing;

fn attack(target: fn(&[u8]), seeds: Vec<Vec<u8>>, rounds: u64) {
    let mut random = Random::new(seed("crafted"));
    for round in 0..rounds {
        let mut bytes = seeds[random.below(seeds.len() as u64) as usize].clone();
        for _ in 0..random.below(4) {
            bytes.extend_from_slice(&seeds[random.below(seeds.len() as u64) as usize]);
        }
        for _ in 0..1 + random.below(6) {
            if !bytes.is_empty() {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = match random.below(3) {
                    0 => random.below(256) as u8,
                    1 => bytes[at] ^ 1 << random.below(8),
                    _ => [0, 1, 0xff, 0x7f, 0x80][random.below(5) as usize],
                };
            }
        }
        let run = std::panic::AssertUnwindSafe(|| target(&bytes));
        if std::panic::catch_unwind(run).is_err() {
            panic!("round {round}: {bytes:?}");
        }
    }
}

#[test]
fn structures() {
    attack(fuzzing::structures, fuzzing::structure_seeds(), 3000);
}

#[test]
fn tables_of_devices() {
    attack(fuzzing::device_table, fuzzing::device_table_seeds(), 3000);
}

#[test]
fn environments() {
    attack(fuzzing::environment, fuzzing::environment_seeds(), 300);
}
