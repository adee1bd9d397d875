//! How thoroughly to explore, and what was done.

use super::mix;
use crate::generator::Profile;
use crate::operation::Operation;
use std::time::Duration;
use varve_device::Limits;

/// How thoroughly to explore.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Of the crash states at each stop.
    pub limits: Limits,
    /// The medium's atomic units to explore, in bytes.
    pub units: Vec<u32>,
    /// A unit that a write did not reach holds what it held: none is unreadable.
    pub whole_units: bool,
    /// One in so many images is checked offline and used further.
    pub afterwards_one_in: u64,
    /// One in so many images is seen from the older checkpoint, too.
    pub older_one_in: u64,
    /// One in so many images is crashed again, if depth is left.
    pub nested_one_in: u64,
    /// Crashes in a row.
    pub depth: u32,
    /// Crashes before this one.
    pub nesting: u32,
    /// What is done after a recovery that will be crashed: as given, or drawn.
    pub second_life: Option<Vec<Operation>>,
    /// The profile from which it is drawn.
    pub profile: Profile,
    /// Growing operations may be refused for lack of space.
    pub may_be_full: bool,
    /// All data survives as a prefix, too (`order=strict`).
    pub strict: bool,
    /// Decides everything drawn.
    pub seed: u64,
    /// How long to shrink a failure.
    pub patience: Duration,
}

impl Plan {
    /// For continuous integration.
    pub fn quick(seed: u64) -> Self {
        Plan {
            limits: Limits {
                exhaustive_writes: 5,
                random_subsets: 12,
                each_shape: 6,
                torn_writes: 1,
                torn_variants: 4,
                scattered: 2,
            },
            units: vec![512, 4096],
            whole_units: false,
            afterwards_one_in: 16,
            older_one_in: 16,
            nested_one_in: 200,
            depth: 2,
            nesting: 0,
            second_life: None,
            profile: Profile::crash(),
            may_be_full: false,
            strict: false,
            seed,
            patience: Duration::from_secs(60),
        }
    }

    /// For short stories: everything.
    pub fn thorough(seed: u64) -> Self {
        Plan {
            limits: Limits {
                random_subsets: 64,
                ..Limits::default()
            },
            afterwards_one_in: 4,
            older_one_in: 4,
            nested_one_in: 40,
            ..Plan::quick(seed)
        }
    }

    /// The same, every image seen from the older checkpoint, and few images:
    /// of the unflushed writes all, all but the newest, or it alone.
    pub fn from_older(self) -> Self {
        Plan {
            limits: Limits {
                exhaustive_writes: 0,
                random_subsets: 0,
                each_shape: 1,
                torn_writes: 0,
                torn_variants: 0,
                scattered: 0,
            },
            units: vec![4096],
            afterwards_one_in: u64::MAX,
            older_one_in: 1,
            ..self
        }
    }

    /// The plan for what a crashed recovery leaves.
    pub(super) fn deeper(&self, salt: u64) -> Plan {
        Plan {
            limits: Limits {
                exhaustive_writes: 4,
                random_subsets: 4,
                each_shape: 3,
                torn_writes: 1,
                torn_variants: 2,
                scattered: 1,
            },
            units: self.units[..1].to_vec(),
            afterwards_one_in: self.afterwards_one_in.saturating_mul(2),
            older_one_in: self.older_one_in.saturating_mul(2),
            depth: self.depth - 1,
            nesting: self.nesting + 1,
            seed: mix(self.seed, salt),
            ..self.clone()
        }
    }
}

/// What an exploration did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Crash images mounted and checked.
    pub states: u64,
    /// Of these, images left by a crash after a crash.
    pub nested_states: u64,
    /// Images that equalled an earlier one.
    pub duplicates: u64,
    /// Images used further.
    pub afterwards: u64,
    /// Workloads.
    pub workloads: u64,
    /// Device writes and flushes at which the power was cut.
    pub stops: u64,
}

impl Counts {
    /// Adds another exploration's.
    pub fn add(&mut self, other: &Counts) {
        self.states += other.states;
        self.nested_states += other.nested_states;
        self.duplicates += other.duplicates;
        self.afterwards += other.afterwards;
        self.workloads += other.workloads;
        self.stops += other.stops;
    }
}
