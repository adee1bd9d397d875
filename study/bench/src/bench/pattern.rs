//! Data that can be checked wherever it comes back, and repeatable chance.
//!
//! Every 8-byte word of a file is a function of (file, generation, offset), so
//! any aligned range can be made or checked on its own, and a block that comes
//! back from the wrong place or the wrong time is noticed. The arithmetic is
//! that of the reference benchmark: the same seed gives the same bytes.

use super::target::{Fault, Outcome};

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A number in `0..bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// A random order of `0..n`.
pub fn permutation(n: u64, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut order: Vec<u32> = (0..n as u32).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    order
}

/// Makes and checks content.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Varies the content of a whole run.
    pub seed: u64,
}

impl Pattern {
    fn start(self, file: u64, generation: u64, offset: u64) -> u64 {
        let which = file
            .wrapping_mul(0xd134_2543_de82_ef95)
            .wrapping_add(generation.wrapping_mul(0xaf25_1af3_b0f0_25b5))
            .wrapping_add(self.seed);
        mix(which).wrapping_add((offset / 8).wrapping_mul(GOLDEN))
    }

    /// Fills `buffer` with what belongs at `offset`, a multiple of 8.
    pub fn fill(self, buffer: &mut [u8], file: u64, generation: u64, offset: u64) {
        let mut x = self.start(file, generation, offset);
        let mut words = buffer.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&(x ^ (x >> 32)).to_le_bytes());
            x = x.wrapping_add(GOLDEN);
        }
        let rest = words.into_remainder();
        let last = (x ^ (x >> 32)).to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }

    /// Checks what came back from `offset`.
    ///
    /// # Errors
    /// `Data` if it is not what was written.
    pub fn check(
        self,
        buffer: &[u8],
        file: u64,
        generation: u64,
        offset: u64,
        what: &str,
    ) -> Outcome<()> {
        let mut x = self.start(file, generation, offset);
        let mut difference = 0;
        let words = buffer.chunks_exact(8);
        let rest = words.remainder();
        for word in words {
            let found = u64::from_le_bytes(word.try_into().expect("8 bytes"));
            difference |= found ^ x ^ (x >> 32);
            x = x.wrapping_add(GOLDEN);
        }
        let last = (x ^ (x >> 32)).to_le_bytes();
        if difference != 0 || rest != &last[..rest.len()] {
            return Err(Fault::data(what, file, offset));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_agree_and_mistakes_are_noticed() {
        let pattern = Pattern { seed: 1 };
        let mut whole = vec![0; 8192 + 5];
        pattern.fill(&mut whole, 3, 2, 0);
        pattern.check(&whole[4096..], 3, 2, 4096, "t").unwrap();
        assert!(pattern.check(&whole, 3, 1, 0, "t").is_err());
        assert!(pattern.check(&whole[4096..], 3, 2, 0, "t").is_err());
        whole[8196] ^= 1;
        assert!(pattern.check(&whole, 3, 2, 0, "t").is_err());
    }

    #[test]
    fn a_permutation_holds_every_number_once() {
        let mut order = permutation(1000, 5);
        assert_ne!(order[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        order.sort_unstable();
        assert!(order.iter().enumerate().all(|(i, &n)| i == n as usize));
    }
}
