//! R1 and R2: the micro-benchmarks of Rosenblum & Ousterhout (1992, §5.1), on their
//! machine: 10,000 files of 1 KB are made, read in the order in which they were made,
//! and removed; a file of 100 MB is written and read in order and at random. The same on
//! a drive and on an NVMe-like device of today.

use crate::experiments::rivals::{
    CREATE, DELETE, ORDER_OF_MAGNITUDE, PASSES, RANDOM_WRITE, READ, READ_AGAIN, Rival, SPRITE_LFS,
    SUN_4, SUN_FFS, and_todays, curves_of_the_paper, large_bytes, large_file, many_files, rates,
    ratio,
};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::platform::files::Phase;
use crate::report::{Picture, Verdict};
use std::ops::Range;

pub const R1: Experiment =
    Experiment::new("R1", small_points, small_verdicts, small_picture).on_machine();

pub const R2: Experiment =
    Experiment::new("R2", large_points, large_verdicts, large_picture).on_machine();

const RIVALS: &[Rival] = &[SPRITE_LFS, SUN_FFS];

const AN_ORDER: &str = "an order of magnitude faster, 3.2 to 31.6 times";

fn small_points(_: &Context) -> Vec<Point> {
    let points = SUN_4.and_todays().map(|(on, machine)| {
        machine.points(RIVALS, on, move |context, series, system, seed| {
            let files = many_files(context, 1024);
            rates(files, &Phase::SMALL, system, &format!("{on}{series}"), seed)
        })
    });
    points.into_iter().flatten().collect()
}

/// How many times as fast as FFS the log is.
fn times(rows: &[Row], on: &str, x: f64, what: &str) -> f64 {
    let of = |(name, _): Rival| format!("{on}{name}");
    ratio(rows, &of(SPRITE_LFS), &of(SUN_FFS), x, what)
}

fn small_verdicts(rows: &[Row]) -> Vec<Verdict> {
    let phases = [
        ("create", CREATE, ORDER_OF_MAGNITUDE, AN_ORDER),
        (
            "read",
            READ,
            0.9..f64::INFINITY,
            "as fast or faster, at least 0.9",
        ),
        ("delete", DELETE, ORDER_OF_MAGNITUDE, AN_ORDER),
    ];
    and_todays(|on| {
        let verdict = |(what, phase, within, expected): (&str, f64, Range<f64>, &str)| {
            let times = times(rows, on, phase, "files_per_s");
            Verdict::of(
                format!("{on}{what}: LFS against FFS"),
                expected,
                format!("{times:.2} x"),
                // What today's devices make of it has no upper bound.
                within.contains(&times) || (!on.is_empty() && times >= within.start),
            )
        };
        phases.clone().map(verdict).into()
    })
}

fn small_picture(rows: &[Row]) -> Picture {
    Picture {
        title: "10,000 files of 1 KB: 1 create, 2 read, 4 delete".into(),
        x: "phase".into(),
        y: "files a second".into(),
        y_max: None,
        curves: curves_of_the_paper(rows, "files_per_s"),
        references: Vec::new(),
    }
    .with_room_for_names()
}

fn large_points(_: &Context) -> Vec<Point> {
    let points = SUN_4.and_todays().map(|(on, machine)| {
        machine.points(RIVALS, on, move |context, series, system, seed| {
            let series = format!("{on}{series}");
            large_file(system, &series, large_bytes(context), seed)
        })
    });
    points.into_iter().flatten().collect()
}

fn large_verdicts(rows: &[Row]) -> Vec<Verdict> {
    and_todays(|on| {
        let verdict = |pass: usize, expected: &str, holds: fn(f64) -> bool| {
            let times = times(rows, on, pass as f64, "kb_per_s");
            Verdict::of(
                format!("{on}{}: LFS against FFS", PASSES[pass]),
                expected,
                format!("{times:.2} x"),
                holds(times),
            )
        };
        vec![
            verdict(RANDOM_WRITE, "wins by far, at least 4", |times| {
                times >= 4.0
            }),
            verdict(READ_AGAIN, "loses, below 1", |times| times < 1.0),
        ]
    })
}

fn large_picture(rows: &[Row]) -> Picture {
    Picture {
        title: "100 MB: 0 write, 1 read, 2 random write, 3 random read, 4 read again".into(),
        x: "pass".into(),
        y: "KB/s".into(),
        y_max: None,
        curves: curves_of_the_paper(rows, "kb_per_s"),
        references: Vec::new(),
    }
    .with_room_for_names()
}
