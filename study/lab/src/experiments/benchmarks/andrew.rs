//! B3: the Andrew benchmark, one user (Seltzer 1992, §7.5.1, table 7-3): directories
//! are made, files copied into them, all looked at, all read, and some compiled.
//!
//! The program is `program/andrew.rs`. The processor computes as long as the paper says,
//! and a user waits for the rest of what the log took in the paper, elsewhere: so the log's
//! times are nearly the paper's by construction. What is found is the seconds that the
//! others take beyond them, phase by phase, and how busy the processor is.
//!
//! With the paper's cleaner the log is on a part of the drive that is written over four
//! times. The file system on the virtual log stands beside.

use crate::experiments::benchmarks::andrew_many_users::charge;
use crate::experiments::rivals::{EFS, FFS, HP_380, LFS, Rival, VLFS};
use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::{Cleaning, System};
use crate::program::andrew::{self, When};
use crate::report::{Curve, Picture, Verdict, mean};

pub const B3: Experiment = Experiment::new("B3", points, verdicts, picture).on_machine();

const RIVALS: &[Rival] = &[FFS, EFS, LFS, VLFS];
const LOG: &[Rival] = &[LFS];
const CLEANED: &str = "LFS + cleaner";
/// Of the drive, where the cleaner has work: 34 MB.
const CYLINDERS: u32 = 50;

const TOTAL: f64 = 6.0;

/// One pass: seconds of each phase.
fn pass(system: &mut dyn System, nth: u32) -> Result<[f64; 5], LabError> {
    andrew::pass(system, nth, When::EachStep, charge)
}

/// The mean of the later half of so many passes.
fn passes(
    system: &mut dyn System,
    series: &str,
    passes: u32,
    seed: u64,
) -> Result<Vec<Row>, LabError> {
    let mut sums = [0.0; 5];
    let measured = passes.div_ceil(2);
    for nth in 0..passes {
        let seconds = pass(system, nth)?;
        if nth >= passes - measured {
            sums.iter_mut().zip(seconds).for_each(|(sum, s)| *sum += s);
        }
        // Between two passes what waits is written, as time does.
        system.sync()?;
    }
    let mean = |sum: f64| sum / f64::from(measured);
    let row = |x: f64, s: f64| Row::new(series, x, seed).with("s", s);
    let phases = (1..).zip(sums).map(|(x, sum)| row(f64::from(x), mean(sum)));
    let total = row(TOTAL, mean(sums.iter().sum()));
    Ok(phases.chain([total]).collect())
}

fn points(_: &Context) -> Vec<Point> {
    let whole = HP_380.points(RIVALS, "", |context, series, system, seed| {
        passes(system, series, context.size(10, 1), seed)
    });
    let cleaned = HP_380
        .of_cylinders(CYLINDERS)
        .cleaning(Cleaning::COST_BENEFIT);
    let cleaned = cleaned.points(LOG, "cleaner, ", |context, _, system, seed| {
        passes(system, CLEANED, context.size(150, 1), seed)
    });
    whole.chain(cleaned).collect()
}

/// Seconds of each phase in table 7-3: FFS, EFS, LFS.
const TABLE: [[f64; 5]; 3] = [
    [2.1, 7.9, 6.3, 9.0, 44.8],
    [2.1, 7.9, 6.7, 9.1, 44.4],
    [0.33, 5.0, 6.5, 9.07, 42.9],
];
/// Phases in which the paper has a difference, and how far seconds may be off.
const DIFFER: [usize; 3] = [0, 1, 4];
const WITHIN: f64 = 0.4;

/// Seconds by which the log is ahead, where the paper has a difference.
fn seconds_ahead(rows: &[Row], ffs: &str, paper: &[f64; 5]) -> Vec<Verdict> {
    let ahead = |phase: usize| {
        let of = |series| mean(rows, series, phase as f64 + 1.0, "s");
        of(ffs) - of(LFS.0)
    };
    let verdict = |phase: usize| {
        let (paper, found) = (paper[phase] - TABLE[2][phase], ahead(phase));
        Verdict::of(
            format!(
                "{}: seconds by which LFS is ahead of {ffs}",
                andrew::PHASES[phase]
            ),
            format!("{paper:.1}, within 40 %"),
            format!("{found:.1}"),
            (found / paper - 1.0).abs() <= WITHIN,
        )
    };
    DIFFER.map(verdict).into()
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let s = |series: &str, x: f64| mean(rows, series, x, "s");
    let mut verdicts = Vec::new();
    for (ffs, paper) in [(FFS.0, 70.1), (EFS.0, 70.2)] {
        let better = 100.0 * (1.0 - s(LFS.0, TOTAL) / s(ffs, TOTAL));
        verdicts.push(Verdict::of(
            format!("in all: LFS against {ffs} ({paper} s in the paper)"),
            "5 to 15 % better",
            format!(
                "{:.1} s, LFS {:.1}: {better:.1} %",
                s(ffs, TOTAL),
                s(LFS.0, TOTAL)
            ),
            (5.0..=15.0).contains(&better),
        ));
        let times = s(ffs, 1.0) / s(LFS.0, 1.0);
        verdicts.push(Verdict::of(
            format!("directories made: LFS against {ffs}"),
            "at least 4 x",
            format!("{times:.2} x"),
            times >= 4.0,
        ));
    }
    for (ffs, paper) in [FFS.0, EFS.0].into_iter().zip(&TABLE) {
        verdicts.extend(seconds_ahead(rows, ffs, paper));
    }
    let cost = 100.0 * (s(CLEANED, TOTAL) / s(LFS.0, TOTAL) - 1.0);
    verdicts.push(Verdict::of(
        "what the cleaner costs",
        "at most 2 %",
        format!("{cost:.2} %"),
        cost <= 2.0,
    ));
    let (virtual_log, log) = (s(VLFS.0, TOTAL), s(LFS.0, TOTAL));
    verdicts.push(
        Verdict::of(
            "in all: VLFS against LFS",
            "at least as fast, as V9 has it where nobody waits",
            format!("{virtual_log:.1} s, LFS {log:.1}"),
            virtual_log <= log,
        )
        .beside_the_claim(true),
    );
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "Andrew: 1 directories, 2 copy, 3 stat, 4 grep, 5 compile, 6 all".into(),
        x: "phase".into(),
        y: "seconds".into(),
        y_max: None,
        curves: Curve::all(rows, "s"),
        references: vec![
            Curve::named(
                "paper, FFS",
                vec![
                    (1.0, 2.1),
                    (2.0, 7.9),
                    (3.0, 6.3),
                    (4.0, 9.0),
                    (5.0, 44.8),
                    (6.0, 70.1),
                ],
            ),
            Curve::named(
                "paper, LFS",
                vec![
                    (1.0, 0.33),
                    (2.0, 5.0),
                    (3.0, 6.5),
                    (4.0, 9.07),
                    (5.0, 42.9),
                    (6.0, 63.8),
                ],
            ),
        ],
    }
    .with_room_for_names()
}
