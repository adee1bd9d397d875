//! The use of each unit.
//!
//! A unit is free, or used by the tree, or by the log (a record), or it waits: it was
//! given up by a transaction that is not durable, or is still used by the newest
//! checkpoint's tree. A caller gives up space once. Giving up a unit that the tree does
//! not have means that the bits on the medium are damaged, and is reported.
//!
//! The log counts live bytes by segment, because it writes to segments
//! (`varve-lfs/src/segments.rs`). Here single units are overwritten.

mod data;
mod fence;
mod holes;
mod short;

use crate::format::{Extent, Measures};
use fence::Fences;
use short::Levels;
use varve_vlog::Medium;
use varve_vlog::eager::{Avoid, Eager, Policy, Want};
use varve_vlog::free_space::{FreeSpace, Regions};

/// A bit for each unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits(pub Vec<u8>);

impl Bits {
    /// Creates bits that are all clear.
    pub fn new(measures: &Measures) -> Self {
        Bits(vec![0; measures.units().div_ceil(8) as usize])
    }

    /// Returns true if the bit of a unit is set.
    pub fn get(&self, unit: u64) -> bool {
        self.0[(unit / 8) as usize] & 1 << (unit % 8) != 0
    }

    fn put(&mut self, unit: u64, to: bool) {
        let (byte, bit) = (&mut self.0[(unit / 8) as usize], 1 << (unit % 8));
        *byte = if to { *byte | bit } else { *byte & !bit };
    }

    fn units(extent: Extent) -> std::ops::Range<u64> {
        extent.unit..extent.end()
    }

    /// Sets the bits of an extent; returns false if one of them was set.
    #[must_use]
    pub fn set(&mut self, extent: Extent) -> bool {
        let fresh = !self.any(extent);
        Self::units(extent).for_each(|unit| self.put(unit, true));
        fresh
    }

    /// Clears the bits of an extent; returns false if one of them was clear.
    #[must_use]
    pub fn clear(&mut self, extent: Extent) -> bool {
        let all = Self::units(extent).all(|unit| self.get(unit));
        Self::units(extent).for_each(|unit| self.put(unit, false));
        all
    }

    /// Returns true if any bit of an extent is set.
    pub fn any(&self, extent: Extent) -> bool {
        Self::units(extent).any(|unit| self.get(unit))
    }

    /// Returns the number of bits that are set.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|byte| u64::from(byte.count_ones())).sum()
    }
}

/// The record zone of a device without a head.
#[derive(Debug)]
struct Zone {
    free: FreeSpace,
    eager: Eager,
    /// The first unit of the zone.
    start: u64,
}

/// The space of a volume.
#[derive(Debug)]
pub struct Space {
    measures: Measures,
    free: FreeSpace,
    eager: Eager,
    /// The chooser of the compactor, whose choices must not affect those of writers.
    plugger: Eager,
    zone: Option<Zone>,
    /// The units that the present tree uses.
    pub tree: Bits,
    /// The units that the newest checkpoint's tree uses.
    base: Bits,
    /// Number of blocks with a unit of the tree.
    live_blocks: u64,
    /// Number of units of the tree.
    tree_units: u64,
    levels: Levels,
    /// Extents given up, and kept until the next full transaction.
    held: Vec<Extent>,
    held_units: u64,
    /// Extents given up by appended groups that are not yet in a transaction.
    released: Vec<Extent>,
    /// Extents given up by the transaction that is being flushed.
    in_flight: Vec<Extent>,
    /// Extents given up durably, and used by the newest checkpoint.
    pinned: Vec<Extent>,
    /// Regions that are being emptied.
    fences: Fences,
    /// True if units are to be placed in holes.
    plugging: bool,
}

impl Space {
    /// Creates the space of a volume whose tree uses `tree`, as the newest checkpoint's
    /// tree used `base`, and whose log has records in `records`.
    ///
    /// # Errors
    /// The first unit that is used twice.
    pub fn new(
        medium: &dyn Medium,
        measures: &Measures,
        policy: Policy,
        tree: Bits,
        base: Bits,
        records: impl Iterator<Item = u64>,
    ) -> Result<Self, u64> {
        let blocks = measures.blocks as u32;
        let each = measures.units_per_block();
        let regions = medium.regions(blocks, measures.block_bytes);
        let mut free = FreeSpace::new(regions, each, measures.unit_sectors());
        for block in (0..measures.eager_start()).chain([measures.last_block()]) {
            free.take_block(block as u32);
        }
        let mut zone = (measures.zone_blocks > 0).then(|| {
            let regions = Regions::even(measures.zone_blocks as u32, 64);
            Zone {
                free: FreeSpace::new(regions, each, measures.unit_sectors()),
                eager: Eager::new(Policy::default()),
                start: measures.zone_start() * u64::from(each),
            }
        });
        let within = measures.record_units();
        for unit in records {
            if !within.contains(&unit) {
                return Err(unit);
            }
            let (free, unit) = match &mut zone {
                Some(zone) => (&mut zone.free, unit - zone.start),
                None => (&mut free, unit),
            };
            let (block, bit) = free.place(unit);
            if free.mask(block) & bit != 0 {
                return Err(unit);
            }
            free.take(block, bit);
        }
        let (mut live_blocks, mut tree_units) = (0, 0);
        let eager = measures.eager_units();
        for block in 0..blocks {
            let first = u64::from(block) * u64::from(each);
            let units = first..first + u64::from(each);
            let mask = units
                .clone()
                .filter(|&unit| tree.get(unit))
                .fold(0u8, |mask, unit| mask | 1 << (unit - first));
            if mask == 0 {
                continue;
            }
            if !eager.contains(&first) || free.mask(block) & mask != 0 {
                return Err(first);
            }
            free.take(block, mask);
            live_blocks += 1;
            tree_units += u64::from(mask.count_ones());
        }
        let mut space = Space {
            measures: *measures,
            free,
            // A record follows a block of data; the compactor's moves share one record.
            eager: Eager::far_sighted(policy),
            plugger: Eager::new(policy),
            zone,
            tree,
            base,
            live_blocks,
            tree_units,
            levels: Levels::of(measures),
            held: Vec::new(),
            held_units: 0,
            released: Vec::new(),
            in_flight: Vec::new(),
            pinned: Vec::new(),
            fences: Fences::default(),
            plugging: false,
        };
        // Units that the checkpoint's tree uses and the present one does not are not
        // reused: the next recovery may need them as this one did.
        for unit in eager {
            let extent = Extent { unit, units: 1 };
            let (block, bit) = space.free.place(unit);
            if space.base.get(unit) && space.free.mask(block) & bit == 0 {
                space.free.take(block, bit);
                space.pinned.push(extent);
            }
        }
        Ok(space)
    }

    fn block_of(&self, extent: Extent) -> Extent {
        let each = u64::from(self.measures.units_per_block());
        Extent {
            unit: extent.unit / each * each,
            units: each as u32,
        }
    }

    fn enter(&mut self, extent: Extent) {
        self.live_blocks += u64::from(!self.tree.any(self.block_of(extent)));
        self.tree_units += u64::from(extent.units);
        assert!(self.tree.set(extent), "{extent:?} was free and of the tree");
    }

    /// Returns the block of an extent, and a bit for each of its units.
    fn bits_of(&self, extent: Extent) -> (u32, u8) {
        let part = self.free.part(extent.unit, extent.units);
        part.expect("units of one block")
    }

    fn take(&mut self, extent: Extent) {
        self.free.take_units(extent.unit, extent.units);
        self.enter(extent);
    }

    /// Takes the nearest unit, for an inode or an index node.
    pub fn take_unit(&mut self, medium: &dyn Medium) -> Option<u64> {
        let unit = self.nearest_part(medium, 1)?;
        self.take(Extent { unit, units: 1 });
        Some(unit)
    }

    /// Takes at most `wanted` adjacent units in the nearest free blocks, for many
    /// inodes and index nodes at once. Returns the first one, and their number.
    pub fn take_units(&mut self, medium: &dyn Medium, wanted: u64) -> Option<(u64, u64)> {
        let each = u64::from(self.measures.units_per_block());
        let most = self.blocks_to_break();
        if most == 0 {
            return None;
        }
        let first = self.nearest(medium, Want::Block)?;
        let block = self.free.place(first).0;
        let region = self.free.regions().of(block);
        let end = self.free.regions().blocks(region).end;
        let blocks = (block..end).take_while(|&block| self.free.mask(block) == 0);
        let count = wanted.min(most.min(blocks.count() as u64) * each);
        for unit in first..first + count {
            self.free.take_unit(unit);
            self.enter(Extent { unit, units: 1 });
        }
        Some((first, count))
    }

    /// Releases a unit that was taken and not written.
    pub fn untake(&mut self, unit: u64) {
        let extent = Extent { unit, units: 1 };
        self.spoil(extent);
        self.give(extent);
    }

    /// Returns the nearest place; behind a fence if there is no other.
    fn nearest(&mut self, medium: &dyn Medium, want: Want) -> Option<u64> {
        let head = medium.head();
        let avoid = Avoid {
            empty: self.plugging,
            ..Avoid::default()
        };
        loop {
            let eager = match self.plugging {
                true => &mut self.plugger,
                false => &mut self.eager,
            };
            let found = eager.choose(&self.free, head.as_ref(), want, avoid);
            if found.is_some() || !self.lift_all() {
                return found;
            }
        }
    }

    /// Takes a unit for a record.
    pub fn take_record(&mut self, medium: &dyn Medium) -> Option<u64> {
        let Some(zone) = &mut self.zone else {
            // Blocks that records break are counted separately: records are placed
            // where it is soonest.
            let unit = self.nearest(medium, Want::Unit)?;
            self.free.take_unit(unit);
            return Some(unit);
        };
        let unit = zone
            .eager
            .choose(&zone.free, None, Want::Unit, Avoid::default())?;
        zone.free.take_unit(unit);
        Some(zone.start + unit)
    }

    /// Releases the unit of a record.
    pub fn give_record(&mut self, unit: u64) {
        match &mut self.zone {
            Some(zone) => zone.free.give_unit(unit - zone.start),
            None => self.give(Extent { unit, units: 1 }),
        }
    }

    /// Releases an extent that the tree no longer uses.
    ///
    /// # Errors
    /// The extent, if the tree did not use it.
    pub fn release(&mut self, extent: Extent) -> Result<(), Extent> {
        self.leave(extent)?;
        self.released.push(extent);
        Ok(())
    }

    /// Releases an extent that must not change before the next full transaction.
    ///
    /// # Errors
    /// As [`Space::release`].
    pub fn hold(&mut self, extent: Extent) -> Result<(), Extent> {
        self.leave(extent)?;
        self.held.push(extent);
        self.held_units += u64::from(extent.units);
        Ok(())
    }

    fn leave(&mut self, extent: Extent) -> Result<(), Extent> {
        if !self.tree.clear(extent) {
            return Err(extent);
        }
        self.tree_units -= u64::from(extent.units);
        self.live_blocks -= u64::from(!self.tree.any(self.block_of(extent)));
        Ok(())
    }

    /// Moves the extents kept by [`Space::hold`] to those that the next transaction, a
    /// full one, gives up.
    pub fn let_go(&mut self) {
        self.released.append(&mut self.held);
        self.held_units = 0;
    }

    /// Marks the place of a failed write: the tree does not use it, and it is not
    /// reused before the next mount.
    pub fn spoil(&mut self, extent: Extent) {
        let was = self.tree.clear(extent);
        assert!(was, "{extent:?} was taken");
        self.tree_units -= u64::from(extent.units);
        self.live_blocks -= u64::from(!self.tree.any(self.block_of(extent)));
    }

    /// Moves the released extents to those of the transaction that is being flushed.
    pub fn sealed(&mut self) {
        self.in_flight.append(&mut self.released);
    }

    /// Releases the extents of the transaction, which is durable now.
    pub fn settled(&mut self) {
        for extent in std::mem::take(&mut self.in_flight) {
            match self.base.any(extent) {
                true => self.pinned.push(extent),
                false => self.give(extent),
            }
        }
        self.lift_empty();
    }

    /// Releases the pinned extents, because a checkpoint of the present tree is durable
    /// and no transaction is pending.
    pub fn checkpointed(&mut self) {
        self.base.clone_from(&self.tree);
        for extent in std::mem::take(&mut self.pinned) {
            self.give(extent);
        }
        self.lift_all();
    }

    /// Returns the free blocks among these, in runs.
    pub fn free_runs(&self, blocks: std::ops::Range<u64>) -> Vec<std::ops::Range<u64>> {
        let mut runs: Vec<std::ops::Range<u64>> = Vec::new();
        for block in blocks.filter(|block| self.free.mask(*block as u32) == 0) {
            match runs.last_mut() {
                Some(run) if run.end == block => run.end += 1,
                _ => runs.push(block..block + 1),
            }
        }
        runs
    }

    /// Returns the number of free blocks.
    pub fn free_blocks(&self) -> u64 {
        self.free.free_blocks()
    }

    /// Returns the number of blocks of which the tree uses a unit.
    pub fn live_blocks(&self) -> u64 {
        self.live_blocks
    }

    /// Returns the number of units that the tree uses.
    pub fn tree_units(&self) -> u64 {
        self.tree_units
    }

    /// Returns the number of units that wait for a checkpoint.
    pub fn pinned_units(&self) -> u64 {
        self.pinned.iter().map(|e| u64::from(e.units)).sum()
    }

    /// Returns the number of units that wait for a full transaction.
    pub fn held_units(&self) -> u64 {
        self.held_units
    }

    /// Returns the number of units that wait for the flush of any transaction.
    pub fn waiting_units(&self) -> u64 {
        let waiting = self.held.iter().chain(&self.released);
        let waiting = waiting.chain(&self.in_flight);
        waiting.map(|extent| u64::from(extent.units)).sum()
    }
}
