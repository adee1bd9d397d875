//! Least utilised first (Rosenblum & Ousterhout 1992, §3.5).

use super::{Candidate, Policy, emptiest};

/// The greedy policy.
#[derive(Debug, Clone, Copy, Default)]
pub struct Greedy;

impl Policy for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn choose(&self, candidates: &[Candidate], _now_ns: i64, limit: usize) -> Vec<Candidate> {
        emptiest(candidates, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{candidate, numbers};
    use super::*;

    #[test]
    fn the_emptiest_come_first_and_full_ones_not_at_all() {
        let candidates = [
            candidate(1, 500, 0),
            candidate(2, 999, 0),
            candidate(3, 0, 0),
            candidate(4, 500, 0),
        ];
        assert_eq!(numbers(&Greedy.choose(&candidates, 0, 9)), [3, 1, 4]);
    }
}
