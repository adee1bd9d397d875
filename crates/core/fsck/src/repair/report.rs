//! What a repair did, in words.

use crate::check::CheckReport;
use std::fmt;

/// One thing that was done to a volume.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Action {
    /// What, to which file, segment or block.
    pub text: String,
    /// Something a user stored is gone, or no longer where it was.
    pub loss: bool,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.loss { "lost" } else { "mended" };
        write!(f, "{kind}: {}", self.text)
    }
}

/// What became of a volume.
#[derive(Clone, Debug, serde::Serialize)]
pub struct RepairReport {
    /// What was done, in order.
    pub actions: Vec<Action>,
    /// What could not be done, and why.
    pub refused: Vec<String>,
    /// The check of what was done; its errors remain.
    pub check: CheckReport,
}

impl RepairReport {
    /// True if something was written.
    pub fn changed(&self) -> bool {
        !self.actions.is_empty()
    }

    /// True if nothing is left to be mended.
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

/// Collects actions, naming files by their paths.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    done: Vec<Action>,
    left_out: u64,
}

/// Actions that are kept one by one.
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

    /// What was done behind the first so many.
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
    /// The same said a moment ago: two findings led to one remedy.
    fn contains_recent(&self, action: &Action) -> bool {
        self.iter().rev().take(32).any(|done| done == action)
    }
}
