//! The one source of chance of a run, and the environment that steers it.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A stream of draws that its seed alone decides.
#[derive(Debug, Clone)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A draw from `0..bound`.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a draw from nothing");
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `n` draws.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of the choices.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}

/// The run's seed: `VARVE_SEED`, or `default`, printed with the command that
/// repeats the run. Call it first in every randomised test.
pub fn announce_seed(test: &str, default: u64) -> u64 {
    let seed = std::env::var("VARVE_SEED")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(default);
    eprintln!("reproduce: VARVE_SEED={seed} cargo test -p varve-prove {test}");
    seed
}

/// How much more than usual is asked of tests: `VARVE_PROVE_SCALE`, a decimal number,
/// default 1.
pub fn scale() -> f64 {
    std::env::var("VARVE_PROVE_SCALE")
        .ok()
        .and_then(|text| text.trim().parse::<f64>().ok())
        .filter(|scale| scale.is_finite() && *scale > 0.0)
        .unwrap_or(1.0)
}

/// `count` times [`scale`], at least 1.
pub fn scaled(count: u64) -> u64 {
    ((count as f64 * scale()) as u64).max(1)
}
