//! B8: four supercomputer applications (Seltzer 1992, §7.9, tables 7-10 and 7-11): a
//! file is written in pieces in random order; then 1000 reads and writes of the
//! application's mean sizes go to random places in it.
//!
//! The program is `program/supercomputer.rs`.

use crate::experiments::rivals::{EFS, FFS, HP_380, LFS, Rival};
use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::System;
use crate::program::supercomputer::{APPLICATIONS, Application, REQUESTS, Rates};
use crate::report::{Curve, Picture, Verdict, mean};
use varve_prove::random::Random;

pub const B8: Experiment = Experiment::new("B8", points, verdicts, picture)
    .on_machine()
    .taking(18.0);

const RIVALS: &[Rival] = &[FFS, EFS, LFS];

/// KB/s of FFS, EFS and LFS in table 7-11, reads and writes of each application.
const PAPER: [([f64; 3], [f64; 3]); 4] = [
    ([206.02, 227.60, 214.13], [215.56, 242.40, 474.40]),
    ([332.59, 392.55, 425.98], [289.49, 299.68, 601.89]),
    ([440.72, 900.54, 691.11], [276.48, 811.33, 792.19]),
    ([458.39, 1046.57, 1152.99], [316.69, 593.56, 798.61]),
];

fn run(
    application: &Application,
    context: &Context,
    system: &mut dyn System,
    seed: u64,
) -> Result<Rates, LabError> {
    let file_bytes = context.size(application.file_mb, 4.0) * f64::from(1 << 20);
    let mut random = Random::new(seed);
    let end = application.load(system, file_bytes, &mut random)?;
    system.sync()?;
    system.forget();
    let count = context.size(REQUESTS, 40);
    application.requests(system, end, count, &mut random)
}

fn points(_: &Context) -> Vec<Point> {
    let mut points = Vec::new();
    for (nth, application) in (1..).zip(&APPLICATIONS) {
        points.extend(HP_380.points(
            RIVALS,
            application.name,
            move |context, series, system, seed| {
                let rates = run(application, context, system, seed)?;
                let row = Row::new(series, f64::from(nth), seed);
                Ok(vec![
                    row.with("read_kb_s", rates.read_kb_s)
                        .with("write_kb_s", rates.write_kb_s),
                ])
            },
        ));
    }
    points
}

/// Where the paper has one system clearly ahead of another, so it must be here.
const CLEARLY: f64 = 1.1;
const WITHIN: f64 = 0.3;

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (nth, (application, (reads, writes))) in (1..).zip(APPLICATIONS.iter().zip(PAPER)) {
        for (what, value, paper) in [
            ("read", "read_kb_s", reads),
            ("write", "write_kb_s", writes),
        ] {
            let found = [FFS, EFS, LFS].map(|(name, _)| mean(rows, name, f64::from(nth), value));
            let ahead =
                |rates: [f64; 3], one: usize, other: usize| rates[one] > CLEARLY * rates[other];
            let pairs = [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)];
            let agrees = |&(one, other): &(usize, usize)| {
                !ahead(paper, one, other) || found[one] > found[other]
            };
            let told = |rates: [f64; 3]| rates.map(|rate| format!("{rate:.0}")).join(", ");
            let name = application.name;
            verdicts.push(Verdict::of(
                format!("{name}, {what}: who is ahead of whom by a tenth and more"),
                format!("FFS, EFS, LFS: {} KB/s", told(paper)),
                format!("{} KB/s", told(found)),
                pairs.iter().all(agrees),
            ));
            let off = |at: usize| (found[at] / paper[at] - 1.0).abs();
            let worst = [0, 1, 2].map(off).into_iter().fold(0.0, f64::max);
            verdicts.push(Verdict::of(
                format!("{name}, {what}: KB/s of each"),
                "within 30 % of the paper's",
                format!("at most {:.0} % off", 100.0 * worst),
                // What was not measured is no number, and not the worst either.
                (0..3).all(|at| off(at) <= WITHIN),
            ));
        }
    }
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "Writes of supercomputers: 1 bvi, 2 ccm, 3 les, 4 venus".into(),
        x: "application".into(),
        y: "KB/s".into(),
        y_max: None,
        curves: Curve::all(rows, "write_kb_s"),
        references: Vec::new(),
    }
    .with_room_for_names()
}

#[cfg(test)]
pub(in crate::experiments) mod tests {
    use super::*;

    /// Rows as table 7-11 has them.
    pub(in crate::experiments) fn paper() -> Vec<Row> {
        let mut rows = Vec::new();
        for (nth, (reads, writes)) in (1..).zip(PAPER) {
            for (at, (name, _)) in RIVALS.iter().enumerate() {
                let row = Row::new(*name, f64::from(nth), 1);
                let row = row.with("read_kb_s", reads[at]);
                rows.push(row.with("write_kb_s", writes[at]));
            }
        }
        rows
    }
}
