//! The next hole, on a device without a head.

use std::cmp::Reverse;

use super::{Among, Eager};
use crate::free_space::FreeSpace;

/// Maximum number of holes that are compared.
const COMPARED: usize = 64;
/// Maximum number of regions that are searched for them. If they contain none, the next
/// search continues behind them.
const REGIONS: usize = 256;

impl Eager {
    /// Returns the fullest of the next holes of `units` units after the last one
    /// chosen, cyclically.
    pub(super) fn next_hole(
        &mut self,
        free: &FreeSpace,
        units: u32,
        among: Among<'_>,
    ) -> Option<u64> {
        let regions = free.regions().len();
        let here = self.hole_region.min(regions - 1);
        let order = (here..regions).chain(0..here).take(REGIONS);
        let open = order.filter(|&region| free.hole_units_in(region) >= units);
        let blocks = open.flat_map(|region| {
            let blocks = free.regions().blocks(region);
            blocks.map(move |block| (region, block))
        });
        let holes = blocks.filter_map(|(region, block)| {
            let (rooms, mask) = (free.rooms(block, units), free.mask(block));
            let suits = rooms != 0 && mask != 0 && among(block);
            suits.then_some((mask.count_ones(), region, block, rooms))
        });
        // Among equally full ones the first is chosen.
        let near = holes.take(COMPARED);
        let Some((_, region, block, rooms)) = near.min_by_key(|&(used, ..)| Reverse(used)) else {
            self.hole_region = (here + REGIONS) % regions;
            return None;
        };
        self.hole_region = region;
        let first = u64::from(block) * u64::from(free.units_per_block());
        Some(first + u64::from(rooms.trailing_zeros()))
    }
}
