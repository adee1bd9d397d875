//! The next free place in order, on a device whose head position is not known.

use std::ops::Range;

use super::{Avoid, Eager, Want};
use crate::free_space::FreeSpace;

/// Number of blocks within which a better place is searched for.
const NEAR_BLOCKS: usize = 256;

impl Eager {
    /// Returns the next free place after the last one chosen, cyclically.
    pub(super) fn next_in_order(
        &mut self,
        free: &FreeSpace,
        want: Want,
        avoid: Avoid,
    ) -> Option<u64> {
        let units = u64::from(free.units_per_block());
        let regions = free.regions();
        let blocks = regions.blocks(regions.len() - 1).end;
        let from = ((self.cursor.div_ceil(units)) as u32).min(blocks);
        let count = want.units(free.units_per_block());
        let found = match want {
            Want::Unit if units == 1 => self
                .part_in(free, from..blocks, avoid, count, false)
                .or_else(|| self.part_in(free, 0..from, avoid, count, false)),
            // A partly used block just behind the cursor is first, because the last map
            // sector was placed there.
            Want::Unit | Want::Part(_) => self
                .part_in(free, from.saturating_sub(1)..blocks, avoid, count, true)
                .or_else(|| self.part_in(free, 0..from, avoid, count, true))
                .or_else(|| self.part_in(free, from..blocks, avoid, count, false))
                .or_else(|| self.part_in(free, 0..from, avoid, count, false)),
            Want::Block => self
                .pair_in(free, from..blocks, avoid)
                .or_else(|| self.block_in(free, from..blocks, avoid))
                .or_else(|| self.block_in(free, 0..from, avoid)),
            Want::Anywhere => {
                let end = u64::from(blocks) * units;
                let from = self.cursor.min(end);
                let round = 0..(from + units - 1).min(end);
                run_in(free, from..end, avoid).or_else(|| run_in(free, round, avoid))
            }
        };
        match found {
            Some(unit) => {
                self.cursor = match want {
                    Want::Block | Want::Anywhere => unit + units,
                    Want::Unit | Want::Part(_) => self.cursor.max(unit + u64::from(count)),
                };
                Some(unit)
            }
            None if avoid.empty => {
                let all = Avoid {
                    empty: false,
                    ..avoid
                };
                self.next_in_order(free, want, all)
            }
            None => None,
        }
    }

    /// Returns a free block with a free one behind it, if single ones are to be avoided
    /// and it is near.
    fn pair_in(&self, free: &FreeSpace, range: Range<u32>, avoid: Avoid) -> Option<u64> {
        let end = range.end;
        let is_pair =
            |&block: &u32| free.mask(block) == 0 && block + 1 < end && free.mask(block + 1) == 0;
        let mut near = candidates(free, range, avoid).take(NEAR_BLOCKS);
        let block = avoid.single.then(|| near.find(is_pair))??;
        Some(u64::from(block) * u64::from(free.units_per_block()))
    }

    fn block_in(&self, free: &FreeSpace, range: Range<u32>, avoid: Avoid) -> Option<u64> {
        let block = candidates(free, range, avoid).find(|&block| free.mask(block) == 0)?;
        Some(u64::from(block) * u64::from(free.units_per_block()))
    }

    /// Returns `units` adjacent free units in a block; in one that is `partial`ly used,
    /// if there are some nearby.
    fn part_in(
        &self,
        free: &FreeSpace,
        range: Range<u32>,
        avoid: Avoid,
        units: u32,
        partial: bool,
    ) -> Option<u64> {
        let near = if partial { NEAR_BLOCKS } else { usize::MAX };
        let mut blocks = candidates(free, range, avoid).take(near);
        blocks.find_map(|block| {
            let rooms = free.rooms(block, units);
            let first = u64::from(block) * u64::from(free.units_per_block());
            let suits = rooms != 0 && (!partial || free.mask(block) != 0);
            suits.then(|| first + u64::from(rooms.trailing_zeros()))
        })
    }
}

/// Returns a run of as many free units as a block has, in one region.
fn run_in(free: &FreeSpace, range: Range<u64>, avoid: Avoid) -> Option<u64> {
    let units = u64::from(free.units_per_block());
    let blocks = (range.start / units) as u32..range.end.div_ceil(units) as u32;
    regions_in(free, blocks, avoid).find_map(|blocks| {
        let region = u64::from(blocks.start) * units..u64::from(blocks.end) * units;
        let within = region.start.max(range.start)..region.end.min(range.end);
        free.run_of(within, units as u32)
    })
}

/// Returns the blocks of a range, without regions that are full or to be avoided.
fn candidates(free: &FreeSpace, range: Range<u32>, avoid: Avoid) -> impl Iterator<Item = u32> {
    regions_in(free, range, avoid).flatten()
}

/// Returns the same blocks as [`candidates`], region by region.
fn regions_in(
    free: &FreeSpace,
    range: Range<u32>,
    avoid: Avoid,
) -> impl Iterator<Item = Range<u32>> {
    let regions = free.regions();
    let first = if range.is_empty() {
        regions.len()
    } else {
        regions.of(range.start)
    };
    (first..regions.len())
        .map(move |region| (region, regions.blocks(region)))
        .take_while({
            let end = range.end;
            move |(_, blocks)| blocks.start < end
        })
        .filter(move |&(region, _)| {
            let avoided = avoid.region == Some(region as u32)
                || (avoid.empty && free.empty_regions().contains(&(region as u32)));
            !avoided && !free.is_full(region)
        })
        .map(move |(_, blocks)| blocks.start.max(range.start)..blocks.end.min(range.end))
}
