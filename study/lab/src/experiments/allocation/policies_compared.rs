//! A4: all policies compared (Seltzer 1992, §3.4 and §3.5), each in the
//! configuration that the chapter chooses for it.
//!
//! The fixed blocks of the comparison are placed as FFS places them (T657). How large its
//! clusters and gaps are the chapter does not give, nor how old the volume is, so that
//! blocks from an aged free list and from one in order are compared, too. Multi-block
//! policies must be ahead of the first by any factor; how far is underdetermined.

use crate::experiments::allocation::{APPLICATION, Case, SEQUENTIAL, Tests, figure, mean_of};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::report::{Curve, Picture, Verdict};
use crate::simulator::allocation::{Load, PolicyKind};

pub const A4: Experiment = Experiment::new("A4", points, verdicts, picture).taking(50.0);

const FIXED: &str = "fixed blocks";
/// Readings of the fixed blocks.
const SINGLE: [(&str, PolicyKind); 3] = [
    (FIXED, PolicyKind::Grouped),
    ("fixed blocks, aged", PolicyKind::Fixed { aged: true }),
    ("fixed blocks in order", PolicyKind::Fixed { aged: false }),
];
const BUDDY: &str = "buddy";
const EXTENTS: &str = "extents";

/// The policies that can have long transfers.
const MULTI: [(&str, PolicyKind); 3] = [
    (BUDDY, PolicyKind::Buddy),
    ("restricted", PolicyKind::RESTRICTED),
    (EXTENTS, PolicyKind::EXTENTS),
];

fn series(load: Load, name: &str) -> String {
    format!("{}, {name}", load.name())
}

fn points(context: &Context) -> Vec<Point> {
    let mut points = Vec::new();
    for load in Load::ALL {
        for (name, policy) in MULTI.into_iter().chain(SINGLE) {
            let mut case = Case::usual(context, series(load, name), 0.0, load, policy);
            case.tests = Tests::Throughput;
            points.push(case.point());
        }
    }
    points
}

fn at(rows: &[Row], load: Load, name: &str, what: &str) -> f64 {
    mean_of(rows, &series(load, name), 0.0, what)
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for load in [Load::Sc, Load::Tp] {
        for (name, _) in MULTI {
            let measured = figure(rows, &series(load, name), 0.0, SEQUENTIAL);
            verdicts.push(Verdict::of(
                format!("{}: {name}, sequential test", load.name()),
                "near the maximum: at least 85 %",
                format!("{measured} %"),
                measured.mean >= 85.0,
            ));
        }
    }
    for name in MULTI.map(|(name, _)| name).into_iter().chain([FIXED]) {
        for what in [SEQUENTIAL, APPLICATION] {
            let measured = figure(rows, &series(Load::Ts, name), 0.0, what);
            verdicts.push(Verdict::of(
                format!("TS: {name}, {what} test"),
                "at most 20 %",
                format!("{measured} %"),
                measured.mean <= 20.0,
            ));
        }
    }
    for (load, what, paper) in [
        (Load::Sc, APPLICATION, "by up to 250 %"),
        (Load::Sc, SEQUENTIAL, "by up to 250 %"),
        (Load::Tp, SEQUENTIAL, "by up to 250 %"),
        (Load::Tp, APPLICATION, "by about 10 %"),
    ] {
        let claim = format!(
            "{}: multi-block policies over fixed blocks, {what} test",
            load.name()
        );
        // More than so placed blocks, in percent.
        let gains = |single: &str| {
            let one = at(rows, load, single, what);
            MULTI.map(|(name, _)| 100.0 * (at(rows, load, name, what) / one - 1.0))
        };
        let told = |single: &str| {
            let gains = gains(single);
            let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
            let most = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            format!("{least:+.0} to {most:+.0} %")
        };
        // What was not measured is no number, and not more than any.
        let ahead = gains(FIXED).iter().all(|gain| *gain > 0.0);
        verdicts.push(Verdict::of(claim.clone(), "more", told(FIXED), ahead));
        let all = SINGLE.map(|(single, _)| format!("{single}: {}", told(single)));
        verdicts.push(
            Verdict::of(format!("{claim}: how far"), paper, all.join("; "), false).underdetermined(
                "T657",
                "clusters, rotational gaps and age of the fixed blocks",
            ),
        );
    }
    verdicts.extend(beside(rows));
    verdicts
}

/// What the text says besides.
fn beside(rows: &[Row]) -> Vec<Verdict> {
    let first = |load: Load, name: &'static str, what: &str, why: &str| {
        let ours = at(rows, load, name, what);
        let others = MULTI.iter().filter(|(other, _)| *other != name);
        let best = others
            .map(|(other, _)| at(rows, load, other, what))
            .fold(0.0, f64::max);
        let verdict = Verdict::of(
            format!("{}: {name} is the fastest, {what} test", load.name()),
            why,
            format!("{ours:.1} %, the next {best:.1} %"),
            ours > best,
        );
        verdict.beside_the_claim(true)
    };
    vec![
        first(
            Load::Sc,
            BUDDY,
            APPLICATION,
            "substantially better for large files (§3.4)",
        ),
        first(
            Load::Ts,
            EXTENTS,
            SEQUENTIAL,
            "fewest pieces of small files (§3.4)",
        ),
    ]
}

fn picture(rows: &[Row]) -> Picture {
    let mut curves: Vec<Curve> = Vec::new();
    let names = MULTI.map(|(name, _)| name).into_iter();
    for name in names.chain(SINGLE.map(|(name, _)| name)) {
        let mut points = Vec::new();
        for (nth, what) in [SEQUENTIAL, APPLICATION].into_iter().enumerate() {
            for (at, load) in Load::ALL.into_iter().enumerate() {
                let x = (3 * nth + at) as f64 + 1.0;
                points.push((x, mean_of(rows, &series(load, name), 0.0, what)));
            }
        }
        curves.push(Curve::named(name, points));
    }
    let paper = [94.4, 93.9, 12.0, 88.0, 27.7, 8.4];
    let points = paper.into_iter().enumerate();
    let points = points.map(|(at, value)| (at as f64 + 1.0, value)).collect();
    Picture {
        title: "All policies: sequential and application test".into(),
        x: "sequential: 1 SC, 2 TP, 3 TS; application: 4 SC, 5 TP, 6 TS".into(),
        y: "per cent of what the drives sustain".into(),
        y_max: None,
        curves,
        references: vec![
            Curve::named("buddy, table 3-4", points),
            Curve::named("TS: below 20 % (§3.4)", vec![(1.0, 20.0), (6.0, 20.0)]),
        ],
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(fast: f64, ts: f64, tp_application: f64) -> Vec<Row> {
        let mut rows = Vec::new();
        for load in Load::ALL {
            for name in MULTI.map(|(name, _)| name).into_iter().chain([FIXED]) {
                let fixed = name == FIXED;
                let (sequential, application) = match (load, fixed) {
                    (Load::Ts, _) => (ts, ts),
                    (Load::Tp, false) => (fast, tp_application),
                    (Load::Tp, true) => (30.0, 10.0),
                    (Load::Sc, false) => (fast, fast),
                    (Load::Sc, true) => (30.0, 30.0),
                };
                let row = Row::new(series(load, name), 0.0, 1);
                let row = row.with(SEQUENTIAL, sequential);
                rows.push(row.with(APPLICATION, application));
            }
        }
        rows
    }

    fn failing(rows: &[Row]) -> usize {
        let failing = verdicts(rows).into_iter().filter(|v| !v.pass && v.counts());
        failing.count()
    }

    #[test]
    fn each_claim_can_fail() {
        assert_eq!(failing(&rows(95.0, 15.0, 11.0)), 0);
        assert_eq!(failing(&[]), 6 + 8 + 4, "what was not measured fails");
        assert_eq!(failing(&rows(84.0, 15.0, 11.0)), 6, "far from the maximum");
        assert_eq!(failing(&rows(95.0, 21.0, 11.0)), 8, "small files too fast");
        assert_eq!(
            failing(&rows(95.0, 15.0, 9.0)),
            1,
            "slower than fixed blocks"
        );
        assert_eq!(failing(&rows(25.0, 15.0, 11.0)), 6 + 3);
    }

    /// Fixed blocks under the name of a policy with long transfers.
    #[test]
    fn a_wrong_policy_fails() {
        let context = Context::tiny();
        let run = |policy| {
            let series = series(Load::Tp, BUDDY);
            let mut case = Case::usual(&context, series, 0.0, Load::Tp, policy);
            case.tests = Tests::Throughput;
            let claim = "TP: buddy, sequential test";
            let verdicts = verdicts(&[case.row(1)]);
            verdicts
                .into_iter()
                .find(|v| v.claim == claim)
                .unwrap()
                .pass
        };
        assert!(run(PolicyKind::Buddy));
        assert!(!run(PolicyKind::Fixed { aged: true }));
    }
}
