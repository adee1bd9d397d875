//! Thoroughness of an exploration, and its counts.

use super::mix;
use crate::generator::Profile;
use crate::operation::Operation;
use std::time::Duration;
use varve_device::Limits;

/// Thoroughness of an exploration.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Limits of the crash states at each stop.
    pub limits: Limits,
    /// The medium's atomic units to explore, in bytes.
    pub units: Vec<u32>,
    /// True if a unit that a write did not reach keeps its content, so that none is
    /// unreadable.
    pub whole_units: bool,
    /// One in this number of images is checked offline and used further.
    pub afterwards_one_in: u64,
    /// One in this number of images is also mounted from the older checkpoint.
    pub older_one_in: u64,
    /// One in this number of images crashes again, if depth is left.
    pub nested_one_in: u64,
    /// Number of successive crashes.
    pub depth: u32,
    /// Number of crashes before this one.
    pub nesting: u32,
    /// Operations after a recovery that will crash; `None` to draw them.
    pub second_life: Option<Vec<Operation>>,
    /// Profile from which they are drawn.
    pub profile: Profile,
    /// True if growing operations may be refused for lack of space.
    pub may_be_full: bool,
    /// True if all data survives as a prefix as well (`order=strict`).
    pub strict: bool,
    /// Seed of all random choices.
    pub seed: u64,
    /// Time for shrinking a failure.
    pub patience: Duration,
}

impl Plan {
    /// Returns the plan for continuous integration.
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

    /// Returns the complete plan for short stories.
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

    /// Returns the plan with every image mounted from the older checkpoint, and few
    /// images: of the unflushed writes all, all but the newest, or it alone.
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

    /// Returns the plan for the states after a crashed recovery.
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

/// Counts of an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Crash images mounted and checked.
    pub states: u64,
    /// Images left by a crash after a crash.
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
    /// Adds the counts of another exploration.
    pub fn add(&mut self, other: &Counts) {
        self.states += other.states;
        self.nested_states += other.nested_states;
        self.duplicates += other.duplicates;
        self.afterwards += other.afterwards;
        self.workloads += other.workloads;
        self.stops += other.stops;
    }
}
