//! The free units, by block and by region.
//!
//! A region is the space that the head writes without moving: a track of a drive, or a
//! fixed number of blocks of a device without tracks. A block belongs to the region in
//! which it begins.

use std::collections::BTreeSet;
use std::ops::Range;

/// The regions of a medium: contiguous runs of blocks, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regions {
    /// The first block of each region, and the end of the last one.
    starts: Vec<u32>,
}

impl Regions {
    /// Creates regions that begin at the given blocks, up to block `end`.
    ///
    /// # Panics
    /// If there is no region, or they do not begin at block 0 and ascend.
    pub fn new(mut starts: Vec<u32>, end: u32) -> Self {
        assert_eq!(starts.first(), Some(&0), "the first region's block");
        starts.push(end);
        assert!(starts.is_sorted(), "regions ascend");
        Regions { starts }
    }

    /// Divides `blocks` blocks into regions of `each` blocks.
    ///
    /// # Panics
    /// If `each` is zero.
    pub fn even(blocks: u32, each: u32) -> Self {
        assert!(each > 0, "regions of nothing");
        let starts = (0..blocks.div_ceil(each).max(1)).map(|nth| nth * each);
        Regions::new(starts.collect(), blocks)
    }

    /// Returns the number of regions.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns false, because there is always a region.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the blocks of a region.
    pub fn blocks(&self, region: usize) -> Range<u32> {
        self.starts[region]..self.starts[region + 1]
    }

    /// Returns the region of a block.
    pub fn of(&self, block: u32) -> usize {
        self.starts.partition_point(|&start| start <= block) - 1
    }
}

/// The free and the used units of a medium.
#[derive(Debug, Clone)]
pub struct FreeSpace {
    regions: Regions,
    units_per_block: u32,
    unit_sectors: u64,
    /// For each block, a bit for each unit that is used.
    used: Vec<u8>,
    /// Number of used units of each region.
    used_units: Vec<u32>,
    /// Number of blocks of each region without a used unit.
    free_in: Vec<u32>,
    /// Regions with at least one block and no used unit.
    empty: BTreeSet<u32>,
    free_blocks: u64,
    free_units: u64,
}

impl FreeSpace {
    /// Creates a medium with all units free. A unit has `unit_sectors` sectors of 512
    /// bytes.
    ///
    /// # Panics
    /// If a block has no unit, or more than eight.
    pub fn new(regions: Regions, units_per_block: u32, unit_sectors: u64) -> Self {
        assert!(
            (1..=8).contains(&units_per_block),
            "{units_per_block} units"
        );
        let blocks = regions.starts[regions.len()];
        let some = |&region: &usize| !regions.blocks(region).is_empty();
        FreeSpace {
            units_per_block,
            unit_sectors,
            used: vec![0; blocks as usize],
            used_units: vec![0; regions.len()],
            free_in: (0..regions.len())
                .map(|nth| regions.blocks(nth).len() as u32)
                .collect(),
            empty: (0..regions.len())
                .filter(some)
                .map(|nth| nth as u32)
                .collect(),
            free_blocks: u64::from(blocks),
            free_units: u64::from(blocks) * u64::from(units_per_block),
            regions,
        }
    }

    /// Returns the regions.
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Returns the number of units in a block.
    pub fn units_per_block(&self) -> u32 {
        self.units_per_block
    }

    /// Returns the number of sectors of 512 bytes in a unit.
    pub fn unit_sectors(&self) -> u64 {
        self.unit_sectors
    }

    /// Returns the number of blocks without a used unit.
    pub fn free_blocks(&self) -> u64 {
        self.free_blocks
    }

    /// Returns the number of free units, including those of partly used blocks.
    pub fn free_units(&self) -> u64 {
        self.free_units
    }

    /// Returns the regions without a used unit, in order.
    pub fn empty_regions(&self) -> &BTreeSet<u32> {
        &self.empty
    }

    /// Returns the share of a region's blocks that are used or broken, in `[0, 1]`.
    pub fn utilisation(&self, region: usize) -> f64 {
        let blocks = self.regions.blocks(region).len().max(1);
        1.0 - f64::from(self.free_in[region]) / blocks as f64
    }

    /// Returns the share of a region's units that are used, in `[0, 1]`.
    pub fn used_share(&self, region: usize) -> f64 {
        f64::from(self.used_units[region]) / f64::from(self.region_units(region).max(1))
    }

    /// Returns the number of blocks of a region without a used unit.
    pub fn free_blocks_in(&self, region: usize) -> u32 {
        self.free_in[region]
    }

    /// Returns true if every unit of the region is used.
    pub fn is_full(&self, region: usize) -> bool {
        self.used_units[region] == self.region_units(region)
    }

    /// Returns the number of free units of partly used blocks.
    pub fn hole_units(&self) -> u64 {
        self.free_units - self.free_blocks * u64::from(self.units_per_block)
    }

    /// Returns the number of free units of partly used blocks of one region.
    pub fn hole_units_in(&self, region: usize) -> u32 {
        let whole = self.free_in[region] * self.units_per_block;
        self.region_units(region) - self.used_units[region] - whole
    }

    fn region_units(&self, region: usize) -> u32 {
        self.regions.blocks(region).len() as u32 * self.units_per_block
    }

    /// Returns a bit for each used unit of a block.
    pub fn mask(&self, block: u32) -> u8 {
        self.used[block as usize]
    }

    /// Returns the mask of a block that is entirely used.
    pub fn full_mask(&self) -> u8 {
        u8::MAX >> (8 - self.units_per_block)
    }

    /// Takes units of a block.
    ///
    /// # Panics
    /// If one of them is used already, because two owners of one place would lose data.
    pub fn take(&mut self, block: u32, units: u8) {
        let mask = &mut self.used[block as usize];
        assert_eq!(
            *mask & units,
            0,
            "block {block}: units {units:#b} of {mask:#b} taken twice"
        );
        let broken = u32::from(*mask == 0 && units != 0);
        *mask |= units;
        let region = self.regions.of(block);
        self.free_blocks -= u64::from(broken);
        self.free_in[region] -= broken;
        if self.used_units[region] == 0 {
            self.empty.remove(&(region as u32));
        }
        self.used_units[region] += units.count_ones();
        self.free_units -= u64::from(units.count_ones());
    }

    /// Releases units of a block.
    ///
    /// # Panics
    /// If one of them is free.
    pub fn give(&mut self, block: u32, units: u8) {
        let mask = &mut self.used[block as usize];
        assert_eq!(
            *mask & units,
            units,
            "block {block}: units {units:#b} of {mask:#b} given twice"
        );
        *mask &= !units;
        let whole = u32::from(*mask == 0 && units != 0);
        let region = self.regions.of(block);
        self.free_blocks += u64::from(whole);
        self.free_in[region] += whole;
        self.used_units[region] -= units.count_ones();
        self.free_units += u64::from(units.count_ones());
        if self.used_units[region] == 0 {
            self.empty.insert(region as u32);
        }
    }

    /// Takes a whole block.
    ///
    /// # Panics
    /// As [`FreeSpace::take`].
    pub fn take_block(&mut self, block: u32) {
        self.take(block, self.full_mask());
    }

    /// Releases a whole block.
    ///
    /// # Panics
    /// As [`FreeSpace::give`].
    pub fn give_block(&mut self, block: u32) {
        self.give(block, self.full_mask());
    }

    /// Returns the block of a unit, and the unit's bit.
    pub fn place(&self, unit: u64) -> (u32, u8) {
        let each = u64::from(self.units_per_block);
        ((unit / each) as u32, 1 << (unit % each))
    }

    /// Returns the block and the bits of `units` units from `unit` on; `None` if they
    /// extend beyond the block's end.
    pub fn part(&self, unit: u64, units: u32) -> Option<(u32, u8)> {
        let each = u64::from(self.units_per_block);
        let (block, nth) = ((unit / each) as u32, (unit % each) as u32);
        let within = (1..=self.units_per_block - nth).contains(&units);
        within.then(|| (block, (u8::MAX >> (8 - units)) << nth))
    }

    /// Returns a bit for each unit of a block at which `units` free units begin.
    pub fn rooms(&self, block: u32, units: u32) -> u8 {
        let free = !self.mask(block) & self.full_mask();
        (0..units).fold(u8::MAX, |rooms, nth| rooms & free >> nth)
    }

    /// Returns the numbers of the blocks over which `units` units from `unit` on
    /// extend, and their bits in each.
    fn parts(&self, unit: u64, units: u32) -> impl Iterator<Item = (u32, u8)> + use<> {
        let (each, end) = (u64::from(self.units_per_block), unit + u64::from(units));
        (unit / each..end.div_ceil(each)).map(move |block| {
            let (first, behind) = (unit.max(block * each), end.min((block + 1) * each));
            let bits = u8::MAX >> (8 - (behind - first));
            (block as u32, bits << (first - block * each))
        })
    }

    /// Returns true if none of `units` units from `unit` on is used.
    pub fn are_free(&self, unit: u64, units: u32) -> bool {
        let mut parts = self.parts(unit, units);
        parts.all(|(block, bits)| self.mask(block) & bits == 0)
    }

    /// Returns the first of `units` at which a run of `wanted` free units begins.
    pub fn run_of(&self, units: Range<u64>, wanted: u32) -> Option<u64> {
        let (mut first, mut next) = (units.start, units.start);
        while next < units.end {
            let (block, bit) = self.place(next);
            next += 1;
            if self.mask(block) & bit != 0 {
                first = next;
            } else if next - first == u64::from(wanted) {
                return Some(first);
            }
        }
        None
    }

    /// Takes `units` adjacent units.
    ///
    /// # Panics
    /// As [`FreeSpace::take`].
    pub fn take_units(&mut self, unit: u64, units: u32) {
        let parts = self.parts(unit, units);
        parts.for_each(|(block, bits)| self.take(block, bits));
    }

    /// Releases `units` adjacent units.
    ///
    /// # Panics
    /// As [`FreeSpace::give`].
    pub fn give_units(&mut self, unit: u64, units: u32) {
        let parts = self.parts(unit, units);
        parts.for_each(|(block, bits)| self.give(block, bits));
    }

    /// Takes one unit.
    ///
    /// # Panics
    /// As [`FreeSpace::take`].
    pub fn take_unit(&mut self, unit: u64) {
        let (block, bit) = self.place(unit);
        self.take(block, bit);
    }

    /// Releases one unit.
    ///
    /// # Panics
    /// As [`FreeSpace::give`].
    pub fn give_unit(&mut self, unit: u64) {
        let (block, bit) = self.place(unit);
        self.give(block, bit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_belong_to_the_region_they_begin_in() {
        let regions = Regions::new(vec![0, 3, 3, 7], 9);
        assert_eq!(regions.len(), 4);
        let found: Vec<usize> = (0..9).map(|block| regions.of(block)).collect();
        assert_eq!(found, [0, 0, 0, 2, 2, 2, 2, 3, 3]);
        assert!(regions.blocks(1).is_empty());
        assert_eq!(Regions::even(10, 4).blocks(2), 8..10);
    }

    #[test]
    fn counts_follow_what_is_taken_and_given() {
        let mut free = FreeSpace::new(Regions::even(8, 4), 8, 1);
        assert_eq!((free.free_blocks(), free.empty_regions().len()), (8, 2));
        free.take_unit(9);
        assert_eq!(free.mask(1), 0b10);
        assert_eq!((free.hole_units(), free.hole_units_in(1)), (7, 0));
        assert_eq!(free.hole_units_in(0), 7);
        free.take_block(0);
        assert_eq!((free.free_blocks(), free.empty_regions().len()), (6, 1));
        assert_eq!(free.free_units(), 8 * 8 - 9);
        assert_eq!((free.utilisation(0), free.free_blocks_in(0)), (0.5, 2));
        free.give_unit(9);
        free.give_block(0);
        assert_eq!((free.free_blocks(), free.empty_regions().len()), (8, 2));
        assert!(!free.is_full(0));
        (0..4).for_each(|block| free.take_block(block));
        assert!(free.is_full(0));
    }

    #[test]
    fn parts_lie_within_a_block() {
        let mut free = FreeSpace::new(Regions::even(8, 4), 8, 1);
        assert_eq!(free.part(9, 3), Some((1, 0b1110)));
        assert_eq!(free.part(15, 1), Some((1, 0b1000_0000)));
        assert_eq!(free.part(8, 8), Some((1, 0xff)));
        assert_eq!(
            (free.part(9, 8), free.part(15, 2), free.part(9, 0)),
            (None, None, None)
        );
        assert_eq!(free.rooms(1, 8), 1);
        free.take_units(9, 3);
        assert_eq!(free.rooms(1, 1), 0b1111_0001);
        assert_eq!((free.rooms(1, 2), free.rooms(1, 4)), (0b0111_0000, 16));
        assert_eq!((free.rooms(1, 5), free.mask(1)), (0, 0b1110));
        let one = FreeSpace::new(Regions::even(8, 4), 1, 8);
        assert_eq!((one.part(3, 1), one.part(3, 2)), (Some((3, 1)), None));
    }

    #[test]
    fn units_behind_each_other_may_lie_in_two_blocks() {
        let mut free = FreeSpace::new(Regions::even(8, 4), 8, 1);
        free.take_units(12, 8);
        assert_eq!((free.mask(1), free.mask(2)), (0xf0, 0x0f));
        assert_eq!((free.free_blocks(), free.used_share(0)), (6, 0.25));
        assert!(free.are_free(4, 8) && !free.are_free(5, 8) && free.are_free(20, 8));
        assert_eq!(free.run_of(5..32, 8), Some(20));
        assert_eq!(
            (free.run_of(5..27, 8), free.run_of(0..12, 12)),
            (None, Some(0))
        );
        free.give_units(12, 8);
        assert_eq!((free.free_blocks(), free.empty_regions().len()), (8, 2));
    }

    #[test]
    #[should_panic(expected = "taken twice")]
    fn nothing_has_two_owners() {
        let mut free = FreeSpace::new(Regions::even(8, 4), 2, 1);
        free.take_block(3);
        free.take_unit(7);
    }
}
