//! Near the last block: what breaks blocks there, and how much of that may be.
//!
//! Writing over makes more blocks live, not more units: units go to whole blocks,
//! and what they replace leaves holes in others. Growth leaves a margin for that
//! (`accounts.rs`). What has used up half of it goes to holes, for as long as one
//! is near; and so that there are holes, what is given up near the last block is
//! made free before it is more than the margin has room for.

use super::Space;
use crate::format::{Extent, Measures};
use crate::prices::Prices;
use varve_vlog::Medium;
use varve_vlog::eager::Want;

/// Blocks that live, from which on they are dear; more than there can be where
/// blocks have one unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Levels {
    /// What is given up may not wait for long.
    near: u64,
    /// No block is broken where there is a hole.
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
    /// True if what is given up should be free soon, as its room will be missed.
    pub fn is_nearly_short(&self) -> bool {
        self.live_blocks >= self.levels.near
    }

    /// True if units, and what is less than a block, go to holes.
    pub(super) fn is_short(&self) -> bool {
        self.live_blocks >= self.levels.short
    }

    /// Whole free blocks that units may be put in.
    pub(super) fn blocks_to_break(&self) -> u64 {
        self.levels.short.saturating_sub(self.live_blocks)
    }

    /// Units given up, and not free yet, that lie in blocks with others.
    pub fn loose_units(&self) -> u64 {
        let each = self.measures.units_per_block();
        let waiting = self.held.iter().chain(&self.released);
        let waiting = waiting.chain(&self.in_flight).chain(&self.pinned);
        let loose = waiting.filter(|extent| extent.units < each);
        loose.map(|extent| u64::from(extent.units)).sum()
    }

    /// The nearest place for so many units, no more than a block has: where
    /// blocks are short, in one that lives already if there is such a hole.
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
