//! M1: five transaction systems on a processor of 1 MIPS, by the number of
//! transactions at a time (Seltzer 1992, §4.5.1, figure 4-4).

use crate::experiments::simulated_transactions::{
    DISKS, PROCESSOR, TPS, at, bounded, by_users, gap, highest, models, parameters, percent, rate,
};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::report::{Picture, Verdict};
use crate::simulator::transactions::{Model, Parameters};

pub const M1: Experiment = Experiment::new("M1", points, verdicts, picture).taking(32.0);

/// Throughput at saturation (§4.5.1).
const PAPER: [(Model, f64); 4] = [
    (Model::UserLfs, 4.1),
    (Model::UserRo, 3.6),
    (Model::LfsNolog, 3.3),
    (Model::OsRo, 3.0),
];

/// Slower by so many percent at saturation.
const GAPS: [(Model, Model, f64); 3] = [
    (Model::UserRo, Model::OsRo, 17.0),
    (Model::UserLfs, Model::OsLfs, 20.0),
    (Model::UserLfs, Model::LfsNolog, 20.0),
];

/// How busy the processor and the disks are.
const BUSY: [(Model, f64, f64); 2] = [(Model::UserRo, 87.0, 50.0), (Model::UserLfs, 99.0, 33.0)];

/// Multiprogramming levels of M1 and M3.
pub(in crate::experiments) fn levels(context: &Context) -> Vec<usize> {
    context.size(vec![1, 5, 10, 20, 50, 100], vec![5, 40])
}

fn points(context: &Context) -> Vec<Point> {
    let points = levels(context).into_iter().map(|users| {
        let parameters = Parameters {
            mips: 1.0,
            users,
            ..parameters(context)
        };
        models(users as f64, &parameters)
    });
    points.flatten().collect()
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let peak = |model: Model| highest(rows, model);
    for (model, paper) in PAPER {
        let claim = format!("{} at saturation", model.name());
        verdicts.push(rate(claim, paper, at(rows, model, peak(model), TPS)));
    }
    for (fast, slow, paper) in GAPS {
        let claim = format!("{} below {}", slow.name(), fast.name());
        let measured = gap(rows, fast, slow, peak(fast));
        verdicts.push(percent(claim, (paper, paper), 5.0, measured));
    }
    for (model, processor, disks) in BUSY {
        for (name, paper) in [(PROCESSOR, processor), (DISKS, disks)] {
            let claim = format!("{}: {name} busy at saturation", model.name());
            let measured = at(rows, model, peak(model), name).mean;
            let verdict = percent(claim, (paper, paper), 5.0, measured);
            verdicts.push(verdict.beside_the_claim(true));
        }
    }
    verdicts.push(bounded(rows));
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    by_users(rows, 1, &PAPER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::simulated_transactions::BOUNDED;
    use crate::experiments::simulated_transactions::{Case, brief};

    fn rows(factor: f64, embedded: f64) -> Vec<Row> {
        let with = |(model, tps): (Model, f64)| {
            let slower = if model.is_embedded() { embedded } else { 1.0 };
            Row::new(model.name(), 10.0, 1).with(TPS, factor * tps * slower)
        };
        let rows = PAPER.into_iter().chain([(Model::OsLfs, 3.3)]);
        rows.map(with).collect()
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
        assert_eq!(failing(&rows(1.0, 1.0)), 0);
        assert_eq!(failing(&rows(1.16, 1.0)), 4, "rates");
        assert_eq!(failing(&rows(1.0, 1.14)), 3, "gaps");
        assert_eq!(failing(&[]), 7, "what was not measured fails");
    }

    /// A data manager that pays system calls for its locks, as embedded
    /// transactions do, and a processor of half the speed.
    #[test]
    fn a_wrong_model_fails() {
        let usual = Parameters {
            mips: 1.0,
            checkpoint_s: 300.0,
            ..brief()
        };
        let run = |name: Model, model, mips| {
            let case = Case {
                series: name.name().into(),
                x: 20.0,
                model,
                parameters: Parameters {
                    mips,
                    ..usual.clone()
                },
            };
            case.row(1)
        };
        let pass = |rows: &[Row], claim: &str| {
            let verdicts = verdicts(rows);
            let verdict = verdicts.iter().find(|v| v.claim == claim);
            verdict.expect("such a claim").pass
        };
        let right = [
            run(Model::UserLfs, Model::UserLfs, 1.0),
            run(Model::OsLfs, Model::OsLfs, 1.0),
        ];
        assert!(pass(&right, "OS-LFS below USER-LFS"));
        assert!(pass(&right, "USER-LFS at saturation"));
        let wrong = [
            run(Model::UserLfs, Model::OsLfs, 1.0),
            run(Model::OsLfs, Model::OsLfs, 1.0),
        ];
        assert!(!pass(&wrong, "OS-LFS below USER-LFS"));
        let slow = [run(Model::UserLfs, Model::UserLfs, 0.5)];
        assert!(!pass(&slow, "USER-LFS at saturation"));
    }
}
