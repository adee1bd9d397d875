//! The space for the data of a group: whole adjacent blocks, and short blocks packed
//! into them.
//!
//! Invariants:
//! - A block is begun only if data is placed in it, so that a group breaks no more
//!   whole free blocks than it has blocks of data (rule 6 of `docs/spec/vlfs.md`).
//! - No extent extends over two blocks.

use super::Space;
use crate::format::Extent;
use std::collections::VecDeque;
use std::ops::Range;
use varve_vlog::Medium;
use varve_vlog::eager::Want;

impl Space {
    /// Takes space for data of these `lengths`, in units, for as many as fit near each
    /// other, in their order. The caller writes them by one request, because the units
    /// between them are free.
    ///
    /// # Panics
    /// If `lengths` is empty, or one of them is zero or more than a block.
    pub fn take_data(&mut self, medium: &dyn Medium, lengths: &[u32]) -> Option<Vec<Extent>> {
        let each = self.measures.units_per_block();
        let first = &lengths[..1];
        if self.is_short() {
            // Short blocks are placed in existing holes, one by one.
            let whole = lengths.iter().take_while(|&&units| units == each);
            return match whole.count() {
                0 => self.take_row(medium, first),
                whole => self.take_blocks(medium, &lengths[..whole]),
            };
        }
        let all = lengths.iter().map(|&units| u64::from(units)).sum::<u64>();
        let many = match all < u64::from(each) {
            true => self.take_row(medium, lengths),
            false => self.take_blocks(medium, lengths),
        };
        match first[0] < each {
            // Holes are used where no whole block is free.
            true => many.or_else(|| self.take_row(medium, first)),
            false => many,
        }
    }

    /// Takes the nearest adjacent units for all lengths, which together are less than a
    /// block.
    fn take_row(&mut self, medium: &dyn Medium, lengths: &[u32]) -> Option<Vec<Extent>> {
        let unit = self.nearest_part(medium, lengths.iter().sum())?;
        Some(self.enter_row(unit, lengths))
    }

    fn enter_row(&mut self, mut unit: u64, lengths: &[u32]) -> Vec<Extent> {
        let mut taken = Vec::with_capacity(lengths.len());
        for &units in lengths {
            let extent = Extent { unit, units };
            self.take(extent);
            unit = extent.end();
            taken.push(extent);
        }
        taken
    }

    /// Takes the nearest free block, and those behind it that are free in the same
    /// region, as many as are needed.
    fn take_blocks(&mut self, medium: &dyn Medium, lengths: &[u32]) -> Option<Vec<Extent>> {
        let each = self.measures.units_per_block();
        let first = self.nearest(medium, Want::Block)?;
        let block = self.free.place(first).0;
        let region = self.free.regions().of(block);
        let end = self.free.regions().blocks(region).end;
        let run = (block..end).take_while(|&block| self.free.mask(block) == 0);
        let blocks = run.take(lengths.len()).count() as u64;
        let packed = packed(lengths, blocks, each);
        let taken: Vec<Extent> = packed
            .into_iter()
            .zip(lengths)
            .map(|(at, &units)| Extent {
                unit: first + at,
                units,
            })
            .collect();
        taken.iter().for_each(|&extent| self.take(extent));
        Some(taken)
    }

    /// Marks the places of a failed write, all taken by one call: neither they nor the
    /// units between them are reused before the next mount.
    pub fn spoil_all(&mut self, extents: &[Extent]) {
        for unit in span(extents) {
            let (block, bit) = self.free.place(unit);
            if self.free.mask(block) & bit == 0 {
                self.free.take(block, bit);
            }
        }
        extents.iter().for_each(|&extent| self.spoil(extent));
    }
}

/// Returns the range from the first unit of the extents to the last.
fn span(extents: &[Extent]) -> Range<u64> {
    let start = extents.iter().map(|extent| extent.unit).min();
    let end = extents.iter().map(Extent::end).max();
    start.unwrap_or(0)..end.unwrap_or(0)
}

/// Number of begun blocks that are examined for space: blocks that are written together
/// are read together.
const OPEN_BLOCKS: usize = 8;

/// Returns the positions of extents of these `lengths` in `blocks` adjacent free
/// blocks, for as many as fit, in their order. Each is placed in the one of the last
/// few begun blocks in which it leaves the least space, or else in the next block.
fn packed(lengths: &[u32], blocks: u64, each: u32) -> Vec<u64> {
    let mut places = Vec::with_capacity(lengths.len());
    let mut begun = 0;
    // The begun blocks: position and length of their free ends.
    let mut open: VecDeque<(u64, u32)> = VecDeque::with_capacity(OPEN_BLOCKS + 1);
    for &units in lengths {
        assert!((1..=each).contains(&units), "{units} units of {each}");
        let fits = (0..open.len()).filter(|&nth| open[nth].1 >= units);
        let (at, left) = match fits.min_by_key(|&nth| open[nth].1) {
            Some(best) => open.remove(best).expect("one of them"),
            None if begun == blocks => break,
            None => {
                begun += 1;
                ((begun - 1) * u64::from(each), each)
            }
        };
        places.push(at);
        if left > units {
            open.push_back((at + u64::from(units), left - units));
        }
        if open.len() > OPEN_BLOCKS {
            open.pop_front();
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn short_blocks_lie_behind_each_other_and_cross_no_border() {
        assert_eq!(packed(&[2; 6], 9, 8), [0, 2, 4, 6, 8, 10]);
        // A tail is placed behind its block, and the next one's before it.
        assert_eq!(packed(&[8, 8, 3, 8, 5, 1], 9, 8), [0, 8, 16, 24, 19, 32]);
        // An extent is placed where it leaves the least space.
        assert_eq!(packed(&[5, 6, 7, 2, 1, 3], 9, 8), [0, 8, 16, 14, 23, 5]);
        assert_eq!(packed(&[5, 7, 3, 2], 9, 8), [0, 8, 5, 16]);
        // As many are placed as fit.
        assert_eq!(packed(&[5, 7, 3, 2], 2, 8), [0, 8, 5]);
        assert_eq!(packed(&[8, 8, 8], 2, 8), [0, 8]);
        assert_eq!(packed(&[1; 4], 3, 1), [0, 1, 2]);
    }

    #[test]
    fn whatever_the_lengths_nothing_overlaps_and_no_block_is_begun_in_vain() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut draw = |end: u64| random.random_range(0..end);
        for _ in 0..500 {
            let each = 1 << draw(4);
            let count = 1 + draw(60) as usize;
            let lengths: Vec<u32> = (0..count).map(|_| 1 + draw(each) as u32).collect();
            let blocks = 1 + draw(60);
            let places = packed(&lengths, blocks, each as u32);
            assert!(!places.is_empty());
            let mut used = vec![false; (blocks * each) as usize];
            for (&at, &units) in places.iter().zip(&lengths) {
                assert!(at % each + u64::from(units) <= each);
                for unit in at..at + u64::from(units) {
                    assert!(!std::mem::replace(&mut used[unit as usize], true));
                }
            }
            let begun = used.chunks(each as usize).filter(|units| units[0]);
            assert!(begun.count() <= places.len());
            if places.len() < lengths.len() {
                assert!(
                    used.chunks(each as usize).all(|units| units[0]),
                    "room was left"
                );
            }
        }
    }
}
