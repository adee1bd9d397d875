//! Eager writing: where the next write goes.
//!
//! Pure: a choice is made of free space, the head's position and what was
//! chosen before. Nothing here writes.
//!
//! With a head: while the compactor provides empty tracks, one is filled to the
//! track-switch threshold, then the next one in the direction of the sweep.
//! Without empty tracks the choice is greedy: the free place that is reached
//! soonest, on the current track, the current cylinder, or a cylinder further
//! on; the arm sweeps in one direction and starts over at the end, so that it
//! is not trapped where the disk is full (Wang et al. 1999, §4.2). On its last
//! cylinder it is trapped all the same, for as long as there is a place: a
//! far-sighted chooser compares that place with the first one of the next sweep.
//!
//! Without a head: the next free place after the last one, likewise round and
//! round.
//!
//! A map sector goes to a block that is partly used already, if one is about as
//! near: whole free blocks are what data needs. So does a part of a block.

mod hole;
mod mechanical;
mod ordered;

use crate::free_space::FreeSpace;
use crate::medium::HeadPosition;
use mechanical::Search;

/// What room is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Want {
    /// A whole block.
    Block,
    /// As many units as a block has, behind each other in one region, whatever
    /// block they begin in.
    Anywhere,
    /// One unit: a map sector.
    Unit,
    /// So many units behind each other in one block, which has more.
    Part(u32),
}

impl Want {
    /// For so many units, of blocks that have `each`.
    pub fn of(units: u32, each: u32) -> Self {
        match units {
            units if units == each => Want::Block,
            1 => Want::Unit,
            units => Want::Part(units),
        }
    }

    /// True if data is to go there, for which empty regions are filled.
    fn is_data(self) -> bool {
        matches!(self, Want::Block | Want::Anywhere)
    }

    /// Units that it takes, of blocks that have `each`.
    pub fn units(self, each: u32) -> u32 {
        match self {
            Want::Block | Want::Anywhere => each,
            Want::Unit => 1,
            Want::Part(units) => units,
        }
    }
}

/// Where not to go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Avoid {
    /// A region that is being emptied.
    pub region: Option<u32>,
    /// Empty regions: who fills holes must not use up what it makes.
    pub empty: bool,
    /// Without a head: blocks with a used one behind them, as far as there are
    /// others near: something is to lie beside.
    pub single: bool,
}

/// Blocks that are meant.
pub type Among<'a> = &'a dyn Fn(u32) -> bool;

/// How eagerly to switch tracks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// An empty track is filled to this share before the next one is begun, in
    /// `(0, 1]`; default 0.75. 0 turns filling off: every choice is greedy.
    pub fill: f64,
    /// Whether a track is left before it is filled to that share.
    pub leave_early: LeaveEarly,
}

/// When the next empty track is taken because it is sooner than the next place on
/// the one that is being filled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LeaveEarly {
    /// Never: the threshold alone decides, as in the paper.
    Never,
    /// For data that may lie anywhere: the gaps that it has left no longer fit it,
    /// long before a track is as full as the threshold wants it.
    #[default]
    DataAnywhere,
    /// For all data.
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

/// The chooser and what it remembers.
#[derive(Debug, Clone, Default)]
pub struct Eager {
    policy: Policy,
    /// The region being filled.
    filling: Option<u32>,
    /// Without a head: the unit after the last one chosen.
    cursor: u64,
    /// Without a head: the region of the last hole chosen.
    hole_region: usize,
    /// See [`Eager::far_sighted`].
    far_sighted: bool,
}

impl Eager {
    /// A chooser.
    pub fn new(policy: Policy) -> Self {
        Eager {
            policy,
            ..Eager::default()
        }
    }

    /// A chooser for who writes a unit behind each block: with a head, a block is
    /// chosen by its own wait and the way on to the next free unit of its track
    /// together, and the sweep starts over when that is sooner than what is left
    /// ahead.
    pub fn far_sighted(policy: Policy) -> Self {
        Eager {
            far_sighted: true,
            ..Eager::new(policy)
        }
    }

    /// The region being filled, if one is.
    pub fn filling(&self) -> Option<u32> {
        self.filling
    }

    /// The first unit of the place to write next; `None` if there is none.
    /// Nothing is taken: the caller does that.
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
        // What is less goes where the head is just now: a map sector next to the data.
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

    /// The same of a hole for who must not break blocks: units that are free in a
    /// block of `among` that is partly used; of those that are about as near the
    /// one in the fullest block, so that the emptier ones come to be free. `None`
    /// if there is none, or none near: how long a choice takes does not grow with
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

    /// The place in the region to fill now: the one begun, or the next empty one.
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

/// The next empty region from the head on, round and round.
fn empty_region(free: &FreeSpace, head: &HeadPosition, avoid: Avoid) -> Option<u32> {
    let here = mechanical::region_of(head);
    let mut ahead = free.empty_regions().range(here..);
    let mut behind = free.empty_regions().range(..here);
    let empty = ahead.next().or_else(|| behind.next()).copied();
    empty.filter(|&region| Some(region) != avoid.region)
}

#[cfg(test)]
mod tests;
