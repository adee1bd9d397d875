//! What a simulation counts.

use serde::{Deserialize, Serialize};

/// Steps of a histogram of utilisation.
pub const STEPS: usize = 50;

/// Everything since the last reset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Blocks that users wrote.
    pub submitted: u64,
    /// Those that reached the log; the others were overwritten before.
    pub logged: u64,
    /// Live blocks the cleaner appended to the log.
    pub copied: u64,
    /// Live blocks it wrote into holes.
    pub plugged: u64,
    /// Summaries, one for each partial segment or run of holes.
    pub summaries: u64,
    /// Segments cleaned that held live blocks; they were read.
    pub cleaned: u64,
    /// Segments found empty.
    pub emptied: u64,
    /// Segments cleaned by utilisation, in [`STEPS`] steps.
    pub by_utilisation: Vec<u64>,
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            submitted: 0,
            logged: 0,
            copied: 0,
            plugged: 0,
            summaries: 0,
            cleaned: 0,
            emptied: 0,
            by_utilisation: vec![0; STEPS + 1],
        }
    }
}

impl Counters {
    /// Blocks the cleaner wrote.
    pub fn moved(&self) -> u64 {
        self.copied + self.plugged
    }

    /// Data blocks written per user block logged; 1 is the best there is.
    pub fn amplification(&self) -> f64 {
        (self.logged + self.moved()) as f64 / self.logged.max(1) as f64
    }

    /// The same, summaries counted as a block each.
    pub fn amplification_in_all(&self) -> f64 {
        (self.logged + self.moved() + self.summaries) as f64 / self.logged.max(1) as f64
    }

    /// Blocks moved to and from the device per user block logged, the cleaner
    /// reading whole segments (Rosenblum & Ousterhout 1992, §3.4).
    pub fn write_cost(&self, segment_blocks: u32) -> f64 {
        self.write_cost_since(&Counters::default(), segment_blocks)
    }

    /// The same of what was counted since `before`.
    pub fn write_cost_since(&self, before: &Counters, segment_blocks: u32) -> f64 {
        let logged = self.logged - before.logged;
        let moved = self.moved() - before.moved();
        let read = (self.cleaned - before.cleaned) * u64::from(segment_blocks);
        (logged + moved + read) as f64 / logged.max(1) as f64
    }

    /// Mean utilisation of the segments that were cleaned and not empty.
    pub fn cleaned_utilisation(&self, segment_blocks: u32) -> f64 {
        self.moved() as f64 / (self.cleaned.max(1) * u64::from(segment_blocks)) as f64
    }

    /// Share of cleaned segments that were empty, in `[0, 1]`.
    pub fn empty_share(&self) -> f64 {
        self.emptied as f64 / (self.emptied + self.cleaned).max(1) as f64
    }
}
