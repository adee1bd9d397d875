//! A3: extents (Seltzer 1992, §3.3.3): first fit and best fit, with one to five
//! ranges of sizes.
//!
//! Which type of file has which range is not in the chapter. It follows from
//! table 3-7 for most configurations, whose figures are sums of quotients of
//! sizes (`study/allocation.md`); those cells are therefore no test of the
//! simulator but of that reading. Beside the claim stands the other reading, in
//! which every file draws one of the ranges.

use crate::experiments::allocation::{
    APPLICATION, Case, EXTERNAL, INTERNAL, SEQUENTIAL, Tests, figure, mean_of,
};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::report::{Curve, Picture, Verdict};
use crate::simulator::allocation::{Load, PolicyKind};

pub const A3: Experiment = Experiment::new("A3", points, verdicts, picture).taking(50.0);

/// Table 3-7: extents per file for one to five ranges.
const TABLE: [(Load, [f64; 5]); 3] = [
    (Load::Sc, [162.0, 124.0, 97.0, 151.0, 162.0]),
    (Load::Tp, [267.0, 13.0, 12.0, 14.0, 108.0]),
    (Load::Ts, [5.0, 9.0, 9.0, 7.0, 6.0]),
];
const FITS: [bool; 2] = [false, true];
const PER_FILE: &str = "extents_per_file";

fn series(load: Load, best: bool) -> String {
    let fit = if best { "best fit" } else { "first fit" };
    format!("{}, {fit}", load.name())
}

fn drawn(load: Load) -> String {
    format!("{}, first fit, ranges drawn", load.name())
}

fn points(context: &Context) -> Vec<Point> {
    let mut points = Vec::new();
    for load in Load::ALL {
        for ranges in context.size(1..=5, 3..=3) {
            let x = f64::from(ranges);
            let policy = |best, drawn| PolicyKind::Extents {
                best,
                ranges: ranges as usize,
                drawn,
            };
            for best in FITS {
                let series = series(load, best);
                points.push(Case::usual(context, series, x, load, policy(best, false)).point());
            }
            let mut other = Case::usual(context, drawn(load), x, load, policy(false, true));
            other.tests = Tests::Fill;
            points.push(other.point());
        }
    }
    points
}

/// The mean over all numbers of ranges.
fn overall(rows: &[Row], load: Load, best: bool, name: &str) -> f64 {
    let of = |ranges: u32| mean_of(rows, &series(load, best), f64::from(ranges), name);
    (1..=5).map(of).sum::<f64>() / 5.0
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for load in Load::ALL {
        for name in [INTERNAL, EXTERNAL] {
            verdicts.push(low(rows, load, name));
        }
    }
    for load in Load::ALL {
        let lost = |best| overall(rows, load, best, INTERNAL) + overall(rows, load, best, EXTERNAL);
        let (first, best) = (lost(false), lost(true));
        verdicts.push(Verdict::of(
            format!("{}: best fit fragments less", load.name()),
            "less unused and free at the end than with first fit",
            format!("{best:.2} for {first:.2} %"),
            best < first,
        ));
    }
    for load in Load::ALL {
        let speed =
            |best| overall(rows, load, best, APPLICATION) + overall(rows, load, best, SEQUENTIAL);
        let (first, best) = (speed(false) / 2.0, speed(true) / 2.0);
        verdicts.push(Verdict::of(
            format!("{}: first fit is faster", load.name()),
            "at least as fast as best fit, both tests together",
            format!("{first:.2} for {best:.2} %"),
            first >= best,
        ));
    }
    for (load, cells) in TABLE {
        for (at, paper) in cells.into_iter().enumerate() {
            let x = at as f64 + 1.0;
            let of = |series: &str, name| figure(rows, series, x, name);
            let name = format!("{}, {x} ranges", load.name());
            let cell = |what: &str, measured: crate::experiments::allocation::Figure| {
                Verdict::of(
                    format!("{name}: {what}"),
                    format!("{paper}, within 40 %"),
                    measured.to_string(),
                    (measured.mean / paper - 1.0).abs() <= 0.4,
                )
            };
            let first = series(load, false);
            verdicts.push(cell("extents per file", of(&first, PER_FILE)));
            let others = [
                cell("by request", of(&first, "extents_per_request")),
                cell("ranges drawn", of(&drawn(load), PER_FILE)),
            ];
            verdicts.extend(others.map(|v| v.beside_the_claim(true)));
        }
    }
    verdicts
}

fn low(rows: &[Row], load: Load, name: &str) -> Verdict {
    let mut most: f64 = 0.0;
    for best in FITS {
        for ranges in 1..=5 {
            let value = mean_of(rows, &series(load, best), f64::from(ranges), name);
            most = if value.is_nan() {
                f64::INFINITY
            } else {
                most.max(value)
            };
        }
    }
    Verdict::of(
        format!(
            "{}: {name} fragmentation of the worst configuration",
            load.name()
        ),
        "below 4 %",
        format!("{most:.1} %"),
        most < 4.0,
    )
}

fn picture(rows: &[Row]) -> Picture {
    let curves = Curve::all(rows, PER_FILE).into_iter();
    let curves = curves.filter(|curve| curve.name.ends_with("first fit"));
    let paper = TABLE.iter().map(|(load, cells)| {
        let points = cells.iter().enumerate();
        let points = points.map(|(at, value)| (at as f64 + 1.0, *value));
        Curve::named(format!("{}, table 3-7", load.name()), points.collect())
    });
    Picture {
        title: "Extents per file".into(),
        x: "ranges of sizes".into(),
        y: "extents".into(),
        y_max: None,
        curves: curves.collect(),
        references: paper.collect(),
    }
    .with_room_for_names()
}

#[cfg(test)]
pub(in crate::experiments) mod tests {
    use super::*;

    fn rows(change: impl Fn(bool, Row) -> Row) -> Vec<Row> {
        let mut rows = Vec::new();
        for (load, cells) in TABLE {
            for (at, extents) in cells.into_iter().enumerate() {
                for best in FITS {
                    let (lost, speed) = if best { (1.0, 9.0) } else { (2.0, 10.0) };
                    let row = Row::new(series(load, best), at as f64 + 1.0, 1)
                        .with(INTERNAL, lost)
                        .with(EXTERNAL, lost)
                        .with(APPLICATION, speed)
                        .with(SEQUENTIAL, speed)
                        .with(PER_FILE, extents);
                    rows.push(change(best, row));
                }
            }
        }
        rows
    }

    /// Everything as the thesis has it.
    pub(in crate::experiments) fn thesis() -> Vec<Row> {
        let by_request = |_, row: Row| {
            let extents = row.values[PER_FILE];
            row.with("extents_per_request", extents)
        };
        let mut all = rows(by_request);
        let first = all.iter().filter(|row| row.series.ends_with("first fit"));
        let drawn = first.map(|row| Row {
            series: format!("{}, ranges drawn", row.series),
            ..row.clone()
        });
        let drawn: Vec<Row> = drawn.collect();
        all.extend(drawn);
        all
    }

    fn failing(rows: &[Row]) -> usize {
        let failing = verdicts(rows).into_iter().filter(|v| !v.pass && !v.beside);
        failing.count()
    }

    #[test]
    fn each_claim_can_fail() {
        assert_eq!(failing(&thesis()), 0);
        assert_eq!(failing(&[]), 6 + 3 + 3 + 15, "what was not measured fails");
        // The two policies under each other's names.
        let swapped = |best, row: Row| {
            let (lost, speed) = if best { (2.0, 10.0) } else { (1.0, 9.0) };
            row.with(INTERNAL, lost)
                .with(APPLICATION, speed)
                .with(SEQUENTIAL, speed)
                .with(EXTERNAL, lost)
        };
        assert_eq!(failing(&rows(swapped)), 6);
        // A drive so full of holes, and extents of half the size.
        assert_eq!(failing(&rows(|_, row| row.with(EXTERNAL, 5.0))), 3);
        let halved = |_, row: Row| {
            let extents = row.values[PER_FILE];
            row.with(PER_FILE, 2.0 * extents)
        };
        assert_eq!(failing(&rows(halved)), 15);
    }
}
