//! Eager writing: the choice of the place of the next write.
//!
//! The choice is a pure function of the free space, the head's position and the
//! previous choices. This module writes nothing.
//!
//! With a head: while the compactor provides empty tracks, one is filled up to the
//! track-switch threshold, then the next one in the direction of the sweep. Without
//! empty tracks the choice is greedy: the free place that is reached soonest, on the
//! current track, the current cylinder, or a cylinder further on. The arm sweeps in one
//! direction and starts over at the end, so that it is not trapped where the disk is
//! full (Wang et al. 1999, §4.2). On its last cylinder it is trapped nevertheless, for
//! as long as there is a place. A far-sighted chooser therefore compares that place
//! with the first one of the next sweep.
//!
//! Without a head: the next free place after the last one, likewise cyclically.
//!
//! A map sector is placed in a block that is partly used already, if one is about as
//! near, because data needs whole free blocks. So is a part of a block.

mod hole;
mod mechanical;
mod ordered;

use crate::free_space::FreeSpace;
use crate::medium::HeadPosition;
use mechanical::Search;

/// The kind of space that is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Want {
    /// A whole block.
    Block,
    /// As many adjacent units of one region as a block has, which may begin inside of a
    /// block.
    Anywhere,
    /// One unit: a map sector.
    Unit,
    /// A number of adjacent units in one block, fewer than the block has.
    Part(u32),
}

impl Want {
    /// Returns the kind for `units` units, if a block has `each`.
    pub fn of(units: u32, each: u32) -> Self {
        match units {
            units if units == each => Want::Block,
            1 => Want::Unit,
            units => Want::Part(units),
        }
    }

    /// Returns true for data, for which empty regions are filled.
    fn is_data(self) -> bool {
        matches!(self, Want::Block | Want::Anywhere)
    }

    /// Returns the number of units needed, if a block has `each`.
    pub fn units(self, each: u32) -> u32 {
        match self {
            Want::Block | Want::Anywhere => each,
            Want::Unit => 1,
            Want::Part(units) => units,
        }
    }
}

/// The places that are not to be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Avoid {
    /// A region that is being emptied.
    pub region: Option<u32>,
    /// True to avoid empty regions, because a caller that fills holes must not use up
    /// the space that it frees.
    pub empty: bool,
    /// Without a head: true to avoid free blocks with a used one behind them, as long
    /// as there are others nearby, because a record is to be stored next to the data.
    pub single: bool,
}

/// A predicate of the blocks that may be used.
pub type Among<'a> = &'a dyn Fn(u32) -> bool;

/// The policy of track switches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// The share up to which an empty track is filled before the next one is begun, in
    /// `(0, 1]`; default 0.75. 0 turns filling off: every choice is greedy.
    pub fill: f64,
    /// The data for which a track may be left before it is filled to that share.
    pub leave_early: LeaveEarly,
}

/// The data for which the next empty track is used if a place on it is reached sooner
/// than the next place on the track that is being filled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LeaveEarly {
    /// No data: the threshold alone decides, as in the paper.
    Never,
    /// Data that may begin anywhere: the gaps that it has left become too small for it
    /// long before a track is filled up to the threshold.
    #[default]
    DataAnywhere,
    /// All data.
    Always,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            fill: 0.75,
            leave_early: LeaveEarly::default(),
        }
    }
}

/// The chooser of places, and its state.
#[derive(Debug, Clone, Default)]
pub struct Eager {
    policy: Policy,
    /// The region being filled.
    filling: Option<u32>,
    /// Without a head: the unit behind the last one chosen.
    cursor: u64,
    /// Without a head: the region of the last hole chosen.
    hole_region: usize,
    /// True for the choices of [`Eager::far_sighted`].
    far_sighted: bool,
}

impl Eager {
    /// Creates a chooser.
    pub fn new(policy: Policy) -> Self {
        Eager {
            policy,
            ..Eager::default()
        }
    }

    /// Creates a chooser for a caller that writes a unit behind each block. With a
    /// head, a block is chosen by its own wait plus the wait for the next free unit of
    /// its track, and the sweep starts over when that is sooner than the places ahead.
    pub fn far_sighted(policy: Policy) -> Self {
        Eager {
            far_sighted: true,
            ..Eager::new(policy)
        }
    }

    /// Returns the region that is being filled, if there is one.
    pub fn filling(&self) -> Option<u32> {
        self.filling
    }

    /// Returns the first unit of the place to write next; `None` if there is none. The
    /// caller must take the place.
    pub fn choose(
        &mut self,
        free: &FreeSpace,
        head: Option<&HeadPosition>,
        want: Want,
        avoid: Avoid,
    ) -> Option<u64> {
        let Some(head) = head else {
            return self.next_in_order(free, want, avoid);
        };
        let mut search = Search {
            want,
            avoid,
            far_sighted: self.far_sighted,
            holes: None,
        };
        // Smaller pieces are placed where the head is now: a map sector next to the
        // data.
        if want.is_data()
            && !avoid.empty
            && let Some(unit) = self.filled(free, head, search)
        {
            return Some(unit);
        }
        let found = mechanical::nearest(free, head, search);
        if found.is_some() || !avoid.empty {
            return found;
        }
        search.avoid.empty = false;
        mechanical::nearest(free, head, search)
    }

    /// Chooses a hole, for a caller that must not break blocks: free units in a block
    /// of `among` that is partly used. Among holes that are about as near, the one in
    /// the fullest block is chosen, so that the emptier blocks become free. Returns
    /// `None` if there is no such hole nearby: the time of a choice does not grow with
    /// the volume.
    pub fn choose_hole(
        &mut self,
        free: &FreeSpace,
        head: Option<&HeadPosition>,
        want: Want,
        among: Among<'_>,
    ) -> Option<u64> {
        let units = want.units(free.units_per_block());
        if free.hole_units() < u64::from(units) {
            return None;
        }
        let Some(head) = head else {
            return self.next_hole(free, units, among);
        };
        let search = Search {
            want,
            avoid: Avoid::default(),
            far_sighted: self.far_sighted,
            holes: Some(among),
        };
        mechanical::nearest(free, head, search)
    }

    /// Returns a place in the region to be filled: the present one, or the next empty
    /// one.
    fn filled(&mut self, free: &FreeSpace, head: &HeadPosition, search: Search<'_>) -> Option<u64> {
        if self.policy.fill <= 0.0 {
            return None;
        }
        let Search { want, avoid, .. } = search;
        let near_sighted = Search {
            far_sighted: false,
            ..search
        };
        let place_in = |region: u32| {
            let found = mechanical::on_track(free, head, region as usize, near_sighted);
            found.map(|(unit, time)| (region, unit, time))
        };
        let begun = self.filling.filter(|&region| {
            let filled = match want {
                Want::Anywhere => free.used_share(region as usize),
                _ => free.utilisation(region as usize),
            };
            Some(region) != avoid.region && filled < self.policy.fill
        });
        let begun = begun.and_then(place_in);
        let leaves_early = match self.policy.leave_early {
            LeaveEarly::Never => false,
            LeaveEarly::DataAnywhere => want == Want::Anywhere,
            LeaveEarly::Always => true,
        };
        let next = match begun {
            Some(_) if !leaves_early => None,
            _ => empty_region(free, head, avoid).and_then(place_in),
        };
        let found = begun.into_iter().chain(next);
        let found = found.min_by_key(|&(_, _, time)| time);
        self.filling = found.map(|(region, ..)| region);
        found.map(|(_, unit, _)| unit)
    }
}

/// Returns the next empty region behind the head, cyclically.
fn empty_region(free: &FreeSpace, head: &HeadPosition, avoid: Avoid) -> Option<u32> {
    let here = mechanical::region_of(head);
    let mut ahead = free.empty_regions().range(here..);
    let mut behind = free.empty_regions().range(..here);
    let empty = ahead.next().or_else(|| behind.next()).copied();
    empty.filter(|&region| Some(region) != avoid.region)
}

#[cfg(test)]
mod tests;
