//! M4: processors of 1 MIPS and faster: how much the file system decides, and
//! how much the place of transactions (Seltzer 1992, §4.5.2, figure 4-7).

use crate::experiments::simulated_transactions::{
    Case, SATURATED, bounded, curve_gap, gap, models, parameters, percent, places,
};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::report::{Curve, Picture, Verdict};
use crate::simulator::transactions::{Model, Parameters};

pub const M4: Experiment = Experiment::new("M4", points, verdicts, picture).taking(70.0);

/// What the file system decides.
const FILE_SYSTEM: [(Model, Model); 2] =
    [(Model::UserLfs, Model::UserRo), (Model::OsLfs, Model::OsRo)];
/// What the place of transactions decides.
const PLACE: [(Model, Model); 2] = [(Model::UserRo, Model::OsRo), (Model::UserLfs, Model::OsLfs)];
/// From and to, percent.
type Shares = (f64, f64);
/// By MIPS: the file system's share, and the place's.
const PAPER: [(f64, Shares, Shares); 3] = [
    (1.0, (10.0, 12.0), (19.0, 20.0)),
    (2.0, (19.0, 21.0), (15.0, 17.0)),
    (3.0, (22.0, 22.0), (0.0, 0.0)),
];

/// Fewer transactions at a time, as table 4-2 has them.
fn fewer(model: Model) -> String {
    format!("{}, 20 at a time", model.name())
}

fn points(context: &Context) -> Vec<Point> {
    let speeds = context.size(vec![1.0, 1.5, 2.0, 3.0, 5.0, 10.0], vec![1.0, 3.0]);
    let mut points = Vec::new();
    for mips in speeds {
        let usual = Parameters {
            mips,
            users: SATURATED,
            ..parameters(context)
        };
        points.extend(models(mips, &usual));
        if mips > 3.0 || mips.fract() > 0.0 {
            continue;
        }
        for model in [Model::UserRo, Model::UserLfs, Model::OsRo, Model::OsLfs] {
            let case = Case {
                series: fewer(model),
                x: mips,
                model,
                parameters: Parameters {
                    users: 20,
                    ..usual.clone()
                },
            };
            points.push(case.point());
        }
    }
    points
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (mips, file_system, place) in PAPER {
        let shares = [(FILE_SYSTEM, file_system), (PLACE, place)];
        for (fast, slow, paper) in shares
            .iter()
            .flat_map(|(pairs, paper)| pairs.map(|(a, b)| (a, b, *paper)))
        {
            let claim = format!("{mips} MIPS: {} below {}", slow.name(), fast.name());
            verdicts.push(percent(
                claim.clone(),
                paper,
                6.0,
                gap(rows, fast, slow, mips),
            ));
            let measured = curve_gap(rows, &fewer(fast), &fewer(slow), mips);
            let verdict = percent(format!("{claim}, 20 at a time"), paper, 6.0, measured);
            verdicts.push(verdict.beside_the_claim(true));
        }
    }
    verdicts.push(bounded(rows));
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    let curve = |(fast, slow): (Model, Model)| {
        let places = places(rows, fast.name()).into_iter();
        let points = places.map(|x| (x, gap(rows, fast, slow, x))).collect();
        Curve::named(format!("{} below {}", slow.name(), fast.name()), points)
    };
    let thesis = |name: &str, of: fn(&(f64, Shares, Shares)) -> Shares| {
        let points = PAPER.iter().map(|row| {
            let (low, high) = of(row);
            (row.0, (low + high) / 2.0)
        });
        Curve::named(format!("{name}, all models (thesis)"), points.collect())
    };
    Picture {
        title: "What the file system decides, and what the place of transactions".into(),
        x: "processor, MIPS".into(),
        y: "per cent below".into(),
        y_max: None,
        curves: FILE_SYSTEM.into_iter().chain(PLACE).map(curve).collect(),
        references: vec![
            thesis("file system", |row| row.1),
            thesis("place of transactions", |row| row.2),
        ],
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::simulated_transactions::BOUNDED;
    use crate::experiments::simulated_transactions::{TPS, brief};

    /// Rates with these shares of file system and place.
    fn rows(change: f64) -> Vec<Row> {
        let mut rows = Vec::new();
        for (mips, file_system, place) in PAPER {
            for model in Model::ALL {
                let mut tps = 10.0;
                if !model.is_log_structured() {
                    tps *= 1.0 - (file_system.0 + change) / 100.0;
                }
                if model.is_embedded() {
                    tps *= 1.0 - (place.0 + change) / 100.0;
                }
                rows.push(Row::new(model.name(), mips, 1).with(TPS, tps));
            }
        }
        rows
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
        assert_eq!(failing(&rows(0.0)), 0);
        assert_eq!(failing(&rows(9.0)), 12);
        assert_eq!(failing(&[]), 12, "what was not measured fails");
    }

    /// A file system that updates in place under the name of a log.
    #[test]
    fn a_wrong_model_fails() {
        let usual = Parameters {
            mips: 3.0,
            users: 40,
            checkpoint_s: 300.0,
            ..brief()
        };
        let run = |name: Model, model: Model| {
            let case = Case {
                series: name.name().into(),
                x: 3.0,
                model,
                parameters: usual.clone(),
            };
            case.row(1)
        };
        let pass = |lfs: Model| {
            let rows = [run(Model::UserRo, Model::UserRo), run(Model::UserLfs, lfs)];
            let verdicts = verdicts(&rows);
            let claim = "3 MIPS: USER-RO below USER-LFS";
            verdicts.iter().find(|v| v.claim == claim).unwrap().pass
        };
        assert!(pass(Model::UserLfs) && !pass(Model::UserRo));
    }
}
