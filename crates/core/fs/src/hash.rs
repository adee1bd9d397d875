//! A fast hash for keys that are internal numbers.

use std::hash::{BuildHasher, Hasher};

/// Builder of [`Mix`] hashers.
#[derive(Clone, Copy, Debug, Default)]
pub struct MixBuilder;

impl BuildHasher for MixBuilder {
    type Hasher = Mix;

    #[inline]
    fn build_hasher(&self) -> Mix {
        Mix(0x9e37_79b9_7f4a_7c15)
    }
}

/// Hash by folded multiplication of 64-bit words.
#[derive(Clone, Copy, Debug)]
pub struct Mix(u64);

impl Hasher for Mix {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0xa076_1d64_78bd_642f_u128;
        self.0 = (product as u64) ^ ((product >> 64) as u64) ^ self.0.rotate_left(23);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn neighbours_spread_over_low_and_high_bits() {
        let hashes: Vec<u64> = (0..4096u64)
            .map(|n| MixBuilder.hash_one((7u64, n)))
            .collect();
        let low: HashSet<u64> = hashes.iter().map(|h| h & 1023).collect();
        let high: HashSet<u64> = hashes.iter().map(|h| h >> 54).collect();
        assert!(
            low.len() > 900 && high.len() > 900,
            "{} {}",
            low.len(),
            high.len()
        );
    }
}
