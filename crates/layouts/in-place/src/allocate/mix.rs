//! Pseudo-random numbers: hashes, a permutation, a normal draw.
//!
//! They are defined here, because decisions that depend on them may be stored on a
//! disk.

/// Returns the output of one step of splitmix64.
pub(super) fn mix(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns a draw of mean 0 and deviation 1 that `seed` determines (Box & Muller 1958).
pub(super) fn normal(seed: u64) -> f64 {
    let unit = |word: u64| ((word >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let (first, second) = (unit(mix(seed)), unit(mix(mix(seed))));
    (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).cos()
}

/// A permutation of the numbers below `size`, with its inverse: a Feistel network of
/// four rounds over the next even number of bits, iterated until the result is within
/// the range (Black & Rogaway 2002).
#[derive(Debug, Clone, Copy)]
pub(super) struct Permutation {
    size: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    pub(super) fn new(size: u64, seed: u64) -> Self {
        let bits = 64 - size.saturating_sub(1).leading_zeros();
        Permutation {
            size,
            half_bits: bits.div_ceil(2).max(1),
            keys: [0, 1, 2, 3].map(|round| mix(seed ^ mix(round))),
        }
    }

    /// Returns the image of `number`.
    pub(super) fn of(&self, number: u64) -> u64 {
        self.walk(number, |network, at| {
            network
                .keys
                .iter()
                .fold(at, |at, key| network.round(at, *key))
        })
    }

    /// Returns the number whose image is `number`.
    pub(super) fn back(&self, number: u64) -> u64 {
        self.walk(number, |network, at| {
            let keys = network.keys.iter().rev();
            let swapped = network.swap(at);
            let undone = keys.fold(swapped, |at, key| network.round(at, *key));
            network.swap(undone)
        })
    }

    fn walk(&self, number: u64, step: impl Fn(&Self, u64) -> u64) -> u64 {
        debug_assert!(number < self.size);
        let mut at = step(self, number);
        while at >= self.size {
            at = step(self, at);
        }
        at
    }

    fn mask(&self) -> u64 {
        (1 << self.half_bits) - 1
    }

    fn swap(&self, at: u64) -> u64 {
        (at & self.mask()) << self.half_bits | at >> self.half_bits
    }

    fn round(&self, at: u64, key: u64) -> u64 {
        let (left, right) = (at >> self.half_bits, at & self.mask());
        let mixed = left ^ (mix(right ^ key) & self.mask());
        right << self.half_bits | mixed
    }
}

/// A stream of random numbers, for tests.
#[cfg(test)]
#[derive(Debug)]
pub(super) struct Draws(u64);

#[cfg(test)]
impl Draws {
    pub(super) fn new(seed: u64) -> Self {
        Draws(seed)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_reaches_everything_once_and_back() {
        for size in [1, 2, 3, 64, 65, 1000, 4097] {
            let permutation = Permutation::new(size, 5);
            let mut seen = vec![false; size as usize];
            for number in 0..size {
                let to = permutation.of(number);
                assert!(!std::mem::replace(&mut seen[to as usize], true));
                assert_eq!(permutation.back(to), number);
            }
        }
        let of = |seed| Permutation::new(1000, seed).of(0);
        assert!((1..9).any(|seed| of(seed) != of(0)));
    }

    #[test]
    fn normal_draws_have_their_mean_and_deviation() {
        let draws: Vec<f64> = (0..20_000).map(normal).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.05);
    }
}
