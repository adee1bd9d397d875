//! R4: long-term use (Rosenblum & Ousterhout 1992, §5.2): four months of a
//! volume like Sprite's /user6, after two months to settle.
//!
//! 1280 MB, 75 % in use, segments of 512 KB, 3.2 MB written an hour, files of
//! about 24 KB on average. The paper's disks ran Sprite; here the files are
//! drawn (`workload/lifetimes.rs`), as no trace of months can be had.

use super::study::{Sorting, Study, live_for};
use super::{Context, Experiment, Point, Row};
use crate::report::{Curve, Picture, Verdict, mean};
use crate::simulator::STEPS;
use crate::workload::{Lifetimes, Population};
use varve_lfs::cleaner::policy::CostBenefit;

const SEGMENT_BLOCKS: u32 = 128;
const UTILISATION: f64 = 0.75;
const BATCH: u32 = 32;
const HOURS_PER_MONTH: f64 = 30.0 * 24.0;
const BYTES_PER_HOUR: f64 = 3.2e6;

/// See the module's head.
pub const R4: Experiment = Experiment {
    id: "R4",
    about: "long-term use: months of an office's home directories",
    needs_traces: false,
    points,
    verdicts,
    picture,
};

fn points(context: &Context) -> Vec<Point> {
    let point = |seed| {
        Point::new(format!("seed {seed}"), move |context: &Context| {
            Ok(months(context, seed))
        })
    };
    context.seeds().map(point).collect()
}

fn months(context: &Context, seed: u64) -> Vec<Row> {
    let segments = context.size(2560, 256);
    let live = live_for(segments, SEGMENT_BLOCKS, UTILISATION);
    // A tiny volume sees as much less written.
    let bytes_per_hour = BYTES_PER_HOUR * f64::from(segments) / 2560.0;
    let mut workload = Lifetimes::new(Population::office(bytes_per_hour), live, seed);
    let month_writes = HOURS_PER_MONTH * bytes_per_hour / 4096.0;
    let turns = |months: f64| (months * month_writes / f64::from(live)).ceil() as u32;
    let study = Study {
        utilisation: UTILISATION,
        segment_blocks: SEGMENT_BLOCKS,
        policy: Box::new(Sorting {
            policy: CostBenefit,
            segments: u64::from(BATCH),
        }),
        batch: BATCH,
        buffer_blocks: Some(SEGMENT_BLOCKS as usize),
        reordering: None,
        turns: (turns(2.0), turns(4.0)),
    };
    let counters = study.run(&mut workload, None).counters;
    let all: u64 = counters.by_utilisation.iter().sum();
    let row = Row::new("cleaning", UTILISATION, seed)
        .with("write_cost", counters.write_cost(SEGMENT_BLOCKS))
        .with("empty_share", counters.empty_share())
        .with(
            "cleaned_utilisation",
            counters.cleaned_utilisation(SEGMENT_BLOCKS),
        )
        .with("segments_cleaned", all as f64);
    let by_step = counters
        .by_utilisation
        .iter()
        .enumerate()
        .map(|(at, count)| {
            let middle = (at as f64 + 0.5) / STEPS as f64;
            Row::new("cleaned", middle, seed).with("share", *count as f64 / all.max(1) as f64)
        });
    std::iter::once(row).chain(by_step).collect()
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let value = |name| mean(rows, "cleaning", UTILISATION, name);
    let (cost, empty) = (value("write_cost"), value("empty_share"));
    let utilisation = value("cleaned_utilisation");
    vec![
        Verdict::of(
            "write cost over months",
            "at most 1.6",
            format!("{cost:.2}"),
            cost <= 1.6,
        ),
        Verdict::of(
            "share of cleaned segments that were empty",
            "at least 50 %",
            format!("{:.0} %", 100.0 * empty),
            empty >= 0.5,
        ),
        Verdict::of(
            "mean utilisation of the others",
            "0.12 to 0.54",
            format!("{utilisation:.2}"),
            (0.12..=0.54).contains(&utilisation),
        )
        .beside_the_claim(true),
    ]
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "Segments cleaned in months of use".into(),
        x: "utilisation when cleaned".into(),
        y: "share of segments cleaned".into(),
        y_max: None,
        curves: Curve::all(rows, "share"),
        references: Vec::new(),
    }
}
