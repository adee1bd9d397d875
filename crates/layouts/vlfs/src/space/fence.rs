//! Fences around regions that are being emptied. Nothing is written to such a region:
//! its free units are taken, and units that are given up there wait behind the fence,
//! until all of them are free or the space is needed. The fence of the log is another
//! one: the future end of a volume that is being shrunk.

use super::Space;
use crate::format::Extent;
use std::collections::BTreeMap;

/// The units behind the fences, by region: block, and a bit for each unit.
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
    /// Returns the number of free units behind fences.
    pub fn units(&self) -> u64 {
        self.of.values().map(|held| count(held)).sum()
    }

    /// Keeps units behind the fence if their region has one. Returns true if it does.
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
    /// Fences a region: nothing is written to it from now on.
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

    /// Lifts the fence of a region, whose free units can be used again.
    pub fn lift(&mut self, region: u32) {
        for (block, units) in self.fences.of.remove(&region).unwrap_or_default() {
            self.free.give(block, units);
        }
    }

    /// Lifts all fences; returns false if there is none.
    pub fn lift_all(&mut self) -> bool {
        let regions: Vec<u32> = self.fences.of.keys().copied().collect();
        regions.iter().for_each(|&region| self.lift(region));
        !regions.is_empty()
    }

    /// Lifts the fences of regions that are entirely free.
    pub(super) fn lift_empty(&mut self) {
        let each = u64::from(self.measures.units_per_block());
        let blocks = |region: u32| self.free.regions().blocks(region as usize).len() as u64;
        let whole = |(&region, held): (&u32, &Vec<(u32, u8)>)| {
            (count(held) == blocks(region) * each).then_some(region)
        };
        let empty: Vec<u32> = self.fences.of.iter().filter_map(whole).collect();
        empty.iter().for_each(|&region| self.lift(region));
    }

    /// Frees an extent, or keeps it behind a fence.
    pub(super) fn give(&mut self, extent: Extent) {
        let (block, units) = self.bits_of(extent);
        let region = self.free.regions().of(block) as u32;
        if !self.fences.hold(region, block, units) {
            self.free.give(block, units);
        }
    }
}
