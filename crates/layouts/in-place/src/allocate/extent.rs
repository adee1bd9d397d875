//! Extents: runs at any place, of the length that the file's extents have.
//!
//! Each file has one extent size, and grows by as many extents as it needs. The size is
//! drawn around the mean of a *range*, with a deviation of a tenth. The mean is the one
//! that the owner requested, or else one of the policy's. The seed of the draw is the
//! file's number, so that the size need not be stored.
//!
//! Source: Seltzer 1992, §3.3.3, table 3-6.

use super::free_extents::FreeExtents;
use super::mix::{mix, normal};
use super::{Allocator, Extent, FileView, MapError, NoRoom, push};

/// The choice among free runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fit {
    /// The first run that is long enough.
    First,
    /// The shortest run that is long enough; among equals, the first.
    Best,
}

/// The allocation policy of extents.
#[derive(Debug)]
pub struct Extents {
    free: FreeExtents,
    ranges: Vec<u64>,
}

impl Extents {
    /// Creates an empty volume of `units` units. `ranges` are the means, in units, for
    /// files that do not request one.
    ///
    /// # Panics
    /// If there is no range, or one of zero.
    pub fn new(units: u64, fit: Fit, ranges: &[u64]) -> Self {
        assert!(
            !ranges.is_empty() && !ranges.contains(&0),
            "ranges {ranges:?}"
        );
        Extents {
            free: FreeExtents::new(units, fit == Fit::Best),
            ranges: ranges.to_vec(),
        }
    }

    /// Returns the number of units of each of the file's extents.
    pub fn extent_units(&self, file: &FileView) -> u64 {
        let hash = mix(file.number);
        let mean = match file.wish {
            0 => self.ranges[(hash % self.ranges.len() as u64) as usize],
            wish => wish,
        };
        let drawn = mean as f64 * (1.0 + 0.1 * normal(hash));
        drawn.round().max(1.0) as u64
    }
}

impl Allocator for Extents {
    fn capacity(&self) -> u64 {
        self.free.capacity()
    }

    fn free_units(&self) -> u64 {
        self.free.free_units()
    }

    fn extend(&mut self, file: &FileView, units: u64, out: &mut Vec<Extent>) -> Result<(), NoRoom> {
        let from = out.len();
        let each = self.extent_units(file);
        let mut count = units.div_ceil(each);
        while count > 0 {
            let Some(extent) = self.free.take(each, count) else {
                let taken = out.split_off(from);
                self.give_back(&taken);
                let free = self.free_units();
                return Err(NoRoom { units, free });
            };
            count -= extent.units / each;
            push(out, from, extent);
        }
        Ok(())
    }

    /// Takes a unit from the first run, or from the shortest.
    fn piece(&mut self, _: u64) -> Option<Extent> {
        self.free.take(1, 1)
    }

    fn rounded(&self, file: &FileView, units: u64) -> u64 {
        units.next_multiple_of(self.extent_units(file))
    }

    fn release(&mut self, extent: Extent) -> Result<(), MapError> {
        self.free.release(extent)
    }

    fn occupy(&mut self, extent: Extent) -> Result<(), MapError> {
        self.free.occupy(extent)
    }

    fn is_free(&self, extent: Extent) -> bool {
        self.free.run_around(extent).is_some()
    }

    fn free_runs(&self) -> Vec<Extent> {
        self.free.runs().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, units: u64) -> Extent {
        Extent { start, units }
    }

    /// Returns a map with holes of 30, 12 and 20 units, and a free end.
    fn holed(fit: Fit) -> Extents {
        let mut map = Extents::new(200, fit, &[10]);
        for (start, units) in [(0, 10), (40, 10), (62, 8), (90, 10)] {
            map.occupy(extent(start, units)).unwrap();
        }
        map
    }

    fn file_with(map: &Extents, units: u64) -> FileView {
        let file = |number| FileView {
            number,
            ..FileView::default()
        };
        let mut files = (0..).map(file);
        files.find(|file| map.extent_units(file) == units).unwrap()
    }

    #[test]
    fn first_fit_takes_the_first_and_best_fit_the_smallest_hole() {
        for (fit, start) in [(Fit::First, 10), (Fit::Best, 50)] {
            let mut map = holed(fit);
            let file = file_with(&map, 11);
            let mut out = Vec::new();
            map.extend(&file, 1, &mut out).unwrap();
            assert_eq!(out, [extent(start, 11)], "{fit:?}");
        }
    }

    #[test]
    fn what_is_given_back_joins_its_neighbours() {
        let mut map = holed(Fit::Best);
        map.release(extent(40, 10)).unwrap();
        map.release(extent(62, 8)).unwrap();
        assert_eq!(map.free_runs(), [extent(10, 80), extent(100, 100)]);
        assert_eq!(map.release(extent(9, 2)), Err(MapError::Free(extent(9, 2))));
    }

    #[test]
    fn a_range_is_a_normal_distribution_whose_deviation_is_a_tenth() {
        let map = Extents::new(10, Fit::First, &[1024]);
        let sizes = (0..10_000).map(|number| {
            let file = FileView {
                number,
                ..FileView::default()
            };
            map.extent_units(&file) as f64
        });
        let sizes: Vec<f64> = sizes.collect();
        let mean = sizes.iter().sum::<f64>() / 1e4;
        let variance = sizes.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / 1e4;
        assert!((mean - 1024.0).abs() < 4.0, "{mean}");
        assert!((variance.sqrt() - 102.4).abs() < 3.0, "{variance}");
    }

    #[test]
    fn a_refusal_gives_everything_back() {
        let mut map = holed(Fit::First);
        let before = map.free_runs();
        let file = file_with(&map, 11);
        assert!(!map.fits(&file, 161) && map.fits(&file, 100));
        let mut out = Vec::new();
        map.extend(&file, 161, &mut out).unwrap_err();
        assert_eq!((out.len(), map.free_runs()), (0, before));
    }
}
