//! Whether two pointers lead to the same place.
//!
//! A bit for each [`UNIT`] bytes, of the segments that hold something. Where
//! so many hold something that the bits would take more than [`LIMIT`], no
//! overlap is looked for in the segments met last; sums of live bytes and the
//! offline check remain.

use std::collections::HashMap;

/// Bytes one bit stands for: the smallest inode.
const UNIT: u64 = 256;
/// Bytes of memory: enough for 16 GiB.
const LIMIT: usize = 8 << 20;

/// What has been claimed so far.
#[derive(Debug, Default)]
pub struct Claimed {
    segments: HashMap<u32, Vec<u64>>,
    bytes: usize,
}

impl Claimed {
    /// Claims `length` bytes at `offset` of a segment of `segment_bytes`. False
    /// if any of them was claimed before.
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
