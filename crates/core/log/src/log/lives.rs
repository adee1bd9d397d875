//! Times at which blocks were last written, in a bounded table.
//!
//! Appending reads nothing, so the displaced block is not available when a policy asks
//! for its life. The table has an entry for each block as long as it has space: sets of
//! eight, in which the oldest entry is replaced. A block without an entry was written
//! long ago.

/// Entries that share a set: a cache line of the processor.
const WAYS: usize = 8;
/// Bits of a time; the remaining bits distinguish blocks of one set.
const TIME_BITS: u32 = 40;

/// The table.
#[derive(Clone, Debug)]
pub struct Lives {
    sets: Vec<[u64; WAYS]>,
    /// Blocks that users have written since the mount, plus one.
    now: u64,
}

impl Lives {
    /// A table for `blocks` blocks, of at most `bytes`.
    pub fn new(blocks: u64, bytes: u64) -> Self {
        // Twice as many as blocks: sets fill unevenly.
        let entries = (2 * blocks).min(bytes / 8).max(WAYS as u64);
        let sets = (entries / WAYS as u64).next_power_of_two();
        let sets = if sets * WAYS as u64 * 8 > bytes.max(64) {
            sets / 2
        } else {
            sets
        };
        Lives {
            sets: vec![[0; WAYS]; sets.max(1) as usize],
            now: 1,
        }
    }

    /// A number that identifies a block, even after a move.
    pub fn name(ino: u64, block: u64) -> u64 {
        // The finaliser of SplitMix64 over both.
        let mut x = ino.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ block.rotate_left(32);
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ block;
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// Number of blocks that users have written so far.
    pub fn now(&self) -> u64 {
        self.now
    }

    fn place(&self, name: u64) -> (usize, u64) {
        let set = name as usize & (self.sets.len() - 1);
        (set, name >> TIME_BITS)
    }

    /// User blocks written since this one was written, if that is known.
    pub fn age(&self, name: u64) -> Option<u64> {
        let (set, tag) = self.place(name);
        let mut entries = self.sets[set].iter();
        let entry = entries.find(|entry| **entry != 0 && **entry >> TIME_BITS == tag)?;
        Some(self.now.saturating_sub(*entry & ((1 << TIME_BITS) - 1)))
    }

    /// Records that a user writes the block now. Returns its age until now.
    pub fn written(&mut self, name: u64) -> Option<u64> {
        let age = self.age(name);
        let (set, tag) = self.place(name);
        let time = |entry: &u64| entry & ((1 << TIME_BITS) - 1);
        let set = &mut self.sets[set];
        let known = set
            .iter()
            .position(|entry| *entry != 0 && entry >> TIME_BITS == tag);
        let oldest = || (0..WAYS).min_by_key(|way| time(&set[*way])).unwrap_or(0);
        let way = known.unwrap_or_else(oldest);
        set[way] = tag << TIME_BITS | self.now & ((1 << TIME_BITS) - 1);
        self.now += 1;
        age
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_count_user_blocks_and_the_oldest_is_forgotten() {
        let mut lives = Lives::new(1000, 1 << 20);
        assert_eq!(lives.written(Lives::name(3, 7)), None);
        for block in 100..110 {
            assert_eq!(lives.written(Lives::name(4, block)), None);
        }
        assert_eq!(lives.age(Lives::name(3, 7)), Some(11));
        assert_eq!(lives.age(Lives::name(7, 3)), None);
        assert_eq!(lives.written(Lives::name(3, 7)), Some(11));
        assert_eq!(lives.written(Lives::name(3, 7)), Some(1));
        // Space for eight entries.
        let mut few = Lives::new(1000, 64);
        for block in 0..9 {
            few.written(Lives::name(1, block));
        }
        assert_eq!(few.age(Lives::name(1, 0)), None);
        for block in 1..9 {
            assert_eq!(few.age(Lives::name(1, block)), Some(9 - block));
        }
    }
}
