//! Units near a requested one: inodes, index nodes and blocks of small files that were
//! written together are read together.
//!
//! A miss reads the block around the unit. A miss next to units read lately reads twice
//! as much as that read, up to [`RUN_BYTES`]. The bytes are not trusted: the caller
//! compares the checksum of its unit, so that a unit that was overwritten since, or
//! torn, is read again by itself.
//!
//! The log's windows (`varve-lfs/src/reader/windows.rs`) follow the order in which it
//! was written, are fetched ahead, and are dropped when their segment is reused. Eager
//! writing has no such order: neighbours are likely to be wanted, and no more.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use varve_device::Block;
use varve_device::sync::Mutex;

/// Maximum size of a run, in bytes.
const RUN_BYTES: u64 = 64 << 10;
/// Number of runs that are kept.
const RUNS: usize = 4;

/// A cache of runs of units that were read together.
#[derive(Debug)]
pub struct Near {
    unit_bytes: u64,
    units_per_block: u64,
    /// The units that may be read.
    within: Range<u64>,
    /// First unit and bytes of each run, the newest last.
    runs: Mutex<VecDeque<(u64, Arc<Block>)>>,
}

impl Near {
    /// Creates an empty cache.
    pub fn new(unit_bytes: u32, units_per_block: u32, within: Range<u64>) -> Self {
        Near {
            unit_bytes: unit_bytes.into(),
            units_per_block: units_per_block.into(),
            within,
            runs: Mutex::new(VecDeque::new()),
        }
    }

    /// Returns the bytes of `units` units, if they were read together with others.
    pub fn get(&self, unit: u64, units: u64) -> Option<Vec<u8>> {
        let (at, run) = {
            let runs = self.runs.lock();
            runs.iter().rev().find_map(|(first, bytes)| {
                let at = unit.checked_sub(*first)? * self.unit_bytes;
                let whole = at + units * self.unit_bytes <= bytes.len() as u64;
                whole.then(|| (at as usize, Arc::clone(bytes)))
            })?
        };
        Some(run[at..at + (units * self.unit_bytes) as usize].to_vec())
    }

    /// Returns the units to read for a wanted one, which is among them; empty if it
    /// should be read by itself.
    pub fn around(&self, unit: u64) -> Range<u64> {
        if !self.within.contains(&unit) {
            return 0..0;
        }
        let block = unit / self.units_per_block * self.units_per_block;
        let end = block + self.units_per_block;
        let most = (RUN_BYTES / self.unit_bytes).max(1);
        let runs = self.runs.lock();
        let neighbour = runs.iter().rev().find_map(|(first, bytes)| {
            let units = bytes.len() as u64 / self.unit_bytes;
            let near = first.saturating_sub(units)..first + 2 * units;
            near.contains(&unit).then_some((unit >= *first, units))
        });
        let run = match neighbour {
            None => block..end,
            Some((true, units)) => block..block + (2 * units).clamp(1, most),
            Some((false, units)) => end.saturating_sub((2 * units).clamp(1, most))..end,
        };
        run.start.max(self.within.start)..run.end.min(self.within.end)
    }

    /// Adds a run that has been read.
    pub fn keep(&self, first: u64, bytes: Vec<u8>) {
        let mut runs = self.runs.lock();
        if runs.len() == RUNS {
            runs.pop_front();
        }
        runs.push_back((first, Arc::new(bytes.into())));
    }

    /// Drops all runs.
    pub fn clear(&self) {
        self.runs.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near() -> Near {
        Near::new(512, 8, 16..10_000)
    }

    #[test]
    fn a_miss_reads_its_block_and_neighbours_twice_as_much() {
        let near = near();
        assert_eq!(near.around(83), 80..88);
        near.keep(80, vec![1; 8 * 512]);
        assert_eq!(near.get(87, 1), Some(vec![1; 512]));
        assert_eq!(near.get(88, 1), None);
        assert_eq!(near.get(79, 1), None);
        assert_eq!(near.get(80, 8), Some(vec![1; 8 * 512]));
        assert_eq!(near.get(81, 8), None);
        assert_eq!(near.around(88), 88..104);
        assert_eq!(near.around(79), 64..80);
        assert_eq!(near.around(200), 200..208, "not a neighbour");
        near.keep(88, vec![2; 16 * 512]);
        assert_eq!(near.around(104), 104..136);
        near.keep(104, vec![3; 128 * 512]);
        assert_eq!(near.around(232), 232..360, "no more than 64 KiB");
        near.clear();
        assert_eq!(near.get(104, 1), None);
    }

    #[test]
    fn runs_end_where_units_do_and_old_ones_are_forgotten() {
        let near = near();
        near.keep(9_984, vec![0; 8 * 512]);
        assert_eq!(near.around(9_992), 9_992..10_000);
        assert_eq!(near.around(3), 0..0);
        for first in 0..RUNS as u64 {
            near.keep(1000 + 100 * first, vec![0; 8 * 512]);
        }
        assert_eq!(near.get(9_984, 1), None);
        assert!(near.get(1000, 1).is_some());
        let alone = Near::new(4096, 1, 0..100);
        assert_eq!(alone.around(5), 5..6);
        alone.keep(5, vec![0; 4096]);
        assert_eq!(alone.around(6), 6..8);
    }
}
