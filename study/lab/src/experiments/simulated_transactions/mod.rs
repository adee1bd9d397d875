//! What M1 to M7 share: a configuration of chapter 4's study, and how its
//! figures are read again.

pub(super) mod bound_by_disk;
pub(super) mod bound_by_processor;
pub(super) mod processor_speed;
pub(super) mod skewed_access;
pub(super) mod smaller_locks;
pub(super) mod system_call_cost;
pub(super) mod validation;

use super::allocation::{Figure, figure};
use super::{Context, Point, Row};
use crate::report::{Curve, Picture, Verdict, deviation_of_batches, mean};
use crate::simulator::transactions::{Model, Parameters, bounds, simulate};

/// Transactions that committed a second.
pub(in crate::experiments) const TPS: &str = "tps";
/// Transactions aborted, of a hundred that ended.
pub(in crate::experiments) const ABORTED: &str = "aborted";
/// How busy the processor was, percent.
pub(in crate::experiments) const PROCESSOR: &str = "processor";
/// How busy the disks were, percent.
pub(in crate::experiments) const DISKS: &str = "disks";
/// Random reads, percent of the disks' time.
pub(in crate::experiments) const READING: &str = "reading";
/// The transactions' log, percent of the disks' time.
pub(in crate::experiments) const LOGGING: &str = "logging";
/// The claim that [`bounded`] judges.
pub(in crate::experiments) const BOUNDED: &str = "throughput lies between what formulas allow";
/// What throughput must lie between, by formulas.
pub(in crate::experiments) const LOWER: &str = "lower";
pub(in crate::experiments) const UPPER: &str = "upper";
/// Half of the 95 % confidence interval of a run's checkpoint intervals,
/// percent of the mean.
pub(in crate::experiments) const BATCHES: &str = "batches";

/// The multiprogramming level at which the disk-bound models are saturated
/// (§4.5.3).
pub(in crate::experiments) const SATURATED: usize = 100;

/// A model in a configuration.
#[derive(Debug, Clone)]
pub(in crate::experiments) struct Case {
    pub(in crate::experiments) series: String,
    pub(in crate::experiments) x: f64,
    pub(in crate::experiments) model: Model,
    pub(in crate::experiments) parameters: Parameters,
}

impl Case {
    pub(in crate::experiments) fn point(self) -> Point {
        Point::of_seeds(&self.series.clone(), self.x, move |seed| self.row(seed))
    }

    pub(in crate::experiments) fn row(&self, seed: u64) -> Row {
        let found = simulate(self.model, &self.parameters, seed);
        let limits = bounds(self.model, &self.parameters);
        Row::new(self.series.clone(), self.x, seed)
            .with(TPS, found.tps)
            .with(BATCHES, 100.0 * deviation_of_batches(&found.batches))
            .with("intervals", found.batches.len() as f64)
            .with(ABORTED, found.aborted_percent())
            .with(PROCESSOR, 100.0 * found.processor)
            .with(DISKS, 100.0 * found.disks)
            .with(READING, 100.0 * found.reading)
            .with(LOGGING, 100.0 * found.logging)
            .with("reads", found.reads)
            .with("writes", found.writes)
            .with("hits", 100.0 * found.hits)
            .with("hits_expected", 100.0 * limits.hits)
            .with("locks", found.locks)
            .with("waits", found.waits)
            .with(LOWER, limits.lower)
            .with(UPPER, limits.upper)
    }
}

/// Tables 4-1 and 4-2; of the tiny size, a sixteenth of the data for a moment.
pub(in crate::experiments) fn parameters(context: &Context) -> Parameters {
    let usual = Parameters::default();
    Parameters {
        run_length: context.size(usual.run_length, 50),
        data_bytes: context.size(usual.data_bytes, 64 << 20),
        checkpoint_s: context.size(usual.checkpoint_s, 20.0),
        ..usual
    }
}

/// Every model in a configuration, at a place of its curve.
pub(in crate::experiments) fn models(x: f64, parameters: &Parameters) -> Vec<Point> {
    let case = |model: Model| Case {
        series: model.name().into(),
        x,
        model,
        parameters: parameters.clone(),
    };
    Model::ALL
        .into_iter()
        .map(|model| case(model).point())
        .collect()
}

/// What was measured of a model at a place of its curve.
pub(in crate::experiments) fn at(rows: &[Row], model: Model, x: f64, name: &str) -> Figure {
    figure(rows, model.name(), x, name)
}

/// Throughput of a model at a place of its curve.
pub(in crate::experiments) fn mean_tps(rows: &[Row], model: Model, x: f64) -> f64 {
    mean(rows, model.name(), x, TPS)
}

/// How much slower the second model is than the first, percent of the first.
pub(in crate::experiments) fn gap(rows: &[Row], fast: Model, slow: Model, x: f64) -> f64 {
    curve_gap(rows, fast.name(), slow.name(), x)
}

/// The same of two curves.
pub(in crate::experiments) fn curve_gap(rows: &[Row], fast: &str, slow: &str, x: f64) -> f64 {
    100.0 * (1.0 - mean(rows, slow, x, TPS) / mean(rows, fast, x, TPS))
}

/// Where a curve is highest.
pub(in crate::experiments) fn highest(rows: &[Row], model: Model) -> f64 {
    let mut best = (f64::NAN, f64::NEG_INFINITY);
    for x in places(rows, model.name()) {
        let tps = mean(rows, model.name(), x, TPS);
        if tps > best.1 {
            best = (x, tps);
        }
    }
    best.0
}

/// The places of a curve, in order.
pub(in crate::experiments) fn places(rows: &[Row], series: &str) -> Vec<f64> {
    let of = rows.iter().filter(|row| row.series == series);
    let mut places: Vec<f64> = of.map(|row| row.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

/// Throughput by the number at a time, with the text's rates at saturation.
pub(in crate::experiments) fn by_users(rows: &[Row], mips: u32, paper: &[(Model, f64)]) -> Picture {
    let references = paper.iter().map(|(model, tps)| {
        let name = format!("{}: {tps} at saturation (thesis)", model.name());
        Curve::named(name, vec![(SATURATED as f64, *tps)])
    });
    Picture {
        title: format!("{mips} MIPS: transactions a second by the number at a time"),
        x: "transactions at a time".into(),
        y: "transactions a second".into(),
        y_max: None,
        curves: Curve::all(rows, TPS),
        references: references.collect(),
    }
    .with_room_for_names()
}

/// A rate of the text that is to be met within 15 %.
pub(in crate::experiments) fn rate(claim: String, paper: f64, measured: Figure) -> Verdict {
    Verdict::of(
        claim,
        format!("{paper} tps, within 15 %"),
        format!("{:.2} ± {:.2} tps", measured.mean, measured.confidence),
        (measured.mean - paper).abs() <= 0.15 * paper,
    )
}

/// Percent of the text that are to be met within so many points.
pub(in crate::experiments) fn percent(
    claim: String,
    paper: (f64, f64),
    points: f64,
    measured: f64,
) -> Verdict {
    let expected = match paper.0 == paper.1 {
        true => format!("{} %", paper.0),
        false => format!("{} to {} %", paper.0, paper.1),
    };
    Verdict::of(
        claim,
        format!("{expected}, within {points} points"),
        format!("{measured:.1} %"),
        measured >= paper.0 - points && measured <= paper.1 + points,
    )
}

/// Every point lies between its bounds, or at most a hundredth beyond: they are
/// those of the expected mix of operations, and a run has drawn its own. Locks are
/// not in them, so below the lower one may be where more than one in a hundred is
/// aborted.
pub(in crate::experiments) fn bounded(rows: &[Row]) -> Verdict {
    let mut series: Vec<&str> = rows.iter().map(|row| row.series.as_str()).collect();
    series.sort_unstable();
    series.dedup();
    let (mut points, mut beyond, mut excused, mut closest) = (0, Vec::new(), 0, 0.0f64);
    for series in series {
        for x in places(rows, series) {
            let value = |name: &str| mean(rows, series, x, name);
            points += 1;
            let share = value(TPS) / value(UPPER);
            closest = closest.max(share);
            let low = value(TPS) < 0.99 * value(LOWER);
            if low && value(ABORTED) > 1.0 {
                excused += 1;
            } else if low || share > 1.01 || share.is_nan() {
                beyond.push(format!("{series} at {x}"));
            }
        }
    }
    let mut measured = format!(
        "{} of {points} points, up to {:.1} % of the upper bound",
        points - beyond.len() - excused,
        100.0 * closest
    );
    if excused > 0 {
        measured += &format!("; {excused} below the lower one, where locks bound");
    }
    if !beyond.is_empty() {
        measured += &format!("; not {}", beyond.join(", "));
    }
    Verdict::of(
        BOUNDED,
        "every point, within a hundredth for the operations drawn",
        measured,
        points > 0 && beyond.is_empty(),
    )
}

/// For tests: the whole database, for a short time.
#[cfg(test)]
pub(in crate::experiments) fn brief() -> Parameters {
    Parameters {
        run_length: 100,
        checkpoint_s: 60.0,
        ..Parameters::default()
    }
}
