//! Questions of the compactor about the free space: the region that is worth emptying,
//! and holes for its content.

use super::Space;
use crate::format::Extent;
use std::collections::BTreeSet;
use std::ops::Range;
use varve_vlog::Medium;
use varve_vlog::eager::{Avoid, Want};

/// Number of blocks of holes that must remain elsewhere after a region is emptied, for
/// the other writes of the transaction.
const SPARE_BLOCKS: u64 = 8;

impl Space {
    /// Returns the region in which a unit begins.
    pub fn region_of(&self, unit: u64) -> u32 {
        self.free.regions().of(self.free.place(unit).0) as u32
    }

    /// Returns the regions that begin in a window.
    pub fn regions_in(&self, window: &Range<u64>) -> Range<u32> {
        match window.is_empty() {
            true => 0..0,
            false => self.region_of(window.start)..self.region_of(window.end - 1) + 1,
        }
    }

    /// Returns the units of a region.
    pub fn units_of(&self, region: u32) -> Range<u64> {
        let each = u64::from(self.measures.units_per_block());
        let blocks = self.free.regions().blocks(region as usize);
        u64::from(blocks.start) * each..u64::from(blocks.end) * each
    }

    /// Returns the share of the free space that is in empty regions, in `[0, 1]`.
    pub fn empty_share(&self) -> f64 {
        let each = self.measures.units_per_block();
        // Regions behind a fence will be empty, too.
        let fenced = self.fences.units();
        let free = self.free.free_units() + fenced;
        let empty = self.blocks_in_empty() * u64::from(each) + fenced;
        empty as f64 / free.max(1) as f64
    }

    /// Returns the number of regions without a used unit.
    pub fn empty_regions(&self) -> u64 {
        self.free.empty_regions().len() as u64
    }

    fn blocks_in_empty(&self) -> u64 {
        let regions = self.free.regions();
        let empty = self.free.empty_regions().iter();
        empty
            .map(|&region| regions.blocks(region as usize).len() as u64)
            .sum()
    }

    /// Returns the number of units of a region that the tree uses.
    pub fn live_in(&self, region: u32) -> u64 {
        let units = self.units_of(region);
        units.filter(|&unit| self.tree.get(unit)).count() as u64
    }

    /// Returns the number of blocks that a region's content needs elsewhere,
    /// approximately: a block that is more than half full needs one of its own.
    fn wanted_by(&self, region: u32) -> u64 {
        let each = u64::from(self.measures.units_per_block());
        let units = self.units_of(region);
        let blocks = units.step_by(each as usize);
        let live = |first: u64| (first..first + each).filter(|&unit| self.tree.get(unit));
        let taken = blocks.map(|first| match live(first).count() as u64 {
            most if most > each / 2 => each,
            few => few,
        });
        taken.sum::<u64>().div_ceil(each)
    }

    /// Returns the emptiest region of `among` whose content fits in holes elsewhere. It
    /// is not being filled, contains nothing immovable, and is not in `not`.
    pub fn emptiest(&self, among: Range<u32>, not: &BTreeSet<u32>) -> Option<u32> {
        let eager = self.measures.eager_units();
        let holes = self.free.free_blocks() - self.blocks_in_empty();
        let mut best: Option<(u64, u32)> = None;
        for region in among {
            let units = self.units_of(region);
            let movable = eager.start <= units.start && units.end <= eager.end;
            if !movable || not.contains(&region) || self.eager.filling() == Some(region) {
                continue;
            }
            let live = self.live_in(region);
            let own = u64::from(self.free.free_blocks_in(region as usize));
            let empty = self.free.empty_regions().contains(&region);
            let candidate = live > 0 && !empty && best.is_none_or(|(least, _)| live < least);
            // This is counted last, because most regions are no candidates.
            let fits = || holes.saturating_sub(own) > self.wanted_by(region) + SPARE_BLOCKS;
            if candidate && fits() {
                best = Some((live, region));
            }
        }
        best.map(|(_, region)| region)
    }

    /// With `holes`, nodes, inodes and records are placed in holes from now on, not in
    /// empty regions.
    pub fn plug(&mut self, holes: bool) {
        self.plugging = holes;
    }

    /// Takes a hole of `units` units of a block; `None` if there is none outside of
    /// empty and fenced regions.
    pub fn take_hole(&mut self, medium: &dyn Medium, units: u32) -> Option<Extent> {
        let want = Want::of(units, self.measures.units_per_block());
        let avoid = Avoid {
            empty: true,
            ..Avoid::default()
        };
        let head = medium.head();
        let unit = self
            .plugger
            .choose(&self.free, head.as_ref(), want, avoid)?;
        let region = self.region_of(unit);
        if self.free.empty_regions().contains(&region) {
            return None;
        }
        let extent = Extent { unit, units };
        self.take(extent);
        Some(extent)
    }
}
