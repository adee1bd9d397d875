//! What to clean and in which order survivors go: pure functions of numbers.
//!
//! A policy runs unchanged in the mounted cleaner and in a simulator.

mod cost_benefit;
mod greedy;

pub use cost_benefit::CostBenefit;
pub use greedy::Greedy;

use std::str::FromStr;

/// A segment that may be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number.
    pub segment: u32,
    /// Live bytes, never less than there are.
    pub live_bytes: u64,
    /// Bytes that live in it when it is packed as densely as can be counted
    /// on: summaries and padding left out.
    pub segment_bytes: u64,
    /// Youngest user write, nanoseconds since 1970.
    pub newest_ns: i64,
}

impl Candidate {
    /// A segment that is all but full costs more than it gives.
    fn is_worth_it(&self) -> bool {
        self.live_bytes * 64 < self.segment_bytes * 63
    }
}

/// Chooses segments to clean.
pub trait Policy: Send + Sync + std::fmt::Debug {
    /// A name for people and reports.
    fn name(&self) -> &'static str;

    /// Segments worth cleaning, best first.
    fn choose(&self, candidates: &[Candidate], now_ns: i64) -> Vec<u32>;

    /// Segments' worth of survivors that are collected and written oldest
    /// first; 0 leaves each segment's in the order of the log.
    fn sorted_segments(&self) -> u64 {
        0
    }
}

/// The policies by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyKind {
    /// [`Greedy`].
    #[default]
    Greedy,
    /// [`CostBenefit`].
    CostBenefit,
}

impl PolicyKind {
    /// The policy itself.
    pub fn policy(self) -> Box<dyn Policy> {
        match self {
            PolicyKind::Greedy => Box::new(Greedy),
            PolicyKind::CostBenefit => Box::new(CostBenefit),
        }
    }
}

impl FromStr for PolicyKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "greedy" => Ok(PolicyKind::Greedy),
            "cost-benefit" => Ok(PolicyKind::CostBenefit),
            _ => Err(format!(
                "there is no cleaning policy `{name}`, but greedy and cost-benefit"
            )),
        }
    }
}

#[cfg(test)]
fn candidate(segment: u32, live_bytes: u64, newest_ns: i64) -> Candidate {
    Candidate {
        segment,
        live_bytes,
        segment_bytes: 1000,
        newest_ns,
    }
}
