//! The source of randomness of a run, and its environment variables.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A random stream that follows from its seed alone.
#[derive(Debug, Clone)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Returns the stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns the next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws from `0..bound`.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a draw from nothing");
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true once in `n` draws.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Draws one of the choices.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}

/// Returns the run's seed, `VARVE_SEED` or `default`, and prints it with the command that
/// repeats the run. Every randomised test calls this first.
pub fn announce_seed(test: &str, default: u64) -> u64 {
    let seed = std::env::var("VARVE_SEED")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(default);
    eprintln!("reproduce: VARVE_SEED={seed} cargo test -p varve-prove {test}");
    seed
}

/// Returns the factor for the work of tests: `VARVE_PROVE_SCALE`, a decimal number,
/// default 1.
pub fn scale() -> f64 {
    std::env::var("VARVE_PROVE_SCALE")
        .ok()
        .and_then(|text| text.trim().parse::<f64>().ok())
        .filter(|scale| scale.is_finite() && *scale > 0.0)
        .unwrap_or(1.0)
}

/// Returns `count` times [`scale`], at least 1.
pub fn scaled(count: u64) -> u64 {
    ((count as f64 * scale()) as u64).max(1)
}
