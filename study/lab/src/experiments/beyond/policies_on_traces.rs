//! N1: every policy on every real trace, and the distance to the oracle.
//!
//! The volume is sized to footprint / utilisation. Segments have the largest
//! power of two of blocks, 8 to 256, that gives the footprint 256 segments, so
//! that a small trace meets as many segments as a large one. All policies have
//! the same write buffer of two segments (30 s, fsync) and clean one segment at
//! a time; WOLF divides its buffer in two. Passes: one and a half million block
//! writes, 4 to 40 passes, the second half of them measured.

use crate::experiments::study::replay;
use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::policy::{self, Adaptive, Reordering, Simulated};
use crate::report::{Curve, Picture, Verdict, mean};
use crate::simulator::{Age, Future, Oracle, Setup, Shape, segment_blocks};
use crate::trace::{self, Trace};
use varve_lfs::policy::TransferModel;

const UTILISATIONS: [f64; 6] = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95];
/// Those that the best must not lose to.
const RIVALS: [&str; 4] = ["greedy", "cost-benefit", "wolf", "sepbit"];
const OURS: &str = "life-classes";
/// Equal within 2 %.
const TIE: f64 = 1.02;
/// Heads the oracle is tried with; the best run counts.
const ORACLE_HEADS: [usize; 6] = [1, 2, 3, 4, 6, 8];

pub const N1: Experiment = Experiment::new("N1", points, verdicts, picture)
    .only_with_traces()
    .taking(125.0);

fn points(context: &Context) -> Vec<Point> {
    let names = context.trace_names();
    let utilisations = context.size(&UTILISATIONS[..], &UTILISATIONS[4..5]);
    let pairs = names
        .iter()
        .flat_map(|n| utilisations.iter().map(move |u| (*n, *u)));
    pairs
        .map(|(name, u)| Point::new(format!("{name} at {u}"), move |c| measure(c, name, u)))
        .collect()
}

fn measure(context: &Context, name: &'static str, utilisation: f64) -> Result<Vec<Row>, LabError> {
    let trace = context.trace(name)?;
    let shape = (utilisation, segment_blocks(trace.live_max));
    let mut rows = Vec::new();
    let run = |policy: Box<dyn Simulated>, reordering| {
        let series = format!("{}, {name}", policy.name());
        let row = simulate(&trace, shape, policy, reordering);
        Row {
            series,
            seed: context.seed,
            ..row
        }
    };
    for policy in policy::all() {
        rows.push(run(policy, None));
    }
    let wolf = Box::new(Adaptive::new(TransferModel::ATLAS_10K, 2));
    rows.push(run(wolf, Some(Reordering::new(2))));
    rows.push(Row {
        series: format!("oracle, {name}"),
        seed: context.seed,
        ..oracle(&trace, shape)
    });
    Ok(rows)
}

/// The oracle's best run.
pub(in crate::experiments) fn oracle(trace: &Trace, shape: (f64, u32)) -> Row {
    let future = Future::of(&trace.ops, trace.blocks);
    let runs = ORACLE_HEADS.iter().map(|heads| {
        let oracle = Oracle::new(future.clone(), trace.blocks, *heads);
        simulate(trace, shape, Box::new(oracle), None).with("heads", *heads as f64)
    });
    let amplification = |row: &Row| row.values["amplification"];
    let best = runs.min_by(|a, b| amplification(a).total_cmp(&amplification(b)));
    best.expect("there are heads")
}

/// A trace on a volume that it fills so far, with segments of so many blocks.
fn simulate(
    trace: &Trace,
    (utilisation, segment_blocks): (f64, u32),
    policy: Box<dyn Simulated>,
    reordering: Option<Reordering>,
) -> Row {
    let setup = Setup {
        shape: Shape::for_utilisation(trace.blocks, trace.live_max, segment_blocks, utilisation),
        live_max: trace.live_max,
        policy,
        batch: 1,
        buffer_blocks: Some(2 * segment_blocks as usize),
        reordering,
        age: Age::Youngest,
    };
    let passes = (1_500_000 / trace.writes).clamp(4, 40) as u32;
    let counters = replay(setup, trace, passes / 2, passes - passes / 2).counters;
    Row::new("", utilisation, 0)
        .with("amplification", counters.amplification())
        .with("amplification_in_all", counters.amplification_in_all())
        .with("write_cost", counters.write_cost(segment_blocks))
        .with(
            "absorbed",
            1.0 - counters.logged as f64 / counters.submitted.max(1) as f64,
        )
        .with("segment_blocks", f64::from(segment_blocks))
        .with("passes", f64::from(passes))
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for name in trace::names() {
        for (measure, claim) in [
            ("amplification", "data blocks"),
            ("amplification_in_all", "data and summaries"),
        ] {
            verdicts.extend(against_rivals(rows, name, measure, claim));
        }
        verdicts.extend(distance(rows, name));
    }
    verdicts
}

/// Whether ours loses to nobody at any utilisation.
fn against_rivals(rows: &[Row], name: &str, measure: &str, claim: &str) -> Option<Verdict> {
    let of = |policy: &str, u| mean(rows, &format!("{policy}, {name}"), u, measure);
    let known = UTILISATIONS.into_iter().filter(|u| !of(OURS, *u).is_nan());
    // Where ours is worst in proportion to the best of the others.
    let ratio = |u: f64| {
        let best = RIVALS.iter().map(|rival| (of(rival, u), *rival));
        let (best, rival) = best
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .expect("there are rivals");
        (of(OURS, u) / best, u, rival, best)
    };
    let (ratio, u, rival, best) = known.map(ratio).max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(
        Verdict::of(
            format!("{OURS} on {name}, {claim}"),
            "lower than greedy, cost-benefit, WOLF and SepBIT, or within 2 %",
            format!(
                "at worst {:.3} of {rival} ({:.3} against {best:.3} at {u})",
                ratio,
                of(OURS, u)
            ),
            ratio <= TIE,
        )
        .beside_the_claim(measure != "amplification"),
    )
}

/// How far ours is from the oracle, and that nobody beats the oracle.
fn distance(rows: &[Row], name: &str) -> Vec<Verdict> {
    let of = |policy: &str, u| mean(rows, &format!("{policy}, {name}"), u, "amplification");
    let known: Vec<f64> = UTILISATIONS
        .into_iter()
        .filter(|u| !of(OURS, *u).is_nan())
        .collect();
    if known.is_empty() {
        return Vec::new();
    }
    let percent = |u: &f64| format!("{:.0} % at {u}", 100.0 * of("oracle", *u) / of(OURS, *u));
    let distances: Vec<String> = known.iter().map(percent).collect();
    let all = policy::all()
        .iter()
        .map(|policy| policy.name())
        .collect::<Vec<_>>();
    let beaten = known.iter().filter_map(|u| {
        let others = all.iter().chain(&["wolf"]).map(|p| (of(p, *u), *p));
        let known = others.filter(|(found, _)| found.is_finite());
        let (best, policy) = known.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let oracle = of("oracle", *u);
        // An oracle that was not run has not been beaten by nobody.
        let beats = oracle.is_nan() || oracle > best * 1.0001;
        beats.then(|| format!("{policy} at {u}: {best:.3} against {oracle:.3}"))
    });
    let beaten: Vec<String> = beaten.collect();
    vec![
        Verdict::of(
            format!(
                "the oracle on {name}; {OURS} reaches {} of it",
                distances.join(", ")
            ),
            "nobody beats it",
            if beaten.is_empty() {
                "nobody does".into()
            } else {
                beaten.join("; ")
            },
            beaten.is_empty(),
        )
        .beside_the_claim(true),
    ]
}

/// The rows of a trace; all, if there are none of it.
pub(in crate::experiments) fn of_trace(rows: &[Row], name: &str) -> Vec<Row> {
    let of = |row: &&Row| row.series.ends_with(&format!(", {name}"));
    let some: Vec<Row> = rows.iter().filter(of).cloned().collect();
    match some.is_empty() {
        true => rows.to_vec(),
        false => some,
    }
}

fn picture(rows: &[Row]) -> Picture {
    // The trace with real pressure; the data file has all.
    let rows = &of_trace(rows, "cloudphysics-vm");
    Picture {
        title: "Write amplification on a virtual machine's disk".into(),
        x: "utilisation".into(),
        y: "data blocks written per user block".into(),
        y_max: None,
        curves: Curve::all(rows, "amplification"),
        references: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::sprite_lfs::greedy_cleaning::tests::Fullest;
    use crate::experiments::tests::tiny::{recorded, tiny};

    /// Ours takes the fullest segments, or the oracle knows another future.
    #[test]
    fn a_wrong_policy_or_oracle_fails() {
        const NAME: &str = "tpcc-small";
        let traces = tempfile::tempdir().unwrap();
        std::fs::write(traces.path().join("tpcc-small.ascii"), recorded(1000)).unwrap();
        let context = Context {
            traces: Some(traces.path().to_owned()),
            ..Context::tiny()
        };
        let trace = context.trace(NAME).unwrap();
        let shape = (UTILISATIONS[4], segment_blocks(trace.live_max));
        let right = &tiny("N1").rows;
        let failing = |policy: &str, found: &Row| -> Vec<String> {
            let series = format!("{policy}, {NAME}");
            let wrong = right.iter().map(|row| match row.series == series {
                true => Row {
                    values: found.values.clone(),
                    ..row.clone()
                },
                false => row.clone(),
            });
            let wrong: Vec<Row> = wrong.collect();
            let failing = verdicts(&wrong).into_iter().filter(|verdict| !verdict.pass);
            failing.map(|verdict| verdict.claim).collect()
        };
        let fullest = simulate(&trace, shape, Box::new(Fullest), None);
        let failed = failing(OURS, &fullest);
        let ours = failed.iter().filter(|claim| claim.starts_with(OURS));
        assert_eq!(ours.count(), 2, "data blocks, and summaries: {failed:?}");
        let series = format!("{OURS}, {NAME}");
        let usual = mean(right, &series, UTILISATIONS[4], "amplification");
        assert!(fullest.values["amplification"] > 1.05 * usual);
        let holds = |verdict: &Verdict| verdict.pass && verdict.claim.starts_with("the oracle");
        assert!(verdicts(right).iter().any(holds));
        let mut backwards = trace.ops.clone();
        backwards.reverse();
        let oracle = Oracle::new(Future::of(&backwards, trace.blocks), trace.blocks, 2);
        let failed = failing("oracle", &simulate(&trace, shape, Box::new(oracle), None));
        let oracle = failed.iter().any(|claim| claim.starts_with("the oracle"));
        assert!(oracle, "{failed:?}");
    }
}
