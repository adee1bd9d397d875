//! Disjoint ranges of bytes with a value each.

use std::collections::BTreeMap;

/// A value for a range, of which a part can be taken.
pub(crate) trait Part: Clone {
    /// The value for the same range without its first `bytes`.
    fn without_first(&self, bytes: u64) -> Self;
}

/// A range: its start, its length in bytes and its value.
pub(crate) type Range<V> = (u64, u64, V);

/// Ranges by their start. No two overlap, and none is empty.
#[derive(Clone, Debug)]
pub(crate) struct Ranges<V> {
    ranges: BTreeMap<u64, (u64, V)>,
}

impl<V> Default for Ranges<V> {
    fn default() -> Self {
        Ranges {
            ranges: BTreeMap::new(),
        }
    }
}

impl<V: Part> Ranges<V> {
    /// Gives a range a value, and returns what it replaces.
    pub fn insert(&mut self, start: u64, length: u64, value: V) -> Vec<Range<V>> {
        let replaced = self.remove(start, length);
        if length > 0 {
            self.ranges.insert(start, (length, value));
        }
        replaced
    }

    /// Removes a range, and returns its parts that had values.
    pub fn remove(&mut self, start: u64, length: u64) -> Vec<Range<V>> {
        let end = start + length;
        let removed: Vec<Range<V>> = self.within(start, length).collect();
        for (at, _, _) in &removed {
            // The first may begin before the range, the last may end after it.
            let found = self.ranges.range(..=at).next_back();
            let (&from, (bytes, value)) = found.expect("it was found before");
            let (bytes, value) = (*bytes, value.clone());
            self.ranges.remove(&from);
            if from < start {
                self.ranges.insert(from, (start - from, value.clone()));
            }
            if from + bytes > end {
                let rest = value.without_first(end - from);
                self.ranges.insert(end, (from + bytes - end, rest));
            }
        }
        removed
    }

    /// The parts of a range that have values, in ascending order.
    pub fn within(&self, start: u64, length: u64) -> impl Iterator<Item = Range<V>> + '_ {
        let end = start + length;
        let before = self.ranges.range(..start).next_back();
        let first = before.filter(move |(from, (bytes, _))| **from + bytes > start);
        let rest = self.ranges.range(start..end);
        first
            .into_iter()
            .chain(rest)
            .map(move |(&from, (bytes, value))| {
                let begin = from.max(start);
                let value = match begin - from {
                    0 => value.clone(),
                    skipped => value.without_first(skipped),
                };
                (begin, (from + bytes).min(end) - begin, value)
            })
    }

    /// All ranges, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, &V)> {
        self.ranges
            .iter()
            .map(|(start, (length, value))| (*start, *length, value))
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    /// The value of a range is the number of its first byte, counted from some origin.
    impl Part for u64 {
        fn without_first(&self, bytes: u64) -> Self {
            self + bytes
        }
    }

    /// A byte's value in the ranges must be that in an array, after any steps.
    #[test]
    fn ranges_are_those_of_an_array() {
        for seed in 0..200 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let (mut ranges, mut naive) = (Ranges::default(), vec![None; 64]);
            for step in 0..60 {
                let start = random.next_u64() % 64;
                let length = random.next_u64() % (65 - start);
                let parts: Vec<Range<u64>> = ranges.within(start, length).collect();
                let value = 1000 * step;
                let replaced = match random.next_u64() % 3 {
                    0 => ranges.remove(start, length),
                    _ => ranges.insert(start, length, value),
                };
                assert_eq!(replaced, parts, "seed {seed}");
                let inserted = ranges.within(start, length).next().is_some();
                for at in start..start + length {
                    let old = parts.iter().find(|p| p.0 <= at && at < p.0 + p.1);
                    assert_eq!(old.map(|p| p.2 + at - p.0), naive[at as usize]);
                    naive[at as usize] = inserted.then_some(value + at - start);
                }
            }
            for (start, length, value) in ranges.iter() {
                assert!(length > 0);
                for at in start..start + length {
                    assert_eq!(naive[at as usize].take(), Some(value + at - start));
                }
            }
            assert!(naive.iter().all(Option::is_none), "seed {seed}");
        }
    }
}
