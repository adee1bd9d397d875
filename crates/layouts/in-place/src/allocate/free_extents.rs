//! Free runs of any length at any place, always coalesced, with an index that finds the
//! first or the smallest run that is long enough.

use super::{Extent, MapError, inside};
use std::collections::{BTreeMap, BTreeSet};

/// Number of units in a piece of the volume. For first fit, the index keeps the length
/// of the longest run that begins in each piece.
const PIECE: u64 = 256;

/// The free runs of a volume.
#[derive(Debug)]
pub(super) struct FreeExtents {
    capacity: u64,
    free: u64,
    /// The length of each run in units, by its first unit.
    runs: BTreeMap<u64, u64>,
    index: Index,
}

/// The index for the search that the policy uses.
#[derive(Debug)]
enum Index {
    First(Maxima),
    /// The runs by length, then by first unit.
    Best(BTreeSet<(u64, u64)>),
}

impl FreeExtents {
    /// Creates a volume with all units free. With `best`, searches return the smallest
    /// run that is long enough, otherwise the first one.
    pub(super) fn new(capacity: u64, best: bool) -> Self {
        let index = match best {
            true => Index::Best(BTreeSet::new()),
            false => Index::First(Maxima::new(capacity.div_ceil(PIECE))),
        };
        let mut extents = FreeExtents {
            capacity,
            free: 0,
            runs: BTreeMap::new(),
            index,
        };
        if capacity > 0 {
            extents.insert(0, capacity);
        }
        extents
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(super) fn free_units(&self) -> u64 {
        self.free
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = Extent> + '_ {
        let extent = |(&start, &units): (&u64, &u64)| Extent { start, units };
        self.runs.iter().map(extent)
    }

    /// Takes up to `count` adjacent extents of `each` units, from the beginning of the
    /// first or smallest run that contains one. Taking them one by one would give the
    /// same extents, because the rest of the run remains the first or the smallest.
    pub(super) fn take(&mut self, each: u64, count: u64) -> Option<Extent> {
        let (start, run) = match &self.index {
            Index::First(maxima) => {
                let piece = maxima.first(each)?;
                let runs = self.runs.range(piece * PIECE..);
                let mut serving = runs.filter(|run| *run.1 >= each);
                let (start, run) = serving.next().expect("the piece has such a run");
                (*start, *run)
            }
            Index::Best(by_length) => {
                let (run, start) = by_length.range((each, 0)..).next()?;
                (*start, *run)
            }
        };
        let units = each * count.min(run / each);
        let extent = Extent { start, units };
        let taken = self.occupy(extent);
        taken.expect("the run is free");
        Some(extent)
    }

    /// Returns the run that contains all of the extent.
    pub(super) fn run_around(&self, extent: Extent) -> Option<Extent> {
        let (&start, &units) = self.runs.range(..=extent.start).next_back()?;
        let run = Extent { start, units };
        (extent.units > 0 && run.end() >= extent.end()).then_some(run)
    }

    pub(super) fn occupy(&mut self, extent: Extent) -> Result<(), MapError> {
        inside(extent, self.capacity)?;
        let run = self.run_around(extent).ok_or(MapError::Taken(extent))?;
        let Extent { start, units } = run;
        self.remove(start);
        if start < extent.start {
            self.insert(start, extent.start - start);
        }
        if extent.end() < start + units {
            self.insert(extent.end(), start + units - extent.end());
        }
        Ok(())
    }

    pub(super) fn release(&mut self, extent: Extent) -> Result<(), MapError> {
        inside(extent, self.capacity)?;
        let before = self.runs.range(..extent.end()).next_back();
        let before = before.map(|(&start, &units)| Extent { start, units });
        if before.is_some_and(|run| run.end() > extent.start) {
            return Err(MapError::Free(extent));
        }
        let (mut start, mut end) = (extent.start, extent.end());
        if let Some(run) = before.filter(|run| run.end() == start) {
            self.remove(run.start);
            start = run.start;
        }
        if let Some(&units) = self.runs.get(&end) {
            self.remove(end);
            end += units;
        }
        self.insert(start, end - start);
        Ok(())
    }

    fn insert(&mut self, start: u64, units: u64) {
        self.runs.insert(start, units);
        self.free += units;
        match &mut self.index {
            Index::First(maxima) => maxima.raise(start / PIECE, units),
            Index::Best(by_length) => {
                by_length.insert((units, start));
            }
        }
    }

    fn remove(&mut self, start: u64) {
        let units = self.runs.remove(&start).expect("a run begins there");
        self.free -= units;
        match &mut self.index {
            Index::First(maxima) => {
                let piece = start / PIECE;
                let here = self.runs.range(piece * PIECE..(piece + 1) * PIECE);
                maxima.set(piece, here.map(|run| *run.1).max().unwrap_or(0));
            }
            Index::Best(by_length) => {
                by_length.remove(&(units, start));
            }
        }
    }
}

/// A tree of maxima, which finds the first leaf with at least a given value in few
/// steps.
#[derive(Debug)]
struct Maxima {
    /// The nodes: 1 is the root, the children of `n` are `2n` and `2n + 1`.
    nodes: Vec<u64>,
    leaves: usize,
}

impl Maxima {
    fn new(leaves: u64) -> Self {
        let leaves = (leaves.max(1) as usize).next_power_of_two();
        Maxima {
            nodes: vec![0; 2 * leaves],
            leaves,
        }
    }

    fn set(&mut self, leaf: u64, value: u64) {
        let mut at = self.leaves + leaf as usize;
        self.nodes[at] = value;
        while at > 1 {
            at /= 2;
            let value = self.nodes[2 * at].max(self.nodes[2 * at + 1]);
            if std::mem::replace(&mut self.nodes[at], value) == value {
                return;
            }
        }
    }

    /// Raises the value of a leaf to at least `value`.
    fn raise(&mut self, leaf: u64, value: u64) {
        if self.nodes[self.leaves + leaf as usize] < value {
            self.set(leaf, value);
        }
    }

    /// Returns the first leaf with at least `value`.
    fn first(&self, value: u64) -> Option<u64> {
        if self.nodes[1] < value {
            return None;
        }
        let mut at = 1;
        while at < self.leaves {
            at *= 2;
            at += usize::from(self.nodes[at] < value);
        }
        Some((at - self.leaves) as u64)
    }
}
