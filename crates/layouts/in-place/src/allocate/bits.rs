//! A set of small numbers: a bit for each number, and above the bits words that say
//! which words below have any bit set. Finding the next member takes one or two steps
//! per level.

/// A set of numbers below a fixed size, with fast search for the next member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BitTree {
    /// The levels from the bits themselves upwards; the last one is a single word.
    levels: Vec<Vec<u64>>,
    size: u64,
    count: u64,
}

impl BitTree {
    /// Creates an empty set of numbers below `size`.
    pub(super) fn new(size: u64) -> Self {
        let mut levels = Vec::new();
        let mut bits = size;
        loop {
            let words = bits.div_ceil(64).max(1);
            levels.push(vec![0; words as usize]);
            if words == 1 {
                break;
            }
            bits = words;
        }
        BitTree {
            levels,
            size,
            count: 0,
        }
    }

    /// Creates the set of all numbers below `size`.
    pub(super) fn full(size: u64) -> Self {
        let mut tree = BitTree::new(size);
        let mut bits = size;
        for level in &mut tree.levels {
            for (at, word) in level.iter_mut().enumerate() {
                let here = bits.saturating_sub(at as u64 * 64);
                *word = match here {
                    64.. => u64::MAX,
                    _ => (1 << here) - 1,
                };
            }
            bits = bits.div_ceil(64);
        }
        tree.count = size;
        tree
    }

    /// Returns the bound of the numbers.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of members.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        number < self.size && self.levels[0][(number / 64) as usize] >> (number % 64) & 1 == 1
    }

    /// Adds a member. Returns true if it was not one before.
    pub(super) fn insert(&mut self, number: u64) -> bool {
        debug_assert!(number < self.size);
        if self.contains(number) {
            return false;
        }
        self.count += 1;
        let mut at = number;
        for level in &mut self.levels {
            let word = &mut level[(at / 64) as usize];
            let had_any = *word != 0;
            *word |= 1 << (at % 64);
            if had_any {
                break;
            }
            at /= 64;
        }
        true
    }

    /// Removes a member. Returns true if it was one before.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        if !self.contains(number) {
            return false;
        }
        self.count -= 1;
        let mut at = number;
        for level in &mut self.levels {
            let word = &mut level[(at / 64) as usize];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                break;
            }
            at /= 64;
        }
        true
    }

    /// Returns the least member that is not below `from`.
    pub(super) fn next(&self, from: u64) -> Option<u64> {
        let mut at = from;
        for (height, level) in self.levels.iter().enumerate() {
            let index = (at / 64) as usize;
            let rest = level.get(index)? >> (at % 64);
            if rest != 0 {
                return Some(self.descend(height, at + u64::from(rest.trailing_zeros())));
            }
            at = at / 64 + 1;
        }
        None
    }

    /// Returns the least member that is not below `from`; if there is none, the least
    /// of all.
    pub(super) fn next_around(&self, from: u64) -> Option<u64> {
        self.next(from).or_else(|| self.next(0))
    }

    /// Returns the least member in `from..to`.
    pub(super) fn next_within(&self, from: u64, to: u64) -> Option<u64> {
        self.next(from).filter(|number| *number < to)
    }

    /// Returns the least member below bit `at` of level `height`.
    fn descend(&self, height: usize, mut at: u64) -> u64 {
        for level in self.levels[..height].iter().rev() {
            at = at * 64 + u64::from(level[at as usize].trailing_zeros());
        }
        at
    }

    /// Returns the members in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let number = self.next(from)?;
            from = number + 1;
            Some(number)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::mix::Draws;
    use std::collections::BTreeSet;

    #[test]
    fn it_is_a_set() {
        for size in [0, 1, 63, 64, 65, 4096, 4097, 300_000] {
            let full = BitTree::full(size);
            assert_eq!(full.count(), size);
            assert_eq!(full.next(0), (size > 0).then_some(0));
            assert_eq!(full.next(size.saturating_sub(1)), size.checked_sub(1));
            assert_eq!(full.next(size), None);
            let mut filled = BitTree::new(size);
            (0..size).for_each(|number| assert!(filled.insert(number)));
            assert_eq!(filled, full);
            (0..size).for_each(|number| assert!(filled.remove(number)));
            assert_eq!(filled, BitTree::new(size));
        }
    }

    #[test]
    fn random_members_are_those_of_an_ordered_set() {
        let mut draws = Draws::new(7);
        for size in [70, 5000, 270_000] {
            let (mut tree, mut set) = (BitTree::new(size), BTreeSet::new());
            for _ in 0..20_000 {
                let number = draws.below(size);
                match draws.below(3) {
                    0 => assert_eq!(tree.insert(number), set.insert(number)),
                    1 => assert_eq!(tree.remove(number), set.remove(&number)),
                    _ => assert_eq!(tree.next(number), set.range(number..).next().copied()),
                }
                assert_eq!(tree.count(), set.len() as u64);
            }
            assert!(tree.iter().eq(set));
        }
    }
}
