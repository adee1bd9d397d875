//! R3a and R3c: the cleaning simulations of Rosenblum & Ousterhout (1992, §3.5
//! and §3.6) but for R3b. Files of one block, no reads, 64 blocks to a segment.
//!
//! Survivors are sorted by age over everything that is cleaned together, in
//! the curves of hot and cold files. "A few tens of segments" at a time is
//! taken as 32.

use crate::experiments::study::{Sorting, Study, live_for};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::policy::Simulated;
use crate::report::{Curve, Picture, Verdict, mean, modes};
use crate::simulator::{Age, Origin, Volume};
use crate::workload::{Skew, Skewed};
use std::cell::RefCell;
use varve_lfs::policy::{Candidate, CostBenefit, Greedy};

pub(in crate::experiments) const SEGMENT_BLOCKS: u32 = 64;
pub(in crate::experiments) const BATCH: u32 = 32;
pub(in crate::experiments) const HOT_COLD: Skew = Skew::HotCold {
    accesses: 90,
    files: 10,
};
/// Write cost of a UNIX FFS, and of one improved by logging, delayed writes
/// and disk request sorting (§3.4).
pub(in crate::experiments) const FFS: (f64, f64) = (10.0, 4.0);

/// The distribution of segments in the two simple models.
pub const R3A: Experiment = Experiment::new("R3a", points_a, verdicts_a, write_costs)
    .sized()
    .taking(110.0);

/// What the cleaner sees and takes.
pub const R3C: Experiment = Experiment::new("R3c", points_c, verdicts_c, picture_c)
    .sized()
    .taking(42.0);

/// Segments of a volume by default. On smaller ones what is kept clean is a larger
/// share of the volume, so that greedy looks better than it is: at 1,000 hot-and-cold
/// files cost less than uniform ones from 80 % on.
pub(in crate::experiments) const MANY_SEGMENTS: u32 = 10_000;
/// Where R3a's curves are measured.
const UTILISATIONS: [f64; 10] = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9];
const TINY_SEGMENTS: u32 = 150;

/// Of a volume that is written evenly over its hot and its cold files.
pub(in crate::experiments) fn study(policy: Box<dyn Simulated>, utilisation: f64) -> Study {
    Study {
        utilisation,
        segment_blocks: SEGMENT_BLOCKS,
        policy,
        batch: BATCH,
        buffer_blocks: None,
        reordering: None,
        age: Age::Youngest,
        turns: (20, 10),
        certain: Some(0.01),
    }
}

pub(in crate::experiments) fn sorting<P: Simulated + 'static>(
    policy: P,
    batch: u32,
) -> Box<dyn Simulated> {
    Box::new(Sorting {
        policy,
        segments: u64::from(batch),
    })
}

pub(in crate::experiments) fn workload(
    context: &Context,
    skew: Skew,
    segments: u32,
    utilisation: f64,
    seed: u64,
) -> Skewed {
    let segments = context.segments(segments, TINY_SEGMENTS);
    let live = live_for(segments, SEGMENT_BLOCKS, utilisation);
    Skewed::of_blocks(skew, live, seed)
}

/// A point: greedy on a skew, at one utilisation, over all seeds.
fn point(series: String, skew: Skew, utilisation: f64) -> Point {
    Point::new(format!("{series} at {utilisation}"), move |context| {
        let rows = context.seeds().map(|seed| {
            let policy: Box<dyn Simulated> = match skew {
                Skew::Uniform => Box::new(Greedy),
                _ => sorting(Greedy, BATCH),
            };
            let mut workload = workload(context, skew, MANY_SEGMENTS, utilisation, seed);
            let study = study(policy, utilisation);
            cost_row(&series, utilisation, seed, study, &mut workload)
        });
        Ok(rows.collect())
    })
}

/// Runs a study and has its costs.
pub(in crate::experiments) fn cost_row(
    series: &str,
    utilisation: f64,
    seed: u64,
    study: Study,
    workload: &mut Skewed,
) -> Row {
    let segment_blocks = study.segment_blocks;
    let counters = study.run(workload, None).counters;
    Row::new(series, utilisation, seed)
        .with("write_cost", counters.write_cost(segment_blocks))
        .with("amplification", counters.amplification())
        .with(
            "cleaned_utilisation",
            counters.cleaned_utilisation(segment_blocks),
        )
}

fn points_a(context: &Context) -> Vec<Point> {
    let utilisations = context.size(&UTILISATIONS[..], &[0.75]);
    let skews = [("uniform", Skew::Uniform), ("hot-and-cold", HOT_COLD)];
    let pairs = utilisations
        .iter()
        .flat_map(|u| skews.iter().map(move |s| (u, s)));
    pairs
        .map(|(u, (name, skew))| point((*name).to_owned(), *skew, *u))
        .collect()
}

fn verdicts_a(rows: &[Row]) -> Vec<Verdict> {
    let cost = |series: &str, u| mean(rows, series, u, "write_cost");
    let curve: Vec<(f64, f64)> = UTILISATIONS
        .into_iter()
        .map(|u| (cost("uniform", u), cost("hot-and-cold", u)))
        .filter(|(uniform, skewed)| uniform.is_finite() && skewed.is_finite())
        .collect();
    let told = curve.iter();
    let told: Vec<String> = told
        .map(|(uniform, skewed)| format!("{skewed:.2} against {uniform:.2}"))
        .collect();
    vec![Verdict::of(
        "greedy is worse on hot-and-cold files than on uniform ones, 20 to 90 %",
        "hot-and-cold above uniform at every utilisation",
        told.join(", "),
        !curve.is_empty() && curve.iter().all(|(uniform, skewed)| skewed > uniform),
    )]
}

pub(in crate::experiments) fn write_costs(rows: &[Row]) -> Picture {
    let steps = (1..=45).map(|i| f64::from(i) / 50.0);
    let no_variance = steps.map(|u| (u, 2.0 / (1.0 - u))).collect();
    let flat = |y| vec![(0.0, y), (0.9, y)];
    Picture {
        title: "Write cost against disk capacity utilisation".into(),
        x: "utilisation".into(),
        y: "write cost".into(),
        y_max: Some(14.0),
        curves: Curve::all(rows, "write_cost"),
        references: vec![
            Curve::named("no variance, 2/(1-u)", no_variance),
            Curve::named("FFS today", flat(FFS.0)),
            Curve::named("FFS improved", flat(FFS.1)),
        ],
    }
}

/// Cost-benefit that goes by the age of the segment, not of its blocks.
pub(in crate::experiments) const BY_SEGMENT: &str = "cost-benefit by the segment's age";

/// Steps of the distributions.
const STEPS: usize = 20;

fn step(utilisation: f64) -> usize {
    ((utilisation * STEPS as f64) as usize).min(STEPS - 1)
}

/// Segments of one origin that were cleaned, and the sum of their utilisations.
#[derive(Default)]
struct Taken {
    segments: f64,
    utilisation: f64,
}

/// Names of the two origins. With hot and cold files users write mostly hot
/// blocks; survivors of many segments are mostly cold.
const ORIGINS: [&str; 2] = ["written by users", "written by the cleaner"];

/// Makes a policy.
type Make = fn() -> Box<dyn Simulated>;

fn points_c(_: &Context) -> Vec<Point> {
    let cost_benefit: Make = || sorting(CostBenefit, BATCH);
    let policies: [(&'static str, Make, Age); 3] = [
        ("cost-benefit", cost_benefit, Age::Youngest),
        ("greedy", || sorting(Greedy, BATCH), Age::Youngest),
        (BY_SEGMENT, cost_benefit, Age::Begun),
    ];
    let point = |(name, policy, age): (&'static str, Make, Age)| {
        Point::new(name, move |context| {
            Ok(context
                .seeds()
                .flat_map(|seed| distribution(context, name, policy(), age, seed))
                .collect())
        })
    };
    policies.into_iter().map(point).collect()
}

fn distribution(
    context: &Context,
    name: &str,
    policy: Box<dyn Simulated>,
    age: Age,
    seed: u64,
) -> Vec<Row> {
    let mut workload = workload(context, HOT_COLD, MANY_SEGMENTS, 0.75, seed);
    let seen = RefCell::new([0.0; STEPS]);
    let taken = RefCell::new([Taken::default(), Taken::default()]);
    let mut cleanings = 0u32;
    let witness = |volume: &Volume, candidate: &Candidate| {
        // What the cleaner sees: now and then, whenever it takes something.
        cleanings += 1;
        if cleanings.is_multiple_of(BATCH) {
            for utilisation in volume.utilisations() {
                seen.borrow_mut()[step(utilisation)] += 1.0;
            }
        }
        let origin = volume.origin(candidate.segment);
        let kind = &mut taken.borrow_mut()[usize::from(origin == Origin::Cleaner)];
        kind.segments += 1.0;
        kind.utilisation += candidate.utilisation();
    };
    let study = Study {
        age,
        ..study(policy, 0.75)
    };
    study.run(&mut workload, Some(Box::new(witness)));
    let seen = seen.into_inner();
    let all: f64 = seen.iter().sum();
    let mut rows: Vec<Row> = (0..STEPS)
        .map(|at| {
            Row::new(name, (at as f64 + 0.5) / STEPS as f64, seed).with("share", seen[at] / all)
        })
        .collect();
    for (origin, taken) in ORIGINS.into_iter().zip(taken.into_inner()) {
        let row = Row::new(format!("{name}, {origin}"), 0.75, seed)
            .with("cleaned_utilisation", taken.utilisation / taken.segments)
            .with("segments", taken.segments);
        rows.push(row);
    }
    rows
}

fn verdicts_c(rows: &[Row]) -> Vec<Verdict> {
    by_either_age(READINGS.map(|name| verdicts_of(rows, name)))
}

/// The two readings of a segment's age: the formula's, and the segment's own.
pub(in crate::experiments) const READINGS: [&str; 2] = ["cost-benefit", BY_SEGMENT];

/// The source names two ages, so a claim holds if all of it holds by one of
/// them, whose verdicts then count. If it holds by neither, the formula's
/// count. The verdicts of the other reading are shown beside.
pub(in crate::experiments) fn by_either_age([formula, segment]: [Vec<Verdict>; 2]) -> Vec<Verdict> {
    let holds = |verdicts: &[Verdict]| verdicts.iter().all(|v| v.pass || v.beside);
    let by_segment = !holds(&formula) && !segment.is_empty() && holds(&segment);
    let beside = |verdicts: Vec<Verdict>, all: bool| {
        let verdicts = verdicts.into_iter();
        verdicts.map(move |v| Verdict {
            beside: v.beside || all,
            ..v
        })
    };
    let formula = beside(formula, by_segment);
    formula.chain(beside(segment, !by_segment)).collect()
}

fn verdicts_of(rows: &[Row], name: &str) -> Vec<Verdict> {
    let cleaned = |origin: &str| {
        let series = format!("{name}, {origin}");
        mean(rows, &series, 0.75, "cleaned_utilisation")
    };
    let middle = |at| (at as f64 + 0.5) / STEPS as f64;
    let shares: Vec<f64> = (0..STEPS)
        .map(|at| mean(rows, name, middle(at), "share"))
        .collect();
    let modes = modes(&shares);
    let [users, survivors] = ORIGINS.map(cleaned);
    vec![
        Verdict::of(
            format!("the distribution of utilisation has two modes, {name}"),
            "two",
            format!("{} ({:?} of {STEPS} steps)", modes.len(), modes),
            modes.len() == 2,
        ),
        Verdict::of(
            format!("mean utilisation of cold segments, those of survivors, cleaned, {name}"),
            "0.65 to 0.85",
            format!("{survivors:.2}"),
            (0.65..=0.85).contains(&survivors),
        ),
        Verdict::of(
            format!("mean utilisation of hot segments, those of users, cleaned, {name}"),
            "0.05 to 0.30",
            format!("{users:.2}"),
            (0.05..=0.30).contains(&users),
        ),
    ]
}

fn picture_c(rows: &[Row]) -> Picture {
    Picture {
        title: "Segments seen by the cleaner at 75 %".into(),
        x: "utilisation of the segment".into(),
        y: "share of segments".into(),
        y_max: None,
        curves: Curve::all(rows, "share"),
        references: Vec::new(),
    }
}

#[cfg(test)]
pub(in crate::experiments) mod tests;
