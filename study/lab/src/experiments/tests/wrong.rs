//! Every verdict about file systems on a machine fails where the machine is wrong.
//!
//! Each experiment runs at its tiny size on every wrong model: on all its systems, and on
//! one of them while the others are right. What the tiny size leaves out is taken from
//! the nearest that it has, as in `distorted.rs`.

use super::distorted::completed;
use super::tiny::tiny;
use super::{context, quiet};
use crate::experiments::{Context, Experiment, LabError, Row, Shard, Wrong, named, run};
use crate::report::Verdict;
use std::collections::{BTreeMap, BTreeSet};

/// All rows of an experiment on a wrong model; none if a part cannot run on it.
fn rows_of(experiment: &Experiment, wrong: Wrong) -> Option<Vec<Row>> {
    let context = Context {
        wrong: Some(wrong),
        ..context(None)
    };
    let points = (experiment.points)(&context).into_iter();
    let rows = points.map(|point| (point.run)(&context).ok());
    Some(rows.collect::<Option<Vec<_>>>()?.concat())
}

fn same_place(row: &Row) -> (String, u64, u64) {
    (row.series.clone(), row.x.to_bits(), row.seed)
}

/// The verdicts on the right model, and on each wrong one, by its name.
fn models(experiment: &'static Experiment) -> Vec<(String, Vec<Verdict>)> {
    let judge = |rows: Vec<Row>| {
        let mut rows = completed(experiment, rows);
        // No file system is full.
        for row in &mut rows {
            row.values.remove("full");
        }
        (experiment.verdicts)(&rows)
    };
    let right = &tiny(experiment.id).rows;
    let series: BTreeSet<&str> = right.iter().map(|row| row.series.as_str()).collect();
    let mut models = vec![("right".to_owned(), judge(right.clone()))];
    for wrong in Wrong::ALL {
        let Some(rows) = rows_of(experiment, wrong) else {
            continue;
        };
        let by_place: BTreeMap<_, Row> = rows
            .iter()
            .map(|row| (same_place(row), row.clone()))
            .collect();
        models.push((wrong.name().into(), judge(rows)));
        let ours = |series: &str| OURS.iter().any(|ours| series.contains(ours));
        for one in series.iter().chain(&["ours"]) {
            let is_one = |row: &Row| row.series == *one || *one == "ours" && ours(&row.series);
            let mixed = right.iter().map(|row| match is_one(row) {
                true => by_place.get(&same_place(row)).unwrap_or(row).clone(),
                false => row.clone(),
            });
            models.push((format!("{}: {one}", wrong.name()), judge(mixed.collect())));
        }
    }
    models
}

/// What Varve has against a paper's cleaner, in the names of curves.
const OURS: [&str; 2] = ["256 KB", "VLFS"];

/// Verdicts that no wrong model makes fail by another measurement, of these experiments;
/// `elsewhere` are verdicts of which a test of the experiment's own has the wrong model.
fn unmoved(ids: &[&str], elsewhere: &[&str]) -> Vec<String> {
    let mut unmoved = Vec::new();
    for id in ids {
        let models = models(named(id).unwrap());
        let right = &models[0].1;
        for (at, verdict) in right.iter().enumerate() {
            let is_elsewhere = elsewhere.iter().any(|claim| verdict.claim.contains(claim));
            let fails = |(_, verdicts): &(String, Vec<Verdict>)| {
                let wrong = &verdicts[at];
                let measured = !wrong.measured.contains('–');
                measured && !wrong.pass && wrong.measured != verdict.measured
            };
            if !(verdict.needs.is_some() || is_elsewhere || models[1..].iter().any(fails)) {
                unmoved.push(format!("{id}: {verdict}"));
            }
        }
    }
    unmoved
}

#[test]
fn benchmarks_fail_on_a_wrong_machine() {
    let unmoved = unmoved(&["B3", "B4", "B5", "B6", "B8"], &[]);
    assert!(unmoved.is_empty(), "{unmoved:#?}");
}

#[test]
fn logging_against_clustering_fails_on_a_wrong_machine() {
    let unmoved = unmoved(
        &["L1", "L3"],
        &["that lie together", "follow the one before"],
    );
    assert!(unmoved.is_empty(), "{unmoved:#?}");
}

#[test]
fn banks_and_assumptions_fail_on_a_wrong_machine() {
    let cleaner = [
        "how full segments are",
        "transactions for each segment",
        "what the cleaner writes",
    ];
    let unmoved = unmoved(&["B7", "L2", "X3", "N6"], &cleaner);
    assert!(unmoved.is_empty(), "{unmoved:#?}");
}

#[test]
fn what_measures_no_machine_has_no_wrong_one() {
    let out = tempfile::tempdir().unwrap();
    let context = Context {
        wrong: Some("slow-drive".parse().unwrap()),
        ..context(None)
    };
    let v1 = named("V1").unwrap();
    let refused = run(v1, &context, Shard::WHOLE, 1, out.path(), &quiet);
    assert!(matches!(refused, Err(LabError::Wrong("V1"))), "{refused:?}");
    assert!("broken".parse::<Wrong>().is_err());
}
