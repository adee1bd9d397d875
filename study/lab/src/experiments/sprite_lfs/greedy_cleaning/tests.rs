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
        let mut workload = workload(&context, skew, MANY_SEGMENTS, 0.75, 1);
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

fn parts_of_c(policy: Box<dyn Simulated>, age: Age, segments: u32) -> Vec<bool> {
    let context = Context {
        segments: Some(segments),
        ..Context::tiny()
    };
    let rows = distribution(&context, BY_SEGMENT, policy, age, 1);
    let verdicts = verdicts_of(&rows, BY_SEGMENT);
    verdicts.iter().map(|verdict| verdict.pass).collect()
}

/// Greedy under the name of cost-benefit, and a cleaner that takes the fullest.
#[test]
fn a_wrong_cleaner_fails() {
    let cost_benefit = parts_of_c(sorting(CostBenefit, BATCH), Age::Begun, 1000);
    assert_eq!(cost_benefit, [true; 3]);
    let greedy = parts_of_c(sorting(Greedy, BATCH), Age::Begun, 1000);
    assert!(!greedy[0] && !greedy[2], "{greedy:?}");
    let fullest = parts_of_c(sorting(Fullest, BATCH), Age::Begun, 150);
    assert!(fullest.contains(&false), "{fullest:?}");
}

/// A claim that holds by one reading of age in part, and by the other in part, holds
/// by neither.
#[test]
fn parts_of_two_readings_do_not_make_a_whole() {
    let part = |pass| Verdict::of("a", "b", String::new(), pass);
    let counts = |formula: [bool; 2], segment: [bool; 2]| {
        let both = [formula.map(part).to_vec(), segment.map(part).to_vec()];
        let verdicts = by_either_age(both);
        let counted = verdicts.iter().filter(|v| !v.beside);
        counted.map(|v| v.pass).collect::<Vec<_>>()
    };
    assert_eq!(counts([true, false], [false, true]), [true, false]);
    assert_eq!(counts([true, false], [true, true]), [true, true]);
    assert_eq!(counts([true, true], [false, false]), [true, true]);
}
