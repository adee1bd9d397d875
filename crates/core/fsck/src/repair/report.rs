//! The report of a repair.

use crate::check::CheckReport;
use std::fmt;

/// One change that a repair made.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Action {
    /// Description, with the file, segment or block.
    pub text: String,
    /// True if user data was lost or moved.
    pub loss: bool,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.loss { "lost" } else { "mended" };
        write!(f, "{kind}: {}", self.text)
    }
}

/// The result of a repair.
#[derive(Clone, Debug, serde::Serialize)]
pub struct RepairReport {
    /// Changes, in order.
    pub actions: Vec<Action>,
    /// Remedies that could not be applied, with reasons.
    pub refused: Vec<String>,
    /// The final check, with the remaining errors.
    pub check: CheckReport,
}

impl RepairReport {
    /// Returns true if something was written.
    pub fn changed(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Returns true if nothing remains to be repaired.
    pub fn is_whole(&self) -> bool {
        self.refused.is_empty() && !self.check.needs_repair()
    }
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for action in &self.actions {
            writeln!(f, "{action}")?;
        }
        for refused in &self.refused {
            writeln!(f, "not done: {refused}")?;
        }
        write!(f, "{}", self.check)
    }
}

/// Collector of actions.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    done: Vec<Action>,
    left_out: u64,
}

/// Largest number of actions listed one by one.
const MAX_ACTIONS: usize = 100_000;

impl Actions {
    pub fn mended(&mut self, text: impl Into<String>) {
        self.push(text.into(), false);
    }

    pub fn lost(&mut self, text: impl Into<String>) {
        self.push(text.into(), true);
    }

    fn push(&mut self, text: String, loss: bool) {
        let action = Action { text, loss };
        if self.done.len() >= MAX_ACTIONS {
            self.left_out += 1;
        } else if !self.done.contains_recent(&action) {
            self.done.push(action);
        }
    }

    pub fn len(&self) -> usize {
        self.done.len()
    }

    /// Returns the texts of the actions after the first `earlier`.
    pub fn since(&self, earlier: usize) -> impl Iterator<Item = String> + '_ {
        let new = self.done.iter().skip(earlier);
        new.map(|action| action.text.clone())
    }

    pub fn into_vec(mut self) -> Vec<Action> {
        if self.left_out > 0 {
            let text = format!("and {} more", self.left_out);
            self.done.push(Action { text, loss: false });
        }
        self.done
    }
}

trait Recent {
    fn contains_recent(&self, action: &Action) -> bool;
}

impl Recent for Vec<Action> {
    /// Returns true if the same action was recorded recently, because two findings shared
    /// a remedy.
    fn contains_recent(&self, action: &Action) -> bool {
        self.iter().rev().take(32).any(|done| done == action)
    }
}
