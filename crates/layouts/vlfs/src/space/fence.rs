//! Regions that nothing is written to, as they are being emptied: their free
//! units are taken, and what is given up there waits behind the fence, until
//! all of it is free or somebody needs the room. The log's fence is another one: where
//! a volume that becomes smaller is going to end.

use super::Space;
use crate::format::Extent;
use std::collections::BTreeMap;

/// The units behind the fences, by region: block, and a bit for each.
#[derive(Debug, Default)]
pub(super) struct Fences {
    of: BTreeMap<u32, Vec<(u32, u8)>>,
}

fn count(held: &[(u32, u8)]) -> u64 {
    held.iter()
        .map(|&(_, units)| u64::from(units.count_ones()))
        .sum()
}

impl Fences {
    /// Free units that are held back.
    pub fn units(&self) -> u64 {
        self.of.values().map(|held| count(held)).sum()
    }

    /// Holds a unit back if its region is fenced.
    pub fn hold(&mut self, region: u32, block: u32, units: u8) -> bool {
        match self.of.get_mut(&region) {
            Some(held) => {
                held.push((block, units));
                true
            }
            None => false,
        }
    }
}

impl Space {
    /// Nothing goes to this region from now on.
    pub fn fence(&mut self, region: u32) {
        if self.fences.of.contains_key(&region) {
            return;
        }
        let mut held = Vec::new();
        for block in self.free.regions().blocks(region as usize) {
            let units = self.free.full_mask() & !self.free.mask(block);
            if units != 0 {
                self.free.take(block, units);
                held.push((block, units));
            }
        }
        self.fences.of.insert(region, held);
    }

    /// Its free units are like any others again.
    pub fn lift(&mut self, region: u32) {
        for (block, units) in self.fences.of.remove(&region).unwrap_or_default() {
            self.free.give(block, units);
        }
    }

    /// The same of all; false if there is none.
    pub fn lift_all(&mut self) -> bool {
        let regions: Vec<u32> = self.fences.of.keys().copied().collect();
        regions.iter().for_each(|&region| self.lift(region));
        !regions.is_empty()
    }

    /// The same of those behind which everything is free.
    pub(super) fn lift_empty(&mut self) {
        let each = u64::from(self.measures.units_per_block());
        let blocks = |region: u32| self.free.regions().blocks(region as usize).len() as u64;
        let whole = |(&region, held): (&u32, &Vec<(u32, u8)>)| {
            (count(held) == blocks(region) * each).then_some(region)
        };
        let empty: Vec<u32> = self.fences.of.iter().filter_map(whole).collect();
        empty.iter().for_each(|&region| self.lift(region));
    }

    /// What nobody uses any more is free, or waits behind a fence.
    pub(super) fn give(&mut self, extent: Extent) {
        let (block, units) = self.bits_of(extent);
        let region = self.free.regions().of(block) as u32;
        if !self.fences.hold(region, block, units) {
            self.free.give(block, units);
        }
    }
}
