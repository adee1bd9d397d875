//! M3: the same five systems with processor enough, so that the disks bound
//! (Seltzer 1992, §4.5.2, figure 4-6).

use crate::experiments::simulated_transactions::bound_by_processor::levels;
use crate::experiments::simulated_transactions::{
    LOGGING, READING, TPS, at, bounded, by_users, gap, highest, models, parameters, rate,
};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::report::{Picture, Verdict};
use crate::simulator::transactions::{Model, Parameters};

pub const M3: Experiment = Experiment::new("M3", points, verdicts, picture).taking(46.0);

/// Throughput at saturation (§4.5.2).
const PAPER: [(Model, f64); 2] = [(Model::UserLfs, 9.4), (Model::UserRo, 7.2)];

/// Models whose curves overlap.
const SAME: [(Model, Model); 3] = [
    (Model::UserRo, Model::OsRo),
    (Model::UserLfs, Model::OsLfs),
    (Model::UserLfs, Model::LfsNolog),
];

fn points(context: &Context) -> Vec<Point> {
    let points = levels(context).into_iter().map(|users| {
        let parameters = Parameters {
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
    for (user, os) in SAME {
        let measured = gap(rows, user, os, peak(user));
        verdicts.push(Verdict::of(
            format!("{} and {} overlap at saturation", user.name(), os.name()),
            "within 3 %",
            format!("{measured:.1} % below"),
            measured.abs() <= 3.0,
        ));
    }
    for model in Model::ALL {
        let logging = at(rows, model, peak(model), LOGGING);
        let reading = at(rows, model, peak(model), READING);
        let log = Verdict::of(
            format!("{}: the log's share of the disks' time", model.name()),
            "below 1.2 %",
            format!("{:.2} %", logging.mean),
            logging.mean < 1.2,
        );
        let reads = Verdict::of(
            format!("{}: random reads' share of the disks' time", model.name()),
            "above 73 %",
            format!("{reading} %"),
            reading.mean > 73.0,
        );
        verdicts.extend([log, reads].map(|v| v.beside_the_claim(true)));
    }
    verdicts.push(bounded(rows));
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    by_users(rows, 10, &PAPER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::simulated_transactions::BOUNDED;
    use crate::experiments::simulated_transactions::{Case, brief};

    fn rows(factor: f64, embedded: f64) -> Vec<Row> {
        let with = |model: Model| {
            let tps = if model.is_log_structured() { 9.4 } else { 7.2 };
            let slower = if model.is_embedded() { embedded } else { 1.0 };
            Row::new(model.name(), 100.0, 1).with(TPS, factor * tps * slower)
        };
        Model::ALL.map(with).to_vec()
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
        assert_eq!(failing(&rows(1.0, 0.98)), 0);
        assert_eq!(failing(&rows(1.16, 1.0)), 2, "rates");
        assert_eq!(failing(&rows(1.0, 0.96)), 3, "overlap");
        assert_eq!(failing(&[]), 5, "what was not measured fails");
    }

    /// Update in place under the name of a log, images of whole pages in an
    /// embedded model's log, and disks of twice the speed.
    #[test]
    fn a_wrong_model_or_disk_fails() {
        let usual = Parameters {
            users: 60,
            ..brief()
        };
        let run = |name: Model, model, parameters: &Parameters| {
            let case = Case {
                series: name.name().into(),
                x: 60.0,
                model,
                parameters: parameters.clone(),
            };
            case.row(1)
        };
        let pass = |rows: &[Row], claim: &str| {
            let verdicts = verdicts(rows);
            let verdict = verdicts.iter().find(|v| v.claim == claim);
            verdict.expect("such a claim").pass
        };
        let (user, os) = (Model::UserLfs, Model::OsRo);
        let rate = "USER-LFS at saturation";
        let right = [run(user, user, &usual), run(os, os, &usual)];
        assert!(pass(&right, rate));
        assert!(pass(&right, "OS-RO: the log's share of the disks' time"));
        let in_place = [run(user, Model::UserRo, &usual)];
        assert!(!pass(&in_place, rate));
        let mut fast = usual.clone();
        fast.service.random_ns /= 2.0;
        assert!(!pass(&[run(user, user, &fast)], rate));
        let mut pages = usual.clone();
        pages.assumed.page_images = true;
        let wrong = [run(user, user, &usual), run(os, os, &pages)];
        assert!(!pass(&wrong, "OS-RO: the log's share of the disks' time"));
    }
}
