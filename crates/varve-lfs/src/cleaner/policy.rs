//! What to clean: pure functions of the usage table.
//!
//! A policy sees numbers and returns an order; it runs unchanged in the
//! mounted cleaner and in a simulator.

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

/// Chooses segments to clean.
pub trait Policy: Send + Sync + std::fmt::Debug {
    /// A name for people and reports.
    fn name(&self) -> &'static str;

    /// Segments worth cleaning, best first.
    fn choose(&self, candidates: &[Candidate], now_ns: i64) -> Vec<u32>;
}

/// Least utilised first (Rosenblum & Ousterhout 1992, §3.5).
#[derive(Debug, Clone, Copy, Default)]
pub struct Greedy;

impl Policy for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn choose(&self, candidates: &[Candidate], _now_ns: i64) -> Vec<u32> {
        // A segment that is all but full costs more than it gives.
        let mut worth: Vec<&Candidate> = candidates
            .iter()
            .filter(|c| c.live_bytes * 64 < c.segment_bytes * 63)
            .collect();
        worth.sort_by_key(|c| (c.live_bytes, c.segment));
        worth.iter().map(|c| c.segment).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(segment: u32, live_bytes: u64) -> Candidate {
        Candidate {
            segment,
            live_bytes,
            segment_bytes: 1000,
            newest_ns: 0,
        }
    }

    #[test]
    fn greedy_prefers_the_emptiest_and_leaves_full_ones() {
        let candidates = [
            candidate(1, 500),
            candidate(2, 999),
            candidate(3, 0),
            candidate(4, 500),
        ];
        assert_eq!(Greedy.choose(&candidates, 0), [3, 1, 4]);
    }
}
