//! A2: restricted buddies (Seltzer 1992, §3.3.2): two to five block sizes, grow
//! factors 1 and 2, clustered or not.

use crate::experiments::allocation::{APPLICATION, Case, EXTERNAL, INTERNAL, SEQUENTIAL, mean_of};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::report::{Curve, Picture, Verdict};
use crate::simulator::allocation::{Load, PolicyKind};

pub const A2: Experiment = Experiment::new("A2", points, verdicts, picture).taking(50.0);

const SIZES: [usize; 4] = [2, 3, 4, 5];
const GROW: [u64; 2] = [1, 2];
const CLUSTERED: [bool; 2] = [true, false];

fn series(load: Load, grow: u64, clustered: bool) -> String {
    let how = if clustered {
        "clustered"
    } else {
        "unclustered"
    };
    format!("{}, grow {grow}, {how}", load.name())
}

fn points(context: &Context) -> Vec<Point> {
    let mut points = Vec::new();
    for load in Load::ALL {
        for grow in GROW {
            for clustered in CLUSTERED {
                for &sizes in context.size(&SIZES[..], &SIZES[3..]) {
                    let policy = PolicyKind::Restricted {
                        sizes,
                        grow,
                        clustered,
                    };
                    let series = series(load, grow, clustered);
                    points.push(Case::usual(context, series, sizes as f64, load, policy).point());
                }
            }
        }
    }
    points
}

/// The value of every configuration of a kind, by name.
fn all(rows: &[Row], load: Load, grow: &[u64], clustered: &[bool], name: &str) -> Vec<f64> {
    let mut values = Vec::new();
    for &grow in grow {
        for &clustered in clustered {
            let of =
                |sizes: usize| mean_of(rows, &series(load, grow, clustered), sizes as f64, name);
            values.extend(SIZES.map(of));
        }
    }
    values
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// No number is larger than any.
fn largest(values: &[f64]) -> f64 {
    let worse = |a: f64, b: &f64| if b.is_nan() { f64::INFINITY } else { a.max(*b) };
    values.iter().fold(0.0, worse)
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for load in Load::ALL {
        for name in [INTERNAL, EXTERNAL] {
            let values = all(rows, load, &GROW, &CLUSTERED, name);
            let most = largest(&values);
            verdicts.push(Verdict::of(
                format!(
                    "{}: {name} fragmentation of the worst configuration",
                    load.name()
                ),
                "at most 6 %",
                format!("{most:.1} %, {:.1} % on average", average(&values)),
                most <= 6.0,
            ));
        }
    }
    verdicts.push(grow(rows));
    let five = [(Load::Sc, "25 %"), (Load::Tp, "20 %")];
    verdicts.extend(five.map(|(load, paper)| five_sizes(rows, load, paper)));
    verdicts.push(clustering(rows));
    verdicts.extend(beside(rows));
    verdicts
}

/// Grow factor 2 cuts what is unused within files.
fn grow(rows: &[Row]) -> Verdict {
    let of = |grow| all(rows, Load::Ts, &[grow], &CLUSTERED, INTERNAL);
    let (one, two) = (of(1), of(2));
    let cut = 1.0 - average(&two) / average(&one);
    let less = one.iter().zip(&two).filter(|(one, two)| two < one).count();
    Verdict::of(
        "TS: grow factor 2 cuts internal fragmentation",
        "by about a third, in every configuration",
        format!("by {:.0} %, in {less} of {}", 100.0 * cut, one.len()),
        less == one.len() && cut > 0.0,
    )
}

/// The application test with five block sizes beside two.
fn five_sizes(rows: &[Row], load: Load, paper: &str) -> Verdict {
    let ratio = |grow, clustered| {
        let series = series(load, grow, clustered);
        let of = |sizes| mean_of(rows, &series, sizes, APPLICATION);
        of(5.0) / of(2.0) - 1.0
    };
    let mut gains = Vec::new();
    for grow in GROW {
        gains.extend(CLUSTERED.map(|clustered| ratio(grow, clustered)));
    }
    let best = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let better = gains.iter().filter(|gain| **gain > 0.0).count();
    Verdict::of(
        format!(
            "{}: five block sizes against two, application test",
            load.name()
        ),
        format!("better, by up to {paper}"),
        format!(
            "up to {:+.1} %, {:+.1} % on average, better in {better} of {}",
            100.0 * best,
            100.0 * average(&gains),
            gains.len()
        ),
        average(&gains) > 0.0,
    )
}

/// Clustering helps time-sharing.
fn clustering(rows: &[Row]) -> Verdict {
    let of = |clustered| all(rows, Load::Ts, &GROW, &[clustered], SEQUENTIAL);
    let (with, without) = (of(true), of(false));
    let gains: Vec<f64> = with
        .iter()
        .zip(&without)
        .map(|(a, b)| a / b - 1.0)
        .collect();
    let best = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Verdict::of(
        "TS: clustering, sequential test",
        "better, by up to 20 %",
        format!(
            "up to {:+.1} %, {:+.1} % on average",
            100.0 * best,
            100.0 * average(&gains)
        ),
        average(&gains) > 0.0 && best <= 0.25,
    )
}

/// What the text says besides.
fn beside(rows: &[Row]) -> Vec<Verdict> {
    let grows = |load, name| {
        let of = |grow| average(&all(rows, load, &[grow], &CLUSTERED, name));
        of(2) / of(1) - 1.0
    };
    let ts = grows(Load::Ts, SEQUENTIAL);
    let mut verdicts = vec![Verdict::of(
        "TS: grow factor 2, sequential test",
        "better (figure 3-4)",
        format!("{:+.1} %", 100.0 * ts),
        ts > 0.0,
    )];
    for load in [Load::Sc, Load::Tp] {
        let change = grows(load, APPLICATION);
        verdicts.push(Verdict::of(
            format!("{}: grow factor 2, application test", load.name()),
            "relatively insensitive: within 5 %",
            format!("{:+.1} %", 100.0 * change),
            change.abs() <= 0.05,
        ));
    }
    verdicts
        .into_iter()
        .map(|v| v.beside_the_claim(true))
        .collect()
}

fn picture(rows: &[Row]) -> Picture {
    let curves = Curve::all(rows, SEQUENTIAL).into_iter();
    let curves = curves.filter(|curve| !curve.name.contains("grow 2, unclustered"));
    Picture {
        title: "Restricted buddies: sequential test".into(),
        x: "block sizes".into(),
        y: "per cent of what the drives sustain".into(),
        y_max: None,
        curves: curves.collect(),
        references: vec![Curve::named(
            "TS: below 20 % (§3.4)",
            vec![(2.0, 20.0), (5.0, 20.0)],
        )],
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a study in which everything is as the thesis says.
    fn rows(change: impl Fn(Load, u64, bool, usize, Row) -> Row) -> Vec<Row> {
        let mut rows = Vec::new();
        for load in Load::ALL {
            for grow in GROW {
                for clustered in CLUSTERED {
                    for sizes in SIZES {
                        let unused = if grow == 2 { 2.0 } else { 3.0 };
                        let speed = 10.0 + 0.5 * sizes as f64 + f64::from(u8::from(clustered));
                        let row = Row::new(series(load, grow, clustered), sizes as f64, 1)
                            .with(INTERNAL, unused)
                            .with(EXTERNAL, 4.0)
                            .with(APPLICATION, speed)
                            .with(SEQUENTIAL, speed);
                        rows.push(change(load, grow, clustered, sizes, row));
                    }
                }
            }
        }
        rows
    }

    fn failing(rows: &[Row]) -> Vec<String> {
        let failing = verdicts(rows).into_iter().filter(|v| !v.pass && !v.beside);
        failing.map(|v| v.claim).collect()
    }

    #[test]
    fn each_claim_can_fail() {
        assert!(failing(&rows(|_, _, _, _, row| row)).is_empty());
        assert_eq!(failing(&[]).len(), 10, "what was not measured fails");
        // Every file has whole blocks of the largest size.
        let large = rows(|_, _, _, _, row| row.with(INTERNAL, 30.0));
        assert!(
            failing(&large)
                .contains(&"TS: internal fragmentation of the worst configuration".into())
        );
        assert!(
            failing(&large)
                .iter()
                .any(|claim| claim.contains("grow factor"))
        );
        // Grow factors, sizes and regions that change nothing.
        let flat = rows(|_, _, _, _, row| row.with(APPLICATION, 9.0).with(SEQUENTIAL, 9.0));
        assert_eq!(failing(&flat).len(), 3);
    }
}
