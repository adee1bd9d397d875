//! Units near those that were asked for: what was written together is read
//! together, inodes and index nodes, and the blocks of small files.
//!
//! A miss reads the block around the unit; one next to what was read lately,
//! twice as much as that, up to [`RUN_BYTES`]. Nothing is trusted here: whoever
//! takes a unit compares its checksum, so that what was written over since, or
//! torn, is read again by itself.
//!
//! The log's windows (`varve-lfs/src/reader/windows.rs`) lie in the order in which it
//! was written, are fetched ahead, and are forgotten when their segment is opened.
//! Eager writing has no such order: neighbours are likely, and no more.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use varve_device::Block;
use varve_device::sync::Mutex;

/// Bytes of the longest run.
const RUN_BYTES: u64 = 64 << 10;
/// Runs that are kept.
const RUNS: usize = 4;

/// See the module's head.
#[derive(Debug)]
pub struct Near {
    unit_bytes: u64,
    units_per_block: u64,
    /// Where there may be units.
    within: Range<u64>,
    /// First unit and bytes, the newest last.
    runs: Mutex<VecDeque<(u64, Arc<Block>)>>,
}

impl Near {
    /// Nothing has been read.
    pub fn new(unit_bytes: u32, units_per_block: u32, within: Range<u64>) -> Self {
        Near {
            unit_bytes: unit_bytes.into(),
            units_per_block: units_per_block.into(),
            within,
            runs: Mutex::new(VecDeque::new()),
        }
    }

    /// The bytes of so many units as they were read along with others, if they
    /// were.
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

    /// The units to read for one that is wanted, this one among them; empty if
    /// it is alone.
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

    /// What has been read.
    pub fn keep(&self, first: u64, bytes: Vec<u8>) {
        let mut runs = self.runs.lock();
        if runs.len() == RUNS {
            runs.pop_front();
        }
        runs.push_back((first, Arc::new(bytes.into())));
    }

    /// Forgets everything.
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
