//! The limits on breaking blocks when few blocks are free.
//!
//! Rewriting makes more blocks live, but not more units: units are written to whole
//! blocks, and the replaced ones leave holes in other blocks. Growth leaves a margin
//! for that (`accounts.rs`). Once half of the margin is used, units are placed in holes
//! as long as one is near. So that there are holes, released units are made free before
//! their number exceeds the margin.

use super::Space;
use crate::format::{Extent, Measures};
use crate::prices::Prices;
use varve_vlog::Medium;
use varve_vlog::eager::Want;

/// The numbers of live blocks at which free blocks become scarce. Where a block is a
/// unit, they exceed the number of blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Levels {
    /// From this number on, released units may not wait for long.
    near: u64,
    /// From this number on, no block is broken where there is a hole.
    short: u64,
}

impl Levels {
    pub fn of(measures: &Measures) -> Self {
        let prices = Prices::of(measures);
        let end = (measures.capacity_blocks()).saturating_sub(measures.reserve_blocks);
        match prices.broken_max(measures) {
            0 => Levels {
                near: u64::MAX,
                short: u64::MAX,
            },
            broken => Levels {
                near: end.saturating_sub(2 * broken),
                short: end.saturating_sub(prices.margin(measures) - broken / 2),
            },
        }
    }
}

impl Space {
    /// Returns true if released units should be free soon, because their space will be
    /// needed.
    pub fn is_nearly_short(&self) -> bool {
        self.live_blocks >= self.levels.near
    }

    /// Returns true if units, and pieces smaller than a block, must be placed in holes.
    pub(super) fn is_short(&self) -> bool {
        self.live_blocks >= self.levels.short
    }

    /// Returns the number of whole free blocks that may be broken.
    pub(super) fn blocks_to_break(&self) -> u64 {
        self.levels.short.saturating_sub(self.live_blocks)
    }

    /// Returns the number of units that are released, not yet free, and share their
    /// blocks.
    pub fn loose_units(&self) -> u64 {
        let each = self.measures.units_per_block();
        let waiting = self.held.iter().chain(&self.released);
        let waiting = waiting.chain(&self.in_flight).chain(&self.pinned);
        let loose = waiting.filter(|extent| extent.units < each);
        loose.map(|extent| u64::from(extent.units)).sum()
    }

    /// Returns the nearest place for `units` units, at most those of a block. If blocks
    /// are scarce, it is in a live block if there is such a hole.
    pub(super) fn nearest_part(&mut self, medium: &dyn Medium, units: u32) -> Option<u64> {
        let each = self.measures.units_per_block();
        let want = Want::of(units, each);
        if self.is_short() && want != Want::Block {
            let lives = |block: u32| {
                let unit = u64::from(block) * u64::from(each);
                self.tree.any(Extent { unit, units: each })
            };
            let head = medium.head();
            let hole = (self.eager).choose_hole(&self.free, head.as_ref(), want, &lives);
            if hole.is_some() {
                return hole;
            }
        }
        self.nearest(medium, want)
    }
}
