//! R3a, R3b, R3c: the cleaning simulations of Rosenblum & Ousterhout (1992,
//! §3.5 and §3.6). Files of one block, no reads, 64 blocks to a segment.
//!
//! Survivors are sorted by age over everything that is cleaned together, in
//! the curves of hot and cold files. "A few tens of segments" at a time is
//! taken as 32; R3b also shows 8, 16 and 64.

use super::study::{Sorting, Study, live_for};
use super::{Context, Experiment, Point, Row};
use crate::report::{Curve, Picture, Verdict, mean, modes};
use crate::simulator::Volume;
use crate::workload::{Skew, Skewed};
use std::cell::RefCell;
use varve_lfs::cleaner::policy::{Candidate, CostBenefit, Greedy, Policy};

const SEGMENT_BLOCKS: u32 = 64;
const BATCH: u32 = 32;
const HOT_COLD: Skew = Skew::HotCold {
    accesses: 90,
    files: 10,
};
/// Write cost of a UNIX FFS, and of one improved by logging, delayed writes
/// and disk request sorting (§3.4).
const FFS: (f64, f64) = (10.0, 4.0);

/// The distribution of segments in the two simple models.
pub const R3A: Experiment = Experiment {
    id: "R3a",
    about: "greedy cleaning, uniform and hot-and-cold: write cost against utilisation",
    needs_traces: false,
    points: points_a,
    verdicts: verdicts_a,
    picture: picture_ab,
};

/// Cost-benefit against greedy.
pub const R3B: Experiment = Experiment {
    id: "R3b",
    about: "cost-benefit against greedy on hot-and-cold files, four batch sizes",
    needs_traces: false,
    points: points_b,
    verdicts: verdicts_b,
    picture: picture_ab,
};

/// What the cleaner sees and takes.
pub const R3C: Experiment = Experiment {
    id: "R3c",
    about: "utilisation of segments seen and cleaned by cost-benefit",
    needs_traces: false,
    points: points_c,
    verdicts: verdicts_c,
    picture: picture_c,
};

fn study(policy: Box<dyn Policy>, utilisation: f64, batch: u32) -> Study {
    Study {
        utilisation,
        segment_blocks: SEGMENT_BLOCKS,
        policy,
        batch,
        buffer_blocks: None,
        reordering: None,
        turns: (20, 10),
    }
}

fn sorting<P: Policy + 'static>(policy: P, batch: u32) -> Box<dyn Policy> {
    Box::new(Sorting {
        policy,
        segments: u64::from(batch),
    })
}

fn workload(context: &Context, skew: Skew, utilisation: f64, seed: u64) -> Skewed {
    let segments = context.size(1000, 150);
    let live = live_for(segments, SEGMENT_BLOCKS, utilisation);
    Skewed::of_blocks(skew, live, seed)
}

/// A point: a policy on a skew, at one utilisation, over all seeds.
fn point(series: String, skew: Skew, utilisation: f64, batch: u32, greedy: bool) -> Point {
    Point::new(format!("{series} at {utilisation}"), move |context| {
        let rows = context.seeds().map(|seed| {
            let policy = match (greedy, skew) {
                (true, Skew::Uniform) => Box::new(Greedy),
                (true, _) => sorting(Greedy, batch),
                (false, _) => sorting(CostBenefit, batch),
            };
            let mut workload = workload(context, skew, utilisation, seed);
            let counters = study(policy, utilisation, batch)
                .run(&mut workload, None)
                .counters;
            Row::new(&series, utilisation, seed)
                .with("write_cost", counters.write_cost(SEGMENT_BLOCKS))
                .with("amplification", counters.amplification())
                .with(
                    "cleaned_utilisation",
                    counters.cleaned_utilisation(SEGMENT_BLOCKS),
                )
        });
        Ok(rows.collect())
    })
}

fn points_a(context: &Context) -> Vec<Point> {
    let all = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9];
    let utilisations = context.size(&all[..], &all[6..7]);
    let skews = [("uniform", Skew::Uniform), ("hot-and-cold", HOT_COLD)];
    let pairs = utilisations
        .iter()
        .flat_map(|u| skews.iter().map(move |s| (u, s)));
    pairs
        .map(|(u, (name, skew))| point((*name).to_owned(), *skew, *u, BATCH, true))
        .collect()
}

fn points_b(context: &Context) -> Vec<Point> {
    let all = [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9];
    let mut points = Vec::new();
    for batch in context.size(&[BATCH, 8, 16, 64][..], &[BATCH]) {
        // The other batch sizes where the claim is made.
        let from = if *batch == BATCH { 0..7 } else { 3..6 };
        for utilisation in &all[context.size(from, 3..4)] {
            for (name, greedy) in [("greedy", true), ("cost-benefit", false)] {
                let series = match *batch {
                    BATCH => name.to_owned(),
                    batch => format!("{name}, {batch} at a time"),
                };
                points.push(point(series, HOT_COLD, *utilisation, *batch, greedy));
            }
        }
    }
    points
}

fn verdicts_a(rows: &[Row]) -> Vec<Verdict> {
    let uniform = mean(rows, "uniform", 0.75, "write_cost");
    let skewed = mean(rows, "hot-and-cold", 0.75, "write_cost");
    vec![Verdict::of(
        "greedy is worse on hot-and-cold files than on uniform ones, at 75 %",
        "hot-and-cold above uniform",
        format!("{skewed:.2} against {uniform:.2}"),
        skewed > uniform,
    )]
}

fn verdicts_b(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for batch in ["", ", 8 at a time", ", 16 at a time", ", 64 at a time"] {
        let cost = |policy: &str, u| mean(rows, &format!("{policy}{batch}"), u, "write_cost");
        for u in [0.75, 0.8, 0.85] {
            let (greedy, benefit) = (cost("greedy", u), cost("cost-benefit", u));
            if greedy.is_nan() {
                continue;
            }
            let gain = 100.0 * (1.0 - benefit / greedy);
            verdicts.push(
                Verdict::of(
                    format!("cost-benefit against greedy at {u}{batch}"),
                    "write cost at least 35 % lower",
                    format!("{gain:.0} % lower ({benefit:.2} against {greedy:.2})"),
                    gain >= 35.0,
                )
                .beside_the_claim(!batch.is_empty()),
            );
        }
        let benefit = cost("cost-benefit", 0.75);
        if !benefit.is_nan() {
            verdicts.push(
                Verdict::of(
                    format!("cost-benefit at 0.75{batch}"),
                    "write cost at most 4, that of an improved FFS",
                    format!("{benefit:.2}"),
                    benefit <= FFS.1,
                )
                .beside_the_claim(!batch.is_empty()),
            );
        }
    }
    verdicts
}

fn picture_ab(rows: &[Row]) -> Picture {
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

/// Steps of the distributions.
const STEPS: usize = 20;

fn step(utilisation: f64) -> usize {
    ((utilisation * STEPS as f64) as usize).min(STEPS - 1)
}

/// What was cleaned of one kind.
#[derive(Default)]
struct Taken {
    segments: f64,
    utilisation: f64,
}

fn points_c(_: &Context) -> Vec<Point> {
    let policies = [("cost-benefit", false), ("greedy", true)];
    let point = |(name, greedy): (&'static str, bool)| {
        Point::new(name, move |context| {
            Ok(context
                .seeds()
                .flat_map(|seed| distribution(context, name, greedy, seed))
                .collect())
        })
    };
    policies.into_iter().map(point).collect()
}

fn distribution(context: &Context, name: &str, greedy: bool, seed: u64) -> Vec<Row> {
    let policy = match greedy {
        true => sorting(Greedy, BATCH),
        false => sorting(CostBenefit, BATCH),
    };
    let mut workload = workload(context, HOT_COLD, 0.75, seed);
    let hot_below = (0..).take_while(|b| workload.is_hot(*b)).count() as u32;
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
        let live: Vec<u32> = volume.live_in(candidate.segment).collect();
        let hot = live.iter().filter(|block| **block < hot_below).count();
        let kind = &mut taken.borrow_mut()[usize::from(hot * 2 < live.len())];
        kind.segments += 1.0;
        kind.utilisation += candidate.utilisation();
    };
    let study = study(policy, 0.75, BATCH);
    study.run(&mut workload, Some(Box::new(witness)));
    let seen = seen.into_inner();
    let all: f64 = seen.iter().sum();
    let mut rows: Vec<Row> = (0..STEPS)
        .map(|at| {
            Row::new(name, (at as f64 + 0.5) / STEPS as f64, seed).with("share", seen[at] / all)
        })
        .collect();
    for (kind, taken) in ["hot", "cold"].into_iter().zip(taken.into_inner()) {
        let row = Row::new(format!("{name}, {kind} cleaned"), 0.75, seed)
            .with("cleaned_utilisation", taken.utilisation / taken.segments)
            .with("segments", taken.segments);
        rows.push(row);
    }
    rows
}

fn verdicts_c(rows: &[Row]) -> Vec<Verdict> {
    let cleaned = |kind: &str| {
        let series = format!("cost-benefit, {kind} cleaned");
        mean(rows, &series, 0.75, "cleaned_utilisation")
    };
    let shares: Vec<f64> = (0..STEPS)
        .map(|at| {
            mean(
                rows,
                "cost-benefit",
                (at as f64 + 0.5) / STEPS as f64,
                "share",
            )
        })
        .collect();
    let modes = modes(&shares);
    let (cold, hot) = (cleaned("cold"), cleaned("hot"));
    vec![
        Verdict::of(
            "the distribution of utilisation has two modes",
            "two",
            format!("{} ({:?} of {STEPS} steps)", modes.len(), modes),
            modes.len() == 2,
        ),
        Verdict::of(
            "mean utilisation of cold segments cleaned",
            "0.65 to 0.85",
            format!("{cold:.2}"),
            (0.65..=0.85).contains(&cold),
        ),
        Verdict::of(
            "mean utilisation of hot segments cleaned",
            "0.05 to 0.30",
            format!("{hot:.2}"),
            (0.05..=0.30).contains(&hot),
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
