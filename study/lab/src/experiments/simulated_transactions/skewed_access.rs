//! M5: five transaction systems by the skew of accesses, with locks on pages
//! (Seltzer 1992, §4.5.3, figures 4-8 and 4-9).
//!
//! The figures are lost; what the text says of them is where curves turn. A step
//! is from one of the study's skews to the next.

use crate::experiments::simulated_transactions::{
    ABORTED, SATURATED, TPS, at, bounded, gap, highest, mean_tps, models, parameters,
};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::report::{Curve, Picture, Verdict};
use crate::simulator::transactions::{Model, Parameters};

pub const M5: Experiment = Experiment::new("M5", points, verdicts, picture).taking(79.0);

/// Percent of accesses that go to the rest of a hundred percent of the pages.
pub(in crate::experiments) const SKEWS: [u32; 7] = [50, 60, 70, 80, 90, 95, 99];

/// Curves that part here, by more than those of M3 may (3 %).
const PARTING: [(Model, Model, u32); 3] = [
    (Model::UserRo, Model::OsRo, 70),
    (Model::UserLfs, Model::OsLfs, 70),
    (Model::UserLfs, Model::LfsNolog, 70),
];
/// First step down; USER-LFS "has peaked" at 90/10.
const FALLING: [(Model, u32); 3] = [
    (Model::OsLfs, 80),
    (Model::LfsNolog, 80),
    (Model::UserLfs, 95),
];
/// Has lost a quarter of its best, which it had with less skew.
const COLLAPSING: [(Model, u32); 4] = [
    (Model::UserLfs, 95),
    (Model::OsRo, 95),
    (Model::OsLfs, 95),
    (Model::LfsNolog, 95),
];
/// From here on at least a point more in a hundred are aborted than at 50/50.
const ABORTING: [(Model, u32); 5] = [
    (Model::OsRo, 70),
    (Model::OsLfs, 70),
    (Model::LfsNolog, 70),
    (Model::UserRo, 80),
    (Model::UserLfs, 80),
];

pub(in crate::experiments) fn skews(context: &Context) -> Vec<u32> {
    context.size(SKEWS.to_vec(), vec![50, 95])
}

fn points(context: &Context) -> Vec<Point> {
    let points = skews(context).into_iter().map(|skew| {
        let parameters = Parameters {
            skew,
            users: SATURATED,
            ..parameters(context)
        };
        models(f64::from(skew), &parameters)
    });
    points.flatten().collect()
}

fn named(skew: u32) -> String {
    format!("{skew}/{}", 100 - skew)
}

/// The first step from which on something holds up to 90/10, where the curves of
/// the thesis end to say anything of one another, or the first one behind.
fn from(holds: impl Fn(u32) -> bool) -> Option<u32> {
    let lasting = SKEWS.iter().rev().skip(2).take_while(|skew| holds(**skew));
    let behind = || [95, 99].into_iter().find(|skew| holds(*skew));
    lasting.last().copied().or_else(behind)
}

/// Where something turns, which is to be within a step of the thesis's.
fn turning(claim: String, paper: u32, measured: Option<u32>) -> Verdict {
    let step = |skew: u32| SKEWS.iter().position(|at| *at == skew);
    let near = |skew: u32| step(skew).zip(step(paper)).map(|(a, b)| a.abs_diff(b));
    Verdict::of(
        claim,
        format!("from {} on, within a step", named(paper)),
        measured.map_or("nowhere".into(), |skew| format!("from {} on", named(skew))),
        measured.and_then(near).is_some_and(|steps| steps <= 1),
    )
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let tps = |model, skew: u32| mean_tps(rows, model, f64::from(skew));
    let aborted = |model, skew: u32| at(rows, model, f64::from(skew), ABORTED).mean;
    let mut verdicts = Vec::new();
    for (user, os, paper) in PARTING {
        let parted = from(|skew| gap(rows, user, os, f64::from(skew)) > 3.0);
        let claim = format!("{} parts from {}", os.name(), user.name());
        verdicts.push(turning(claim, paper, parted));
    }
    for (model, paper) in FALLING {
        let mut pairs = SKEWS.windows(2);
        let fallen = pairs.find(|pair| tps(model, pair[1]) < tps(model, pair[0]));
        let claim = format!("{} falls", model.name());
        verdicts.push(turning(claim, paper, fallen.map(|pair| pair[1])));
    }
    let collapsed = |model| {
        let peak = highest(rows, model);
        let lost = |skew: &u32| tps(model, *skew) < 0.75 * mean_tps(rows, model, peak);
        let mut beyond = SKEWS.into_iter().filter(|skew| f64::from(*skew) > peak);
        beyond.find(lost)
    };
    for (model, paper) in COLLAPSING {
        let claim = format!("{} collapses", model.name());
        verdicts.push(turning(claim, paper, collapsed(model)));
    }
    let lasting = tps(Model::UserRo, 95) >= 0.75 * tps(Model::UserRo, 90);
    verdicts.push(Verdict::of(
        "USER-RO has not collapsed at 95/5",
        "at least three quarters of its rate at 90/10",
        format!(
            "{:.1} after {:.1} tps",
            tps(Model::UserRo, 95),
            tps(Model::UserRo, 90)
        ),
        lasting,
    ));
    for (model, paper) in ABORTING {
        let climbing = from(|skew| aborted(model, skew) >= aborted(model, 50) + 1.0);
        let claim = format!("{}: aborts climb", model.name());
        verdicts.push(turning(claim, paper, climbing));
    }
    verdicts.push(bounded(rows));
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    let highest = rows.iter().filter_map(|row| row.values.get(TPS).copied());
    let top = highest.fold(0.0, f64::max);
    let upright = |name: &str, skew: f64| {
        Curve::named(
            format!("at {name} (thesis)"),
            vec![(skew, 0.0), (skew, top)],
        )
    };
    Picture {
        title: "Locks on pages: transactions a second by the skew of accesses".into(),
        x: "skew: at 90, 90 % of the accesses go to 10 % of the pages".into(),
        y: "transactions a second".into(),
        y_max: None,
        curves: Curve::all(rows, TPS),
        references: vec![
            upright("70/30: OS parts from USER", 70.0),
            upright("80/20: OS-LFS falls", 80.0),
            upright("95/5: all but USER-RO have collapsed", 95.0),
        ],
    }
    .with_room_for_names()
}

#[cfg(test)]
pub(in crate::experiments) mod tests {
    use super::*;
    use crate::experiments::simulated_transactions::BOUNDED;
    use crate::experiments::simulated_transactions::{Case, brief};

    /// Curves as the text has them.
    pub(in crate::experiments) fn thesis() -> Vec<Row> {
        let mut rows = Vec::new();
        for (step, skew) in SKEWS.into_iter().enumerate() {
            let rising = 7.0 + step as f64;
            for model in Model::ALL {
                let embedded = model.is_embedded();
                let tps = match (skew, embedded) {
                    (95.., _) if model != Model::UserRo || skew == 99 => 3.0,
                    (80.., true) => 8.0 - step as f64 / 10.0,
                    (70.., true) => 8.2,
                    _ => rising,
                };
                let from = if embedded { 70 } else { 80 };
                let aborted = if skew < from { 0.5 } else { step as f64 };
                let row = Row::new(model.name(), f64::from(skew), 1);
                rows.push(row.with(TPS, tps).with(ABORTED, aborted));
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
    fn the_text_itself_passes_and_each_claim_can_fail() {
        assert_eq!(failing(&thesis()), 0);
        assert_eq!(failing(&[]), 16, "what was not measured fails");
        let mut flat = thesis();
        for row in &mut flat {
            row.values.insert(TPS.into(), 7.0);
            row.values.insert(ABORTED.into(), 0.0);
        }
        assert_eq!(failing(&flat), 15, "all but that USER-RO does not collapse");
        let mut early = thesis();
        for row in early.iter_mut().filter(|row| row.x >= 80.0) {
            row.values.insert(TPS.into(), 1.0);
        }
        assert!(failing(&early) >= 5, "all collapse too early");
    }

    /// Data managers that lock as an operating system does collapse with it.
    #[test]
    fn a_wrong_model_fails() {
        let usual = Parameters {
            users: SATURATED,
            checkpoint_s: 40.0,
            ..brief()
        };
        let pass = |model: Model| {
            let row = |skew: u32| {
                let case = Case {
                    series: Model::UserRo.name().into(),
                    x: f64::from(skew),
                    model,
                    parameters: Parameters {
                        skew,
                        ..usual.clone()
                    },
                };
                case.row(1)
            };
            let verdicts = verdicts(&[row(90), row(95)]);
            let claim = "USER-RO has not collapsed at 95/5";
            verdicts.iter().find(|v| v.claim == claim).unwrap().pass
        };
        assert!(pass(Model::UserRo) && !pass(Model::OsRo));
    }
}
