//! Disjoint ranges of block numbers, each with a state.

use std::collections::BTreeMap;

/// Maps block numbers to states by range. Later insertions win.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeMap<S> {
    /// Start of a range to its end and state; ranges never overlap.
    ranges: BTreeMap<u64, (u64, S)>,
}

impl<S> Default for RangeMap<S> {
    fn default() -> Self {
        RangeMap {
            ranges: BTreeMap::new(),
        }
    }
}

impl<S: Copy + PartialEq> RangeMap<S> {
    /// The state of `block`, if a range holds it.
    pub fn get(&self, block: u64) -> Option<S> {
        let (_, &(end, state)) = self.ranges.range(..=block).next_back()?;
        (block < end).then_some(state)
    }

    /// Gives `from..to` the state `state`.
    pub fn insert(&mut self, from: u64, to: u64, state: S) {
        if from >= to {
            return;
        }
        self.remove(from, to);
        let mut from = from;
        let mut to = to;
        if let Some((&start, &(end, before))) = self.ranges.range(..from).next_back()
            && end == from
            && before == state
        {
            from = start;
        }
        if let Some(&(end, after)) = self.ranges.get(&to)
            && after == state
        {
            self.ranges.remove(&to);
            to = end;
        }
        self.ranges.insert(from, (to, state));
    }

    /// Leaves `from..to` without state.
    pub fn remove(&mut self, from: u64, to: u64) {
        if let Some((&start, &(end, state))) = self.ranges.range(..from).next_back()
            && end > from
        {
            self.ranges.insert(start, (from, state));
            if end > to {
                self.ranges.insert(to, (end, state));
            }
        }
        let inside: Vec<u64> = self
            .ranges
            .range(from..to)
            .map(|(&start, _)| start)
            .collect();
        for start in inside {
            if let Some((end, state)) = self.ranges.remove(&start)
                && end > to
            {
                self.ranges.insert(to, (end, state));
            }
        }
    }

    /// The ranges that overlap `from..to`, cut to it, ascending.
    pub fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64, S)> + '_ {
        let first = self
            .ranges
            .range(..=from)
            .next_back()
            .filter(|(_, (end, _))| *end > from)
            .map_or(from, |(&start, _)| start);
        self.ranges
            .range(first..to)
            .map(move |(&start, &(end, state))| (start.max(from), end.min(to), state))
    }

    /// True if no range is held.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insertion_splits_merges_and_overrides() {
        let mut map = RangeMap::default();
        map.insert(0, 10, 'a');
        map.insert(4, 6, 'b');
        assert_eq!(map.get(3), Some('a'));
        assert_eq!(map.get(4), Some('b'));
        assert_eq!(map.get(6), Some('a'));
        map.insert(4, 6, 'a');
        assert_eq!(map.within(0, u64::MAX).collect::<Vec<_>>(), [(0, 10, 'a')]);
        map.remove(2, 8);
        assert_eq!(
            map.within(1, 9).collect::<Vec<_>>(),
            [(1, 2, 'a'), (8, 9, 'a')]
        );
    }

    #[test]
    fn agrees_with_an_array() {
        use rand::{RngExt, SeedableRng};
        let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(7);
        for _ in 0..200 {
            let mut map = RangeMap::default();
            let mut plain = [None; 32];
            for _ in 0..20 {
                let (a, b) = (rng.random_range(0..32u64), rng.random_range(0..=32u64));
                let (from, to) = (a.min(b), a.max(b));
                if rng.random_range(0..4) == 0 {
                    map.remove(from, to);
                    plain[from as usize..to as usize].fill(None);
                } else {
                    let state = rng.random_range(0..3u8);
                    map.insert(from, to, state);
                    plain[from as usize..to as usize].fill(Some(state));
                }
            }
            for (block, state) in plain.iter().enumerate() {
                assert_eq!(map.get(block as u64), *state);
            }
            let mut listed = [None; 32];
            for (from, to, state) in map.within(0, 32) {
                listed[from as usize..to as usize].fill(Some(state));
            }
            assert_eq!(listed, plain);
        }
    }
}
