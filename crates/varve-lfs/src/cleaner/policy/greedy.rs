//! Least utilised first (Rosenblum & Ousterhout 1992, §3.5).

use super::{Candidate, Policy};

/// See the module's head.
#[derive(Debug, Clone, Copy, Default)]
pub struct Greedy;

impl Policy for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn choose(&self, candidates: &[Candidate], _now_ns: i64) -> Vec<u32> {
        let mut worth: Vec<&Candidate> = candidates.iter().filter(|c| c.is_worth_it()).collect();
        worth.sort_by_key(|c| (c.live_bytes, c.segment));
        worth.iter().map(|c| c.segment).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::candidate;
    use super::*;

    #[test]
    fn the_emptiest_come_first_and_full_ones_not_at_all() {
        let candidates = [
            candidate(1, 500, 0),
            candidate(2, 999, 0),
            candidate(3, 0, 0),
            candidate(4, 500, 0),
        ];
        assert_eq!(Greedy.choose(&candidates, 0), [3, 1, 4]);
    }
}
