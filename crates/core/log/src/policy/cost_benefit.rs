//! Cost-benefit with age sort (Rosenblum & Ousterhout 1992, §3.6).
//!
//! The benefit of cleaning a segment is the space it frees, times how long that is likely
//! to stay free; its cost is reading it and writing its live data. With utilisation u and
//! the age of the youngest block for stability:
//!
//! ```text
//! benefit / cost = (1 - u) · age / (1 + u)
//! ```
//!
//! So cold segments are cleaned while they are still rather full, and hot ones are left
//! to empty themselves. Survivors are written oldest first, which keeps cold data with
//! cold data.

use super::{Candidate, Policy, best};

/// The cost-benefit policy.
#[derive(Debug, Clone, Copy, Default)]
pub struct CostBenefit;

/// At most `limit` segments, by benefit per cost.
pub fn most_beneficial(candidates: &[Candidate], now_ns: i64, limit: usize) -> Vec<Candidate> {
    best(candidates, limit, |c| {
        let u = c.utilisation();
        c.is_worth_it()
            .then(|| (1.0 - u) * c.age_ns(now_ns) / (1.0 + u))
    })
}

impl Policy for CostBenefit {
    fn name(&self) -> &'static str {
        "cost-benefit"
    }

    fn choose(&self, candidates: &[Candidate], now_ns: i64, limit: usize) -> Vec<Candidate> {
        most_beneficial(candidates, now_ns, limit)
    }

    fn sorted_segments(&self) -> u64 {
        2
    }
}

#[cfg(test)]
mod tests {
    use super::super::{candidate, numbers};
    use super::*;

    fn choice(candidates: &[Candidate], now_ns: i64) -> Vec<u32> {
        numbers(&CostBenefit.choose(candidates, now_ns, usize::MAX))
    }

    #[test]
    fn an_old_segment_goes_before_an_emptier_young_one() {
        // Worth 0.6 / 1.4 · 10, 0.1 / 1.9 · 1000, and 1 · 10.
        let candidates = [
            candidate(1, 400, 990),
            candidate(2, 900, 0),
            candidate(3, 0, 990),
            candidate(4, 990, 0),
        ];
        assert_eq!(choice(&candidates, 1000), [2, 3, 1]);
    }

    #[test]
    fn a_half_full_segment_must_be_three_times_as_old_as_an_empty_one() {
        let candidates = [
            candidate(1, 500, 971),
            candidate(2, 0, 990),
            candidate(3, 500, 969),
        ];
        assert_eq!(choice(&candidates, 1000), [3, 2, 1]);
    }

    #[test]
    fn clocks_that_went_back_do_no_harm() {
        let candidates = [candidate(1, 500, i64::MAX), candidate(2, 100, i64::MAX)];
        assert_eq!(choice(&candidates, i64::MIN), [2, 1]);
    }
}
