//! What A1 to A4 share: a case of chapter 3's study, and how its figures are
//! read again.

pub(super) mod binary_buddy;
pub(super) mod extents;
pub(super) mod policies_compared;
pub(super) mod restricted_buddy;

use super::{Context, Point, Row};
use crate::report::{Verdict, summaries};
use crate::simulator::allocation::{
    Assumptions, Ending, Load, PolicyKind, Population, Test, fill, throughput,
};

/// Part of what files hold that is not used, percent.
pub(in crate::experiments) const INTERNAL: &str = "internal";
/// Part of the volume that is free when a request is refused, percent.
pub(in crate::experiments) const EXTERNAL: &str = "external";
/// Throughput of the application test, percent of what the drives sustain.
pub(in crate::experiments) const APPLICATION: &str = "application";
/// The same of the sequential test.
pub(in crate::experiments) const SEQUENTIAL: &str = "sequential";

/// Which tests a case has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::experiments) enum Tests {
    All,
    Fill,
    Throughput,
}

/// A policy under a workload.
#[derive(Debug, Clone)]
pub(in crate::experiments) struct Case {
    pub(in crate::experiments) series: String,
    pub(in crate::experiments) x: f64,
    pub(in crate::experiments) load: Load,
    pub(in crate::experiments) policy: PolicyKind,
    pub(in crate::experiments) assumed: Assumptions,
    pub(in crate::experiments) tests: Tests,
}

impl Case {
    /// Under the usual assumptions, with all tests.
    pub(in crate::experiments) fn usual(
        context: &Context,
        series: String,
        x: f64,
        load: Load,
        policy: PolicyKind,
    ) -> Self {
        Case {
            series,
            x,
            load,
            policy,
            assumed: assumptions(context),
            tests: Tests::All,
        }
    }

    pub(in crate::experiments) fn point(self) -> Point {
        Point::of_seeds(&self.series.clone(), self.x, move |seed| self.row(seed))
    }

    pub(in crate::experiments) fn row(&self, seed: u64) -> Row {
        let mut row = Row::new(self.series.clone(), self.x, seed);
        if self.tests != Tests::Throughput {
            row = self.filled(row);
        }
        if self.tests != Tests::Fill {
            row = self.moved(row, Test::Application, APPLICATION);
            row = self.moved(row, Test::Sequential, SEQUENTIAL);
        }
        row
    }

    fn filled(&self, row: Row) -> Row {
        let (load, policy, assumed) = (self.load, self.policy, &self.assumed);
        let found = fill(load, policy, assumed, row.seed);
        let (population, _) = Population::new(load, policy, assumed, row.seed);
        let mut row = row
            .with(INTERNAL, 100.0 * found.internal)
            .with(EXTERNAL, 100.0 * found.external)
            .with("refused", f64::from(u8::from(found.refused)))
            .with("requests", found.requests as f64)
            .with("runs_per_file", found.runs_per_file);
        if let PolicyKind::Extents { .. } = policy {
            let (by_file, by_request) = population.extents_per_file();
            row = row
                .with("extents_per_file", by_file)
                .with("extents_per_request", by_request);
        }
        let (moved, internal, runs) = found.reallocated;
        if moved > 0 {
            row = row
                .with("reallocated_internal", 100.0 * internal)
                .with("reallocated_runs", runs);
        }
        row
    }

    fn moved(&self, row: Row, test: Test, name: &str) -> Row {
        let found = throughput(self.load, self.policy, test, &self.assumed, row.seed);
        // A volume without room for the files has no throughput.
        let Some(found) = found else { return row };
        let ended = |ending| f64::from(u8::from(found.ending == ending));
        row.with(name, 100.0 * found.share)
            .with(&format!("{name}_stable"), ended(Ending::Stable))
            .with(&format!("{name}_full"), ended(Ending::Full))
            .with(&format!("{name}_s"), found.seconds)
    }
}

/// The thesis's volume, or an eighth of it; twenty minutes, or one.
pub(in crate::experiments) fn assumptions(context: &Context) -> Assumptions {
    Assumptions {
        scale: context.size(1, 8),
        limit_s: context.size(1200, 60),
        ..Assumptions::default()
    }
}

/// A mean with half the width of its 95 % confidence interval.
#[derive(Debug, Clone, Copy)]
pub(in crate::experiments) struct Figure {
    pub(in crate::experiments) mean: f64,
    pub(in crate::experiments) confidence: f64,
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} ± {:.1}", self.mean, self.confidence)
    }
}

/// What was measured; no number, if it was not.
pub(in crate::experiments) fn figure(rows: &[Row], series: &str, x: f64, name: &str) -> Figure {
    #[cfg(test)]
    crate::report::asked::note(series, x, name);
    let rows: Vec<Row> = rows
        .iter()
        .filter(|row| row.series == series && row.x == x)
        .cloned()
        .collect();
    let found = summaries(&rows).into_iter().find(|s| s.name == name);
    found.map_or(
        Figure {
            mean: f64::NAN,
            confidence: 0.0,
        },
        |summary| Figure {
            mean: summary.mean,
            confidence: summary.confidence,
        },
    )
}

/// The mean alone.
pub(in crate::experiments) fn mean_of(rows: &[Row], series: &str, x: f64, name: &str) -> f64 {
    figure(rows, series, x, name).mean
}

/// A figure of a table that is to be met within a quarter, or five points.
pub(in crate::experiments) fn near(claim: String, paper: f64, measured: Figure) -> Verdict {
    let off = (measured.mean - paper).abs();
    Verdict::of(
        claim,
        format!("{paper} %, within a quarter or 5 points"),
        format!("{measured} %"),
        off <= 5.0 || off <= 0.25 * paper,
    )
}
