//! Wrong cleaners, for the experiments that simulate cleaning.

use super::*;
use varve_lfs::policy::Policy;

/// Takes the fullest of the segments that are worth it.
#[derive(Debug)]
pub struct Fullest;

impl Policy for Fullest {
    fn name(&self) -> &'static str {
        "fullest"
    }

    fn choose(&self, candidates: &[Candidate], _now_ns: i64, limit: usize) -> Vec<Candidate> {
        let worth_it = candidates.iter().filter(|c| c.is_worth_it());
        let mut chosen: Vec<Candidate> = worth_it.copied().collect();
        chosen.sort_by_key(|c| std::cmp::Reverse(c.live_bytes));
        chosen.truncate(limit);
        chosen
    }
}

impl Simulated for Fullest {}

/// Cost-benefit that takes young segments for old ones.
#[derive(Debug)]
pub struct Backwards;

impl Policy for Backwards {
    fn name(&self) -> &'static str {
        "cost-benefit, backwards"
    }

    fn choose(&self, candidates: &[Candidate], now_ns: i64, limit: usize) -> Vec<Candidate> {
        let mirrored = |c: &Candidate| Candidate {
            newest_ns: now_ns - c.newest_ns,
            ..*c
        };
        let candidates: Vec<Candidate> = candidates.iter().map(mirrored).collect();
        CostBenefit.choose(&candidates, now_ns, limit)
    }
}

impl Simulated for Backwards {}

/// On so small a volume hot and cold files cost less than uniform ones, unless such a
/// cleaner takes the segments.
#[test]
fn a_wrong_cleaner_is_told_from_a_right_one() {
    let context = Context::tiny();
    let run = |series: &str, skew, policy| {
        let mut workload = workload(&context, skew, SEGMENTS, 0.75, 1);
        cost_row(series, 0.75, 1, study(policy, 0.75), &mut workload)
    };
    let uniform = run("uniform", Skew::Uniform, Box::new(Greedy));
    let with = |policy| {
        let skewed = run("hot-and-cold", HOT_COLD, policy);
        verdicts_a(&[skewed, uniform.clone()]).remove(0)
    };
    let right = with(sorting(Greedy, BATCH));
    let wrong = with(sorting(Fullest, BATCH));
    assert!(!right.pass && wrong.pass, "{right}; {wrong}");
}

/// Greedy under the name of cost-benefit, and a cleaner that takes the fullest.
#[test]
fn a_wrong_cleaner_fails() {
    let pass = |policy| {
        let rows = distribution(&Context::tiny(), "cost-benefit", policy, Age::Youngest, 1);
        let [modes, cold, hot] = &verdicts_of(&rows, "cost-benefit")[..] else {
            panic!("three verdicts")
        };
        [modes.pass, cold.pass, hot.pass]
    };
    // Cold segments are cleaned too early, as at full size.
    assert_eq!(pass(sorting(CostBenefit, BATCH)), [true, false, true]);
    assert_eq!(pass(sorting(Greedy, BATCH)), [false; 3]);
    assert_eq!(pass(sorting(Fullest, BATCH)), [false; 3]);
}
