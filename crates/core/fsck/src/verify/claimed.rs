//! Detects two pointers to the same place.
//!
//! There is a bit for each [`UNIT`] bytes of the segments with live blocks. If all bits
//! would take more than [`LIMIT`], the segments visited last are not tested for overlaps;
//! sums of live bytes and the offline check still cover them.

use std::collections::HashMap;

/// Bytes per bit: the smallest inode.
const UNIT: u64 = 256;
/// Bytes of memory for the bits: enough for 16 GiB.
const LIMIT: usize = 8 << 20;

/// The places visited so far.
#[derive(Debug, Default)]
pub struct Claimed {
    segments: HashMap<u32, Vec<u64>>,
    bytes: usize,
}

impl Claimed {
    /// Takes `length` bytes at `offset` of a segment of `segment_bytes`. Returns false if
    /// any of them was taken before.
    pub fn claim(&mut self, segment: u32, segment_bytes: u32, offset: u64, length: u64) -> bool {
        let words = (u64::from(segment_bytes) / UNIT).div_ceil(64) as usize;
        if !self.segments.contains_key(&segment) {
            if self.bytes + words * 8 > LIMIT {
                return true;
            }
            self.bytes += words * 8;
            self.segments.insert(segment, vec![0; words]);
        }
        let bits = self.segments.get_mut(&segment).expect("just made");
        let mut free = true;
        for unit in offset / UNIT..(offset + length).div_ceil(UNIT) {
            let (word, bit) = ((unit / 64) as usize, 1 << (unit % 64));
            free &= bits[word] & bit == 0;
            bits[word] |= bit;
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_claim_is_refused_and_memory_is_bounded() {
        let mut claimed = Claimed::default();
        assert!(claimed.claim(3, 1 << 20, 4096, 512));
        assert!(claimed.claim(3, 1 << 20, 4608, 256));
        assert!(claimed.claim(4, 1 << 20, 4096, 512));
        assert!(!claimed.claim(3, 1 << 20, 4352, 4096));
        for segment in 10..100 {
            assert!(claimed.claim(segment, 1 << 30, 0, 4096));
        }
        assert!(claimed.bytes <= LIMIT);
        assert!(claimed.claim(99, 1 << 30, 0, 4096), "not looked for");
    }
}
