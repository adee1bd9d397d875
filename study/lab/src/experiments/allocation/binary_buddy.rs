//! A1: binary buddies (Seltzer 1992, §3.3.1, table 3-4): what is lost inside and
//! outside of files, and the throughput of application and sequential test.
//!
//! Beside the claim: the same under other assumptions where the chapter gives
//! no number, one at a time, and what a nightly reallocation leaves unused.

use crate::experiments::allocation::{
    APPLICATION, Case, EXTERNAL, INTERNAL, SEQUENTIAL, Tests, assumptions, figure, near,
};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::report::{Curve, Picture, Verdict};
use crate::simulator::allocation::{Assumptions, Load, PolicyKind};
use varve_disk::Discipline;

pub const A1: Experiment = Experiment::new("A1", points, verdicts, picture).taking(50.0);

/// Table 3-4, percent.
const TABLE: [(Load, [(&str, f64); 4]); 3] = [
    (
        Load::Sc,
        [
            (INTERNAL, 43.1),
            (EXTERNAL, 13.4),
            (APPLICATION, 88.0),
            (SEQUENTIAL, 94.4),
        ],
    ),
    (
        Load::Tp,
        [
            (INTERNAL, 15.2),
            (EXTERNAL, 9.0),
            (APPLICATION, 27.7),
            (SEQUENTIAL, 93.9),
        ],
    ),
    (
        Load::Ts,
        [
            (INTERNAL, 18.4),
            (EXTERNAL, 2.3),
            (APPLICATION, 8.4),
            (SEQUENTIAL, 12.0),
        ],
    ),
];

/// What the chapter leaves open, otherwise than assumed.
fn others(usual: &Assumptions) -> Vec<(&'static str, Tests, Assumptions)> {
    let with = |change: fn(&mut Assumptions)| {
        let mut changed = usual.clone();
        change(&mut changed);
        changed
    };
    use Tests::{Fill, Throughput};
    vec![
        ("requests alike", Fill, with(|a| a.deviation = 0.0)),
        ("requests +- 50 %", Fill, with(|a| a.deviation = 0.5)),
        ("files +- 10 %", Fill, with(|a| a.initial_deviation = 0.1)),
        ("files +- 50 %", Fill, with(|a| a.initial_deviation = 0.5)),
        (
            "medium files deleted",
            Tests::All,
            with(|a| a.text_deletes = true),
        ),
        (
            "pauses of 0.2 s",
            Throughput,
            with(|a| a.think_ns = 200_000_000),
        ),
        ("4 x the users", Throughput, with(|a| a.users = 4)),
        ("16 x the users", Throughput, with(|a| a.users = 16)),
        (
            "16 x the users, shortest positioning first",
            Throughput,
            with(|a| {
                a.users = 16;
                a.discipline = Discipline::Sptf;
            }),
        ),
        (
            "stripe unit 8 KB",
            Throughput,
            with(|a| a.stripe_bytes = 8 << 10),
        ),
        (
            "stripe unit 64 KB",
            Throughput,
            with(|a| a.stripe_bytes = 64 << 10),
        ),
    ]
}

fn points(context: &Context) -> Vec<Point> {
    let usual = assumptions(context);
    let mut points = Vec::new();
    for load in Load::ALL {
        let policy = PolicyKind::Buddy;
        let case = Case::usual(context, load.name().into(), 0.0, load, policy);
        points.push(case.clone().point());
        for (name, tests, assumed) in others(&usual) {
            if assumed.text_deletes && load != Load::Sc {
                continue;
            }
            let series = format!("{}, {name}", load.name());
            let other = Case {
                series,
                assumed,
                tests,
                ..case.clone()
            };
            points.push(other.point());
        }
    }
    points.truncate(context.size(usize::MAX, 15));
    points
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (load, cells) in TABLE {
        for (name, paper) in cells {
            let measured = figure(rows, load.name(), 0.0, name);
            verdicts.push(near(format!("{}: {name}", load.name()), paper, measured));
        }
    }
    for (load, cells) in TABLE {
        let prefix = format!("{}, ", load.name());
        let mut series: Vec<&str> = rows.iter().map(|row| row.series.as_str()).collect();
        series.dedup();
        for series in series.into_iter().filter(|s| s.starts_with(&prefix)) {
            for (name, paper) in cells {
                let measured = figure(rows, series, 0.0, name);
                if measured.mean.is_finite() {
                    let verdict = near(format!("{series}: {name}"), paper, measured);
                    verdicts.push(verdict.beside_the_claim(true));
                }
            }
        }
        let unused = figure(rows, load.name(), 0.0, "reallocated_internal");
        let runs = figure(rows, load.name(), 0.0, "reallocated_runs");
        let verdict = Verdict::of(
            format!("{}: after a nightly reallocation", load.name()),
            "under 4 % unused in about 3 extents (Koch 1987)",
            format!("{unused} % in {runs}"),
            unused.mean < 4.0 && runs.mean <= 3.0,
        );
        verdicts.push(verdict.beside_the_claim(true));
    }
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    let curve = |name: String, value: &dyn Fn(usize, &str) -> f64, load: usize| {
        let cells = TABLE[load].1.iter().enumerate();
        let points = cells.map(|(at, (what, _))| (at as f64 + 1.0, value(at, what)));
        Curve::named(name, points.collect())
    };
    let loads = || (0..3).map(|at| (at, TABLE[at].0.name()));
    let measured = loads().map(|(at, name)| {
        let value = |_: usize, what: &str| figure(rows, name, 0.0, what).mean;
        curve(format!("{name}, measured"), &value, at)
    });
    let paper = loads().map(|(at, name)| {
        let value = |cell: usize, _: &str| TABLE[at].1[cell].1;
        curve(format!("{name}, table 3-4"), &value, at)
    });
    Picture {
        title: "Binary buddies: internal, external, application, sequential".into(),
        x: "1 internal, 2 external, 3 application, 4 sequential".into(),
        y: "per cent".into(),
        y_max: None,
        curves: measured.collect(),
        references: paper.collect(),
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows as the table has them, and what `change` makes of them.
    fn rows(change: impl Fn(Load, &str, f64) -> f64) -> Vec<Row> {
        let row = |(load, cells): &(Load, [(&str, f64); 4])| {
            let row = Row::new(load.name(), 0.0, 1);
            let add =
                |row: Row, (name, paper): &(&str, f64)| row.with(name, change(*load, name, *paper));
            cells.iter().fold(row, add)
        };
        TABLE.iter().map(row).collect()
    }

    fn failing(rows: &[Row]) -> Vec<String> {
        let verdicts = verdicts(rows).into_iter();
        let failing = verdicts.filter(|v| !v.pass && !v.beside);
        failing.map(|v| v.claim).collect()
    }

    #[test]
    fn the_table_itself_passes_and_each_cell_can_fail() {
        assert!(failing(&rows(|_, _, paper| paper)).is_empty());
        let off = rows(|_, _, paper| paper + 5.1 + 0.25 * paper);
        assert_eq!(failing(&off).len(), 12);
        assert_eq!(failing(&[]).len(), 12, "what was not measured fails");
    }

    /// Another policy under the name of buddies, and one drive for eight.
    #[test]
    fn a_wrong_policy_or_drive_fails() {
        let context = Context::tiny();
        let case =
            |load: Load, policy| Case::usual(&context, load.name().into(), 0.0, load, policy);
        let wrong = case(Load::Tp, PolicyKind::Fixed { aged: true }).row(1);
        let failed = failing(&[wrong]);
        for cell in ["TP: internal", "TP: external", "TP: sequential"] {
            assert!(failed.iter().any(|claim| claim == cell), "{failed:?}");
        }
        let mut slow = case(Load::Sc, PolicyKind::Buddy);
        slow.tests = Tests::Throughput;
        let usual = slow.row(1);
        // The arm takes seconds.
        let mut drive = (*slow.assumed.drive).clone();
        drive.seek.long_base_ms *= 400.0;
        slow.assumed.drive = std::sync::Arc::new(drive);
        let failed = |row| failing(&[row]).contains(&"SC: sequential".to_owned());
        assert!(!failed(usual) && failed(slow.row(1)));
    }
}
