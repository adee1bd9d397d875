//! The crate's only source of random numbers: a seeded generator and its draws.
//!
//! The draws are defined here, not by a library's distributions, so that a
//! failing seed written into a test still fails after an upgrade.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::hash;

/// A stream of random numbers that is determined by the seed alone.
#[derive(Debug, Clone)]
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Creates the stream number `stream` of one seed. Each purpose has a stream of its
    /// own.
    pub(crate) fn stream(seed: u64, stream: u64) -> Self {
        Random::new(hash::step(hash::mix(seed), stream))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a random number in `0..bound`; its bias is below `bound / 2^64`.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a draw from nothing");
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.next() >> 63 == 1
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_below_their_bound_and_repeat() {
        let mut random = Random::stream(1, 2);
        let mut again = Random::stream(1, 2);
        for bound in 1..200 {
            let draw = random.below(bound);
            assert!(draw < bound);
            assert_eq!(draw, again.below(bound));
        }
        assert_ne!(Random::stream(1, 3).next(), Random::stream(1, 2).next());
    }
}
