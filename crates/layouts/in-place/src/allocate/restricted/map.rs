//! Free blocks of a few sizes, counted by region.
//!
//! Invariants: a free unit is in exactly one free block; siblings are never all free
//! (they would be their parent); the counts by region agree with the trees.

use super::super::Extent;
use super::super::bits::BitTree;

/// The free split ratio, as a key: greater where a smaller part of the free space is in
/// largest blocks. A region without any free space has the lowest.
pub(super) type Ratio = u64;

/// The free blocks of all sizes.
#[derive(Debug)]
pub(super) struct Map {
    capacity: u64,
    free: u64,
    /// Number of units of a block, by level, from the smallest.
    sizes: Vec<u64>,
    /// The free blocks, by level, then by number.
    trees: Vec<BitTree>,
    region: u64,
    /// The numbers of free blocks, by region, then by level.
    counts: Vec<u64>,
    /// The ratio of each region, stored because regions are chosen by it.
    ratios: Vec<Ratio>,
}

impl Map {
    pub(super) fn new(units: u64, sizes: &[u64], region: u64) -> Self {
        let capacity = units / sizes[0] * sizes[0];
        let regions = capacity.div_ceil(region).max(1) as usize;
        let mut map = Map {
            capacity,
            free: 0,
            sizes: sizes.to_vec(),
            trees: sizes
                .iter()
                .map(|size| BitTree::new(capacity / size))
                .collect(),
            region,
            counts: vec![0; regions * sizes.len()],
            ratios: vec![0; regions],
        };
        if capacity > 0 {
            map.give(Extent {
                start: 0,
                units: capacity,
            });
        }
        map
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(super) fn free_units(&self) -> u64 {
        self.free
    }

    pub(super) fn levels(&self) -> usize {
        self.sizes.len()
    }

    pub(super) fn size(&self, level: usize) -> u64 {
        self.sizes[level]
    }

    pub(super) fn regions(&self) -> usize {
        self.ratios.len()
    }

    pub(super) fn region_of(&self, unit: u64) -> usize {
        ((unit / self.region) as usize).min(self.ratios.len() - 1)
    }

    pub(super) fn region_start(&self, region: usize) -> u64 {
        region as u64 * self.region
    }

    pub(super) fn count(&self, region: usize, level: usize) -> u64 {
        self.counts[region * self.sizes.len() + level]
    }

    pub(super) fn ratio(&self, region: usize) -> Ratio {
        self.ratios[region]
    }

    /// Returns the number of free units of a region.
    pub(super) fn free_in(&self, region: usize) -> u64 {
        let levels = self.sizes.iter().enumerate();
        levels
            .map(|(level, size)| size * self.count(region, level))
            .sum()
    }

    /// Returns the level of the free block that contains block `number` of `level`.
    pub(super) fn holder(&self, number: u64, level: usize) -> Option<usize> {
        let start = number * self.sizes[level];
        let has = |above: &usize| self.trees[*above].contains(start / self.sizes[*above]);
        (level..self.sizes.len()).find(has)
    }

    /// Finds a block of `level` in a region: the next free one behind `near`, or the
    /// first one of the region; or else the beginning of the smallest larger one.
    /// Returns its first unit, and the level of the free block that contains it.
    pub(super) fn find_in(&self, region: usize, level: usize, near: u64) -> Option<(u64, usize)> {
        let from = self.region_start(region);
        let to = (from + self.region).min(self.capacity);
        let holder = (level..self.sizes.len()).find(|above| self.count(region, *above) > 0)?;
        let size = self.sizes[holder];
        let near = near.clamp(from, to).div_ceil(size);
        let (first, end) = (from / size, to.div_ceil(size));
        let tree = &self.trees[holder];
        let found = tree.next_within(near, end);
        let found = found.or_else(|| tree.next_within(first, end))?;
        Some((found * size, holder))
    }

    /// Takes the block of `level` at `start` out of the free block of level `holder`
    /// that contains it.
    pub(super) fn take(&mut self, start: u64, level: usize, holder: usize) {
        let taken = self.take_out(holder, start / self.sizes[holder]);
        debug_assert!(taken);
        for above in (level + 1..=holder).rev() {
            // All children stay free, except the one that contains the block taken.
            let (size, child) = (self.sizes[above], self.sizes[above - 1]);
            let parent = start / size * size;
            for number in parent / child..(parent + size) / child {
                if number != start / child {
                    self.put_in(above - 1, number);
                }
            }
        }
        self.measure(start);
    }

    /// Returns true if any unit of the extent is free.
    pub(super) fn any_free(&self, extent: Extent) -> bool {
        let any = |(level, size): (usize, &u64)| {
            let (first, end) = (extent.start / size, extent.end().div_ceil(*size));
            self.trees[level].next_within(first, end).is_some()
        };
        self.sizes.iter().enumerate().any(any)
    }

    /// Returns true if all units of the extent are free.
    pub(super) fn all_free(&self, extent: Extent) -> bool {
        let mut blocks = self.blocks(extent);
        blocks.all(|(start, level)| self.holder(start / self.sizes[level], level).is_some())
    }

    /// Takes an extent that is free.
    pub(super) fn occupy(&mut self, extent: Extent) {
        let blocks: Vec<_> = self.blocks(extent).collect();
        for (start, level) in blocks {
            let holder = self.holder(start / self.sizes[level], level);
            self.take(start, level, holder.expect("it is free"));
        }
    }

    /// Releases an extent that is taken.
    pub(super) fn give(&mut self, extent: Extent) {
        let mut start = extent.start;
        while let Some((at, level)) = self.block_at(start, extent.end()) {
            self.join(at / self.sizes[level], level);
            self.measure(at);
            start = at + self.sizes[level];
        }
    }

    /// Returns the largest block that begins at `start` and ends no later than `end`.
    fn block_at(&self, start: u64, end: u64) -> Option<(u64, usize)> {
        let fits = |level: &usize| {
            let size = self.sizes[*level];
            start.is_multiple_of(size) && start + size <= end
        };
        let level = (0..self.sizes.len()).rev().find(fits)?;
        Some((start, level))
    }

    fn blocks(&self, extent: Extent) -> impl Iterator<Item = (u64, usize)> + '_ {
        let mut start = extent.start;
        std::iter::from_fn(move || {
            let (at, level) = self.block_at(start, extent.end())?;
            start += self.sizes[level];
            Some((at, level))
        })
    }

    /// Marks a block as free; while all its siblings are free, its parent is marked
    /// instead.
    fn join(&mut self, mut number: u64, mut level: usize) {
        self.put_in(level, number);
        while level + 1 < self.sizes.len() {
            let siblings = self.sizes[level + 1] / self.sizes[level];
            let parent = number / siblings;
            let family = parent * siblings..(parent + 1) * siblings;
            let free = |sibling| self.trees[level].contains(sibling);
            if parent >= self.trees[level + 1].size() || !family.clone().all(free) {
                return;
            }
            for sibling in family {
                self.take_out(level, sibling);
            }
            level += 1;
            number = parent;
            self.put_in(level, number);
        }
    }

    fn put_in(&mut self, level: usize, number: u64) {
        if self.trees[level].insert(number) {
            let region = self.region_of(number * self.sizes[level]);
            self.counts[region * self.sizes.len() + level] += 1;
            self.free += self.sizes[level];
        }
    }

    fn take_out(&mut self, level: usize, number: u64) -> bool {
        let was = self.trees[level].remove(number);
        if was {
            let region = self.region_of(number * self.sizes[level]);
            self.counts[region * self.sizes.len() + level] -= 1;
            self.free -= self.sizes[level];
        }
        was
    }

    /// Computes the ratio of a unit's region anew, after its counts have changed.
    fn measure(&mut self, unit: u64) {
        let region = self.region_of(unit);
        let largest = self.sizes.len() - 1;
        let whole = self.sizes[largest] * self.count(region, largest);
        let free = self.free_in(region);
        // split / whole is monotone in split / free, whose denominator is never zero
        // here.
        let share = u128::from(free - whole) << 62;
        self.ratios[region] = (share / u128::from(free.max(1))) as u64;
    }

    pub(super) fn free_runs(&self) -> Vec<Extent> {
        let of = |(tree, &size): (&BitTree, &u64)| {
            let extent = |number| Extent {
                start: number * size,
                units: size,
            };
            tree.iter().map(extent).collect::<Vec<_>>()
        };
        let mut runs: Vec<Extent> = self.trees.iter().zip(&self.sizes).flat_map(of).collect();
        runs.sort_unstable();
        runs
    }
}
