//! The emptiest of those that are old enough (Menon & Stockmeyer 1998).
//!
//! A young segment loses blocks fast, so cleaning it now moves blocks that
//! would soon have died. Only segments older than a threshold are considered,
//! and among them the least utilised. The best threshold follows from how fast
//! the log turns over; here it is a quantile of the ages there are, which
//! follows by itself. If the old ones do not suffice, young ones follow.

use super::Simulated;
use varve_lfs::policy::{Candidate, Policy, best};

/// The youngest quarter waits.
const YOUNG: f64 = 0.25;

/// See the module's head.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgeThreshold;

/// Segments that were last written at this moment or later are too young.
fn threshold_ns(candidates: &[Candidate]) -> i64 {
    let mut newest: Vec<i64> = candidates.iter().map(|c| c.newest_ns).collect();
    let at = (newest.len() as f64 * (1.0 - YOUNG)) as usize;
    match newest.is_empty() {
        true => i64::MAX,
        false => *newest.select_nth_unstable(at).1,
    }
}

impl Policy for AgeThreshold {
    fn name(&self) -> &'static str {
        "age-threshold"
    }

    fn choose(&self, candidates: &[Candidate], _now_ns: i64, limit: usize) -> Vec<Candidate> {
        let threshold_ns = threshold_ns(candidates);
        best(candidates, limit, |c| {
            // What is empty will not become emptier, however young.
            let ripe = c.newest_ns < threshold_ns || c.live_bytes == 0;
            let freed = 1.0 - c.utilisation();
            c.is_worth_it().then_some(freed + f64::from(u8::from(ripe)))
        })
    }

    fn sorted_segments(&self) -> u64 {
        2
    }
}

impl Simulated for AgeThreshold {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_youngest_quarter_comes_last_unless_it_is_empty() {
        let candidate = |segment, live_bytes, newest_ns| Candidate {
            segment,
            live_bytes,
            segment_bytes: 1000,
            newest_ns,
        };
        let candidates = [
            candidate(1, 100, 90),
            candidate(2, 500, 10),
            candidate(3, 400, 20),
            candidate(4, 300, 30),
            candidate(5, 0, 99),
            candidate(6, 990, 0),
            candidate(7, 600, 1),
            candidate(8, 700, 2),
        ];
        let chosen = AgeThreshold.choose(&candidates, 100, usize::MAX);
        let numbers: Vec<u32> = chosen.iter().map(|c| c.segment).collect();
        assert_eq!(numbers, [5, 4, 3, 2, 7, 8, 1]);
        assert_eq!(AgeThreshold.choose(&[], 100, 3), []);
    }
}
