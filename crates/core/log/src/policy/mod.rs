//! Decisions of cleaning: what to clean, when, how much, and where blocks are stored.
//! Pure functions of numbers, without clock or device.
//!
//! A policy runs unchanged in the mounted cleaner and in the simulator of `varve-lab`,
//! which has some more to compare with.

mod coalescing;
mod cost_benefit;
mod greedy;
mod kind;
mod life_classes;
mod select;
mod transfer;
mod water;

pub use coalescing::{Coalescing, EXTENT_BYTES, Extent, File};
pub use cost_benefit::{CostBenefit, most_beneficial};
pub use greedy::Greedy;
pub use kind::PolicyKind;
pub use life_classes::LifeClasses;
pub use select::{best, emptiest};
pub use transfer::TransferModel;
pub use water::Watermarks;

use std::fmt::Debug;

/// A segment that may be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Number of the segment.
    pub segment: u32,
    /// Upper bound of its live bytes.
    pub live_bytes: u64,
    /// Live bytes of a segment packed as densely as is certain: summaries and padding
    /// excluded.
    pub segment_bytes: u64,
    /// Youngest user write, in nanoseconds since 1970.
    pub newest_ns: i64,
}

impl Candidate {
    /// True if cleaning gains: a segment that is almost full costs more than it gives.
    pub fn is_worth_it(&self) -> bool {
        self.live_bytes * 64 < self.segment_bytes * 63
    }

    /// Bytes that cleaning it frees.
    pub fn freed_bytes(&self) -> u64 {
        self.segment_bytes.saturating_sub(self.live_bytes)
    }

    /// Live bytes over bytes, in `[0, 1]` unless summaries are counted too low.
    pub fn utilisation(&self) -> f64 {
        self.live_bytes as f64 / self.segment_bytes as f64
    }

    /// Nanoseconds since the youngest write; at least one, so that of equally young
    /// segments the emptiest is best.
    pub fn age_ns(&self, now_ns: i64) -> f64 {
        now_ns.saturating_sub(self.newest_ns).max(1) as f64
    }
}

/// Properties of a volume on which placement depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measures {
    /// Segments that would be neither live nor reserved if all live data were packed.
    pub spare_segments: u32,
    /// Blocks of a segment.
    pub segment_blocks: u32,
}

/// A block that a user writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Number that identifies the block, even after a move.
    pub block: u64,
    /// User blocks written to the volume before this one.
    pub arrival: u64,
    /// User blocks written since the block was last written; `None` if it is new.
    pub life: Option<u64>,
    /// The reordering buffer that contained it.
    pub buffer: usize,
}

/// A live block that the cleaner moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Number that identifies the block, even after a move.
    pub block: u64,
    /// User blocks written to the volume until now.
    pub now: u64,
    /// User blocks written since this one was written.
    pub age: u64,
    /// The head that wrote the segment in which it was found.
    pub head: usize,
}

/// A segment that has just been cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleaned {
    /// The head that wrote it.
    pub head: usize,
    /// User blocks written between its first block and now.
    pub life: u64,
}

/// The decisions of cleaning that are a matter of policy.
pub trait Policy: Send + Sync + Debug {
    /// Name for users and reports.
    fn name(&self) -> &'static str;

    /// *What*: at most `limit` segments worth cleaning, best first.
    fn choose(&self, candidates: &[Candidate], now_ns: i64, limit: usize) -> Vec<Candidate>;

    /// *When and how much*: clean segments wanted now; 0 means none.
    fn wanted(&self, space: &Watermarks) -> u32 {
        space.wanted()
    }

    /// *Where survivors are written*: number of segments' worth of them that are
    /// collected and written oldest first; 0 leaves each segment's in the order of the
    /// log.
    fn sorted_segments(&self) -> u64 {
        0
    }

    /// Number of heads of the log that it uses on such a volume, at least one: a class
    /// for each. Called before any block is placed, and by a mount again whenever the
    /// volume has changed; the number stays the same.
    fn heads(&mut self, _measures: &Measures) -> usize {
        1
    }

    /// The head for a user write.
    fn place(&mut self, _write: &Write) -> usize {
        0
    }

    /// The head for a block that the cleaner moves.
    fn place_survivor(&mut self, _survivor: &Survivor) -> usize {
        0
    }

    /// Learns from a segment that was cleaned.
    fn learn(&mut self, _cleaned: &Cleaned) {}
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

/// The numbers of these segments.
#[cfg(test)]
fn numbers(chosen: &[Candidate]) -> Vec<u32> {
    chosen.iter().map(|c| c.segment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gives_back_a_64th_or_less_is_not_worth_it() {
        let worth = |live_bytes| {
            let of = Candidate {
                segment_bytes: 6400,
                ..candidate(1, live_bytes, 0)
            };
            of.is_worth_it()
        };
        assert!(worth(0) && worth(6299) && !worth(6300));
    }

    #[test]
    fn age_is_at_least_a_moment() {
        let age = |now_ns| candidate(1, 0, 100).age_ns(now_ns);
        assert_eq!([99, 100, 101, 150].map(age), [1.0, 1.0, 1.0, 50.0]);
    }
}
