//! M2: what a system call costs, and how far transactions in the operating
//! system fall behind (Seltzer 1992, §4.5.1, figure 4-5).

use crate::experiments::simulated_transactions::{
    bounded, gap, mean_tps, models, parameters, percent, places,
};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::report::{Curve, Picture, Verdict};
use crate::simulator::transactions::{Model, Parameters};

pub const M2: Experiment = Experiment::new("M2", points, verdicts, picture).taking(37.0);

const PAIRS: [(Model, Model); 2] = [(Model::UserRo, Model::OsRo), (Model::UserLfs, Model::OsLfs)];
/// The gap at a quarter of a millisecond, percent.
const PAPER: f64 = 12.0;
/// How much faster than the embedded models data managers become with each
/// millisecond of a system call.
const SLOPE: f64 = 0.4;

fn points(context: &Context) -> Vec<Point> {
    let costs = context.size(vec![0, 125, 250, 500, 750, 1000], vec![0, 500]);
    let points = costs.into_iter().map(|instructions| {
        let parameters = Parameters {
            mips: 1.0,
            syscall: f64::from(instructions),
            ..parameters(context)
        };
        models(f64::from(instructions) / 1000.0, &parameters)
    });
    points.flatten().collect()
}

/// The line of least squares through (x, y): where it begins, its slope, and
/// how much of the variance it explains.
fn line(points: &[(f64, f64)]) -> (f64, f64, f64) {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| -> f64 { points.iter().map(|p| of(p.0 - x, p.1 - y)).sum() };
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    (y - xy / xx * x, xy / xx, xy * xy / (xx * yy))
}

/// Data manager over embedded, by the milliseconds of a system call.
fn ratios(rows: &[Row], (user, os): (Model, Model)) -> Vec<(f64, f64)> {
    let ratio = |x| mean_tps(rows, user, x) / mean_tps(rows, os, x);
    let places = places(rows, user.name()).into_iter();
    places.map(|x| (x, ratio(x))).collect()
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (user, os) in PAIRS {
        let claim = format!("{} below {} at 0.25 ms", os.name(), user.name());
        let measured = gap(rows, user, os, 0.25);
        verdicts.push(percent(claim, (PAPER, PAPER), 4.0, measured));
    }
    for pair in PAIRS {
        let (begin, slope, explained) = line(&ratios(rows, pair));
        verdicts.push(Verdict::of(
            format!("{} over {} is a line", pair.0.name(), pair.1.name()),
            format!("1 + {SLOPE} S: 0.95 to 1.05, slope 0.3 to 0.5 per ms, R2 at least 0.98"),
            format!("{begin:.3} + {slope:.3} S, R2 {explained:.4}"),
            (0.95..=1.05).contains(&begin) && (0.3..=0.5).contains(&slope) && explained >= 0.98,
        ));
    }
    verdicts.push(bounded(rows));
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    let curve = |(user, os): (Model, Model)| {
        let places = places(rows, user.name()).into_iter();
        let points = places.map(|x| (x, gap(rows, user, os, x))).collect();
        Curve::named(format!("{} below {}", os.name(), user.name()), points)
    };
    let line = |at: u32| {
        let s = f64::from(at) / 20.0;
        (s, 100.0 * (1.0 - 1.0 / (1.0 + SLOPE * s)))
    };
    Picture {
        title: "1 MIPS: what a system call for each lock costs".into(),
        x: "a system call, ms".into(),
        y: "per cent below the data manager".into(),
        y_max: None,
        curves: PAIRS.map(curve).to_vec(),
        references: vec![
            Curve::named("by 1 + 0.4 S (thesis)", (0..=20).map(line).collect()),
            Curve::named("12 % at 0.25 ms (thesis)", vec![(0.25, PAPER)]),
            Curve::named(
                "OS-RO below USER-RO: 17 % at 0.5 ms (thesis)",
                vec![(0.5, 17.0)],
            ),
            Curve::named(
                "OS-LFS below USER-LFS: 20 % at 0.5 ms (thesis)",
                vec![(0.5, 20.0)],
            ),
        ],
    }
    .with_room_for_names()
}

#[cfg(test)]
pub(in crate::experiments) mod tests {
    use super::*;
    use crate::experiments::simulated_transactions::BOUNDED;
    use crate::experiments::simulated_transactions::{Case, TPS, brief};

    fn rows(ratio: impl Fn(f64) -> f64) -> Vec<Row> {
        let mut rows = Vec::new();
        for s in [0.0, 0.25, 0.5, 1.0] {
            for (user, os) in PAIRS {
                rows.push(Row::new(user.name(), s, 1).with(TPS, 4.0));
                rows.push(Row::new(os.name(), s, 1).with(TPS, 4.0 / ratio(s)));
            }
        }
        rows
    }

    /// Rates as the text has them.
    pub(in crate::experiments) fn thesis() -> Vec<Row> {
        rows(|s| 1.0 + SLOPE * s)
    }

    fn failing(rows: &[Row]) -> usize {
        // Rows of the thesis have no bounds.
        let of_thesis = |v: &Verdict| v.counts() && v.claim != BOUNDED;
        let failing = verdicts(rows)
            .into_iter()
            .filter(|v| !v.pass && of_thesis(v));
        failing.count()
    }

    #[test]
    fn each_claim_can_fail() {
        assert_eq!(failing(&thesis()), 0);
        assert_eq!(failing(&[]), 4, "what was not measured fails");
        assert_eq!(failing(&rows(|s| 1.0 + 0.2 * s)), 4, "too cheap");
        assert_eq!(failing(&rows(|s| 1.1 + s * s)), 2, "no line");
    }

    /// Locks without system calls: the embedded models cost as data managers do.
    #[test]
    fn a_wrong_model_fails() {
        let run = |model: Model, syscall: f64| {
            let case = Case {
                series: model.name().into(),
                x: 0.25,
                model,
                parameters: Parameters {
                    mips: 1.0,
                    run_length: 1500,
                    syscall,
                    ..brief()
                },
            };
            case.row(1)
        };
        let pass = |syscall: f64| {
            let rows = [run(Model::UserLfs, 250.0), run(Model::OsLfs, syscall)];
            let verdicts = verdicts(&rows);
            let claim = "OS-LFS below USER-LFS at 0.25 ms";
            verdicts.iter().find(|v| v.claim == claim).unwrap().pass
        };
        assert!(pass(250.0) && !pass(0.0));
    }
}
