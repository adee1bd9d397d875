//! No verdict holds whatever was measured.
//!
//! The rows of a tiny run get what else verdicts ask for, so that they are
//! complete, and a second seed. Then they are distorted: values of a name, of a
//! curve, of a place are multiplied, made alike, reversed along a curve. Among all
//! of these rows are some with which a verdict holds, and others with which it
//! does not. What was not measured does not count: without it none may hold.
//!
//! Where no distortion of the tiny run makes a verdict hold, rows as the paper has
//! them are distorted. An underdetermined verdict never holds and is left out.

use super::tiny::tiny;
use crate::experiments::{
    ALL, Experiment, Row, allocation, benchmarks, clustering, embedded_transactions,
    simulated_transactions,
};
use crate::jobs::on_threads;
use crate::report::{Verdict, asked};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use varve_prove::random::Random;

/// Rows as papers have them.
fn of_the_paper(id: &str) -> Vec<Row> {
    match id {
        "A3" => allocation::extents::tests::thesis(),
        "B6" => benchmarks::wisconsin::tests::thesis(),
        "B7" => benchmarks::tpcb_nearly_full::tests::thesis(),
        "B8" => benchmarks::supercomputers::tests::paper(),
        "L2" => clustering::tpcb_by_utilisation::tests::paper(),
        "L3" => clustering::aged_file_system::tests::paper(),
        "M2" => simulated_transactions::system_call_cost::tests::thesis(),
        "M5" => simulated_transactions::skewed_access::tests::thesis(),
        "M6" => simulated_transactions::smaller_locks::tests::thesis(),
        "X3" => embedded_transactions::scan_after_updates::tests::thesis(),
        _ => Vec::new(),
    }
}

/// Of one measured value, the rows that have it, one for each seed.
#[derive(Debug, Clone)]
struct Cell {
    series: String,
    x: f64,
    name: String,
    rows: Vec<usize>,
}

fn cells(rows: &[Row]) -> Vec<Cell> {
    let mut cells: BTreeMap<(&str, u64, &str), Vec<usize>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        for name in row.values.keys() {
            let cell = (row.series.as_str(), row.x.to_bits(), name.as_str());
            cells.entry(cell).or_default().push(at);
        }
    }
    let cell = |((series, x, name), rows): ((&str, u64, &str), Vec<usize>)| Cell {
        series: series.into(),
        x: f64::from_bits(x),
        name: name.into(),
        rows,
    };
    cells.into_iter().map(cell).collect()
}

fn value(rows: &[Row], cell: &Cell) -> f64 {
    rows[cell.rows[0]].values[&cell.name]
}

/// The rows, other values in these cells.
fn changed<'a>(
    rows: &[Row],
    cells: impl IntoIterator<Item = &'a Cell>,
    mut change: impl FnMut(&Cell, f64) -> f64,
) -> Vec<Row> {
    let mut changed = rows.to_vec();
    for cell in cells {
        let value = change(cell, value(rows, cell));
        for at in &cell.rows {
            changed[*at].values.insert(cell.name.clone(), value);
        }
    }
    changed
}

/// Rows that have everything that verdicts ask for: where it is missing, as the
/// nearest has it.
pub(super) fn completed(experiment: &Experiment, mut rows: Vec<Row>) -> Vec<Row> {
    for _ in 0..4 {
        let asked = asked::by(|| drop((experiment.verdicts)(&rows)));
        // Of traces that were not replayed there is nothing to complete.
        let curves: BTreeSet<String> = rows.iter().map(|row| row.series.clone()).collect();
        let wanted = |(series, x, _): &(String, f64, String)| {
            x.is_finite() && (curves.contains(series) || !experiment.only_replays())
        };
        for (series, x, name) in asked.into_iter().filter(wanted) {
            let here = |row: &Row| row.series == series && row.x == x;
            let there = rows.iter().filter(|row| here(row));
            if there.clone().any(|row| row.values.contains_key(&name)) {
                continue;
            }
            let like = rows.iter().filter(|row| row.values.contains_key(&name));
            let away = |row: &&Row| (u8::from(row.series != series), (row.x - x).abs());
            let like = like.min_by(|a, b| away(a).partial_cmp(&away(b)).expect("numbers"));
            let value = like.map_or(1.0, |row| row.values[&name]);
            match rows.iter().position(here) {
                Some(at) => {
                    rows[at].values.insert(name, value);
                }
                None => {
                    let values = like.map_or_else(BTreeMap::new, |row| row.values.clone());
                    let row = Row::new(series, x, 1);
                    rows.push(Row { values, ..row }.with(&name, value));
                }
            }
        }
    }
    let second = |row: &Row| Row {
        seed: row.seed + 1,
        ..row.clone()
    };
    let seconds: Vec<Row> = rows.iter().map(second).collect();
    rows.extend(seconds);
    rows
}

/// What has been seen of an experiment's verdicts.
struct Seen {
    experiment: &'static Experiment,
    claims: Vec<String>,
    /// Verdicts whose inputs the paper does not give.
    undetermined: Vec<bool>,
    held: Vec<bool>,
    failed: Vec<bool>,
}

impl Seen {
    fn verdicts(&self, rows: &[Row]) -> Vec<Verdict> {
        let verdicts = (self.experiment.verdicts)(rows);
        assert_eq!(verdicts.len(), self.claims.len(), "{}", self.experiment.id);
        verdicts
    }

    fn see(&mut self, rows: &[Row]) {
        for (at, verdict) in self.verdicts(rows).into_iter().enumerate() {
            // What is no number was not measured.
            let measured = !verdict.measured.contains('–');
            self.held[at] |= verdict.pass;
            self.failed[at] |= !verdict.pass && measured;
        }
    }

    fn is_open(&self, at: usize) -> bool {
        !(self.undetermined[at] || self.held[at] && self.failed[at])
    }

    /// Verdicts that have not been seen both to hold and to fail.
    fn open(&self) -> Vec<String> {
        let open = (0..self.claims.len()).filter(|at| self.is_open(*at));
        let told = open.map(|at| {
            let (id, claim) = (self.experiment.id, &self.claims[at]);
            let seen = if self.held[at] { "holds" } else { "fails" };
            format!("{id}, {claim}: always {seen}")
        });
        told.collect()
    }

    /// What is asked of every verdict.
    fn distort(&mut self, rows: &[Row]) {
        self.see(rows);
        let cells = cells(rows);
        for name in names(&cells) {
            let of: Vec<&Cell> = cells.iter().filter(|cell| cell.name == name).collect();
            for change in CHANGES {
                let change = |cell: &Cell, _| change(rows, &of, cell);
                self.see(&changed(rows, of.iter().copied(), change));
            }
            let mut apart = rows.to_vec();
            for row in apart.iter_mut().skip(rows.len() / 2) {
                let value = row.values.entry(name.into());
                value.and_modify(|value| *value *= 1.5);
            }
            self.see(&apart);
        }
    }

    /// What is asked of the verdicts that are open: only cells that change what
    /// they tell.
    fn search(&mut self, rows: &[Row]) {
        let before = self.verdicts(rows);
        let cells = cells(rows);
        let shaken = |cell: &Cell| {
            let shakes: [fn(f64) -> f64; 2] = [|value| value * 8.0 + 1000.0, |_| 0.0];
            shakes.map(|shake| self.verdicts(&changed(rows, [cell], |_, value| shake(value))))
        };
        let told: Vec<[Vec<Verdict>; 2]> = cells.iter().map(shaken).collect();
        for at in 0..self.claims.len() {
            let tells = |(cell, told): (&Cell, &[Vec<Verdict>; 2])| {
                let tells = told.iter().any(|told| told[at] != before[at]);
                tells.then(|| cell.clone())
            };
            let of: Vec<Cell> = cells.iter().zip(&told).filter_map(tells).collect();
            self.scale(rows, &of, at);
            self.draw(rows, &of, at);
        }
    }

    /// Every cell, curve and place by itself, by every factor.
    fn scale(&mut self, rows: &[Row], of: &[Cell], at: usize) {
        let mut groups: BTreeMap<_, Vec<&Cell>> = BTreeMap::new();
        for cell in of {
            let (series, x) = (Some(cell.series.as_str()), Some(cell.x.to_bits()));
            for (series, x) in [(series, x), (series, None), (None, x)] {
                let group = groups.entry((series, x, &cell.name)).or_default();
                group.push(cell);
            }
        }
        for step in 1..=75 {
            for group in groups.values() {
                for times in [1.05f64.powi(step), 1.05f64.powi(-step)] {
                    if !self.is_open(at) {
                        return;
                    }
                    let cells = group.iter().copied();
                    self.see(&changed(rows, cells, |_, value| value * times));
                }
            }
        }
    }

    /// All of them at once, by factors that are drawn.
    fn draw(&mut self, rows: &[Row], of: &[Cell], at: usize) {
        let mut random = Random::new(at as u64);
        for _ in 0..200 {
            if !self.is_open(at) {
                return;
            }
            let mut factor = |_: &Cell, value: f64| match random.below(3) {
                0 => value,
                _ => value * 10f64.powf(random.below(2001) as f64 / 1000.0 - 1.0),
            };
            self.see(&changed(rows, of, &mut factor));
        }
    }
}

fn names(cells: &[Cell]) -> Vec<&str> {
    let mut names: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// What becomes of a value, of which there are these of its name.
type Change = fn(&[Row], &[&Cell], &Cell) -> f64;

const CHANGES: [Change; 8] = [
    |rows, _, cell| value(rows, cell) / 4.0,
    |rows, _, cell| value(rows, cell) * 4.0,
    |_, _, _| 0.0,
    |_, _, _| 1000.0,
    alike,
    // Along the curve.
    |rows, of, cell| value(rows, along(of, cell).1),
    |rows, of, cell| value(rows, cell) * 0.8f64.powi(along(of, cell).0),
    |rows, of, cell| value(rows, cell) * 1.25f64.powi(along(of, cell).0),
];

/// The mean of all curves at this place.
fn alike(rows: &[Row], of: &[&Cell], cell: &Cell) -> f64 {
    let there = of.iter().filter(|other| other.x == cell.x);
    let values: Vec<f64> = there.map(|cell| value(rows, cell)).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// How far it is from the beginning of its curve, and what is as far from the end.
fn along<'a>(of: &[&'a Cell], cell: &Cell) -> (i32, &'a Cell) {
    let on = of.iter().filter(|other| other.series == cell.series);
    let mut curve: Vec<&Cell> = on.copied().collect();
    curve.sort_by(|a, b| a.x.total_cmp(&b.x));
    let at = curve.iter().position(|other| other.x == cell.x);
    let at = at.expect("on its curve");
    (at as i32, curve[curve.len() - 1 - at])
}

/// Only the values that verdicts ask for, or tell of.
fn told(experiment: &Experiment, mut rows: Vec<Row>) -> Vec<Row> {
    let mut before = Vec::new();
    let asked = asked::by(|| before = (experiment.verdicts)(&rows));
    let asked: BTreeSet<String> = asked.into_iter().map(|(_, _, name)| name).collect();
    let all = cells(&rows);
    for name in names(&all)
        .into_iter()
        .filter(|name| !asked.contains(*name))
    {
        let mut random = Random::new(7);
        let mut shake = |value: f64| (value + 1000.0) * (0.5 + random.below(1000) as f64 / 700.0);
        let of: Vec<&Cell> = all.iter().filter(|cell| cell.name == name).collect();
        let shaken = changed(&rows, of.iter().copied(), |_, value| shake(value));
        let nothing = changed(&rows, of.iter().copied(), |_, _| 0.0);
        if [shaken, nothing]
            .iter()
            .all(|rows| (experiment.verdicts)(rows) == before)
        {
            for row in &mut rows {
                row.values.remove(name);
            }
        }
    }
    rows
}

/// The same rows; ones for what is nothing, which cannot be multiplied; all curves
/// alike; all places as well.
fn starts(rows: Vec<Row>) -> Vec<Vec<Row>> {
    let cells = cells(&rows);
    let ones = changed(
        &rows,
        &cells,
        |_, value| if value == 0.0 { 1.0 } else { value },
    );
    let mean = |cell: &Cell, there: &dyn Fn(&Cell) -> bool| {
        let same = cells.iter().filter(|c| c.name == cell.name && there(c));
        let values: Vec<f64> = same.map(|cell| value(&ones, cell)).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let alike = changed(&rows, &cells, |cell, _| mean(cell, &|c| c.x == cell.x));
    let flat = changed(&rows, &cells, |cell, _| mean(cell, &|_| true));
    vec![rows, ones, alike, flat]
}

fn seen(experiment: &'static Experiment) -> Seen {
    let measured = [
        of_the_paper(experiment.id),
        tiny(experiment.id).rows.clone(),
    ];
    let measured = measured.into_iter().filter(|rows| !rows.is_empty());
    let complete = measured.map(|rows| told(experiment, completed(experiment, rows)));
    let starts: Vec<Vec<Row>> = complete.flat_map(starts).collect();
    let verdicts = (experiment.verdicts)(&starts[0]);
    let mut seen = Seen {
        experiment,
        held: vec![false; verdicts.len()],
        failed: vec![false; verdicts.len()],
        undetermined: verdicts.iter().map(|v| v.needs.is_some()).collect(),
        claims: verdicts.into_iter().map(|verdict| verdict.claim).collect(),
    };
    starts.iter().for_each(|rows| seen.distort(rows));
    for rows in &starts {
        if !seen.open().is_empty() {
            seen.search(rows);
        }
    }
    seen
}

#[test]
fn every_verdict_holds_and_fails_by_what_was_measured() {
    let open = Mutex::new(Vec::new());
    let all: Vec<&'static Experiment> = ALL.iter().collect();
    on_threads(2, &all, |experiment| {
        let seen = seen(experiment).open();
        open.lock().unwrap().extend(seen);
        true
    });
    let open = open.into_inner().unwrap();
    assert!(open.is_empty(), "{}", open.join("\n"));
}

#[test]
fn of_what_was_not_measured_no_verdict_holds() {
    for experiment in ALL {
        for verdict in (experiment.verdicts)(&[]) {
            assert!(!verdict.pass, "{}: {verdict}", experiment.id);
        }
    }
}
