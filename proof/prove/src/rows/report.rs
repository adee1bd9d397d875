//! Results of the rows, for people and programs.

use super::Row;
use crate::failure::Failure;
use crate::faults::Tally;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use varve_device::FaultKind;

/// Counts of the faults of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultCount {
    /// Runs in which a fault occurred.
    pub injected: u64,
    /// Runs in which it was reported: an operation failed, a part could not be read, or
    /// the mount refused or reported damage.
    pub detected: u64,
    /// Runs in which it had no effect: everything was right and newest.
    pub masked: u64,
    /// Runs that showed an older tree without a report, which a power cut may also leave.
    pub older: u64,
}

/// A failure and its repetition.
#[derive(Clone, Debug, Serialize)]
pub struct Broken {
    /// Seed of the row.
    pub seed: u64,
    /// Number of the round.
    pub round: u64,
    /// The command that repeats it.
    pub command: String,
    /// The promise, the story, the account.
    pub failure: String,
}

impl Broken {
    pub(super) fn new(row: &str, seed: u64, round: u64, failure: &Failure) -> Self {
        Broken {
            seed,
            round,
            command: format!("varve prove --rows {row} --seed {seed} --round {round}"),
            failure: failure.to_string(),
        }
    }
}

/// Result of one row.
#[derive(Clone, Debug, Serialize)]
pub struct RowReport {
    /// Name of the row.
    pub row: &'static str,
    /// Unit of `done`.
    pub unit: &'static str,
    /// Amount of work done.
    pub done: u64,
    /// Number of rounds.
    pub rounds: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Further counts by name.
    pub details: BTreeMap<&'static str, u64>,
    /// Faults by kind.
    pub faults: BTreeMap<String, FaultCount>,
    /// Failures.
    pub broken: Vec<Broken>,
    /// The reason why it could not be run here.
    pub skipped: Option<String>,
}

impl RowReport {
    pub(super) fn new(row: &Row) -> Self {
        RowReport {
            row: row.name,
            unit: row.unit,
            done: 0,
            rounds: 0,
            seconds: 0.0,
            details: BTreeMap::new(),
            faults: BTreeMap::new(),
            broken: Vec::new(),
            skipped: None,
        }
    }

    /// Returns the work per second.
    pub fn rate(&self) -> f64 {
        self.done as f64 / self.seconds.max(0.001)
    }

    pub(super) fn detail(&mut self, name: &'static str, count: u64) {
        if count > 0 {
            *self.details.entry(name).or_default() += count;
        }
    }

    /// Counts one run with one planned fault.
    pub(super) fn fault(&mut self, name: &str, tally: &Tally) {
        self.done += tally.runs;
        if tally.struck == 0 {
            return;
        }
        let count = self.faults.entry(name.to_owned()).or_default();
        count.injected += 1;
        let told = tally.failed_operations + tally.damage_reported + tally.unreadable;
        let became = match (told, tally.older) {
            (1.., _) => &mut count.detected,
            (0, 1..) => &mut count.older,
            (0, 0) => &mut count.masked,
        };
        *became += 1;
    }

    pub(super) fn fault_of_kind(&mut self, kind: FaultKind, tally: &Tally) {
        self.fault(&format!("{kind:?}"), tally);
    }
}

impl fmt::Display for RowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(missing) = &self.skipped {
            return write!(f, "{:<14} skipped: {missing}", self.row);
        }
        let failures = match self.broken.len() {
            0 => "no failure".to_owned(),
            1 => "1 FAILURE".to_owned(),
            count => format!("{count} FAILURES"),
        };
        write!(
            f,
            "{:<14} {:>10} {:<10} {:>8.1} s {:>9.0}/s  {failures}",
            self.row,
            self.done,
            self.unit,
            self.seconds,
            self.rate()
        )?;
        if !self.details.is_empty() {
            let details = self.details.iter();
            let details: Vec<String> = details.map(|(name, n)| format!("{n} {name}")).collect();
            write!(f, "\n    {}", details.join(", "))?;
        }
        if !self.faults.is_empty() {
            let heads = ["injected", "detected", "masked", "older"];
            write!(f, "\n    {:<18}", "fault")?;
            heads.iter().try_for_each(|head| write!(f, " {head:>9}"))?;
        }
        for (name, count) in &self.faults {
            let FaultCount {
                injected,
                detected,
                masked,
                older,
            } = count;
            write!(
                f,
                "\n    {name:<18} {injected:>9} {detected:>9} {masked:>9} {older:>9}"
            )?;
        }
        for broken in &self.broken {
            writeln!(f, "\n  reproduce: {}", broken.command)?;
            for line in broken.failure.lines() {
                writeln!(f, "    {line}")?;
            }
        }
        Ok(())
    }
}

/// Results of all rows.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Seed of the run.
    pub seed: u64,
    /// One report for each row.
    pub rows: Vec<RowReport>,
}

impl Report {
    /// Returns the number of failures of all rows.
    pub fn failures(&self) -> usize {
        self.rows.iter().map(|row| row.broken.len()).sum()
    }
}
