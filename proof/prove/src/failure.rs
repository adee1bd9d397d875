//! A failure as a story, and its reduction to a short story.

use crate::operation::{Operation, tell};
use std::time::{Duration, Instant};

/// The promise that was broken. Shrinking preserves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Without a crash the subject returns the same results as the model.
    Reference,
    /// A crash image mounts for writing, without a report of damage.
    Mount,
    /// The tree is at a moment that the contract allows.
    Contract,
    /// No inode without a name is in use.
    Leak,
    /// The offline check finds nothing.
    Check,
    /// Mounting again shows the same tree.
    Again,
    /// After recovery the volume is usable.
    Afterwards,
    /// Nothing panics.
    Panic,
    /// Damage is an error, never data.
    WrongData,
    /// Time and memory are bounded.
    Bounds,
    /// Removal is never refused, and frees its space.
    Space,
}

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The promise.
    pub promise: Promise,
    /// The operations of the workload.
    pub story: Vec<Operation>,
    /// The circumstances, innermost last: crash points, differences.
    pub account: Vec<String>,
}

impl Failure {
    /// Returns a failure; callers add context.
    pub fn new(promise: Promise, account: impl Into<String>) -> Self {
        Failure {
            promise,
            story: Vec::new(),
            account: vec![account.into()],
        }
    }

    /// Adds the time or place of the failure.
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.account.insert(0, context.into());
        self
    }

    /// Sets the story.
    pub fn during(mut self, story: &[Operation]) -> Self {
        self.story = story.to_vec();
        self
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "broken promise: {:?}", self.promise)?;
        writeln!(f, "story:")?;
        for (index, line) in tell(&self.story).lines().enumerate() {
            writeln!(f, "  {line}    // {index}")?;
        }
        for line in &self.account {
            writeln!(f, "- {line}")?;
        }
        Ok(())
    }
}

/// Removes operations from the story of `failure` as long as `attempt` still breaks the
/// same promise, and returns the failure of the shortest story. Stops after about
/// `patience`.
pub fn shrink(
    failure: Failure,
    patience: Duration,
    attempt: impl Fn(&[Operation]) -> Option<Failure>,
) -> Failure {
    let start = Instant::now();
    let mut best = failure;
    let mut chunk = best.story.len().div_ceil(2);
    while chunk > 0 && !best.story.is_empty() {
        let mut at = 0;
        let mut shorter = false;
        while at < best.story.len() {
            if start.elapsed() > patience {
                return best.context("(not fully shrunk)");
            }
            let mut story = best.story.clone();
            story.drain(at..(at + chunk).min(story.len()));
            match attempt(&story) {
                Some(found) if found.promise == best.promise => {
                    best = Failure { story, ..found };
                    shorter = true;
                }
                _ => at += chunk,
            }
        }
        if !shorter || chunk > 1 {
            chunk /= 2;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::story;

    #[test]
    fn shrinking_leaves_what_is_needed() {
        let needed = story("create a; unlink a");
        let text = "sync; create a; create b; mkdir c; sync; unlink b; unlink a; sync; sync";
        let attempt = |story: &[Operation]| {
            let mut rest = story.iter();
            let fails = needed
                .iter()
                .all(|wanted| rest.any(|operation| operation == wanted));
            fails.then(|| Failure::new(Promise::Leak, "leaked").during(story))
        };
        let failure = attempt(&story(text)).unwrap();
        assert_eq!(
            shrink(failure, Duration::from_secs(9), attempt).story,
            needed
        );
    }
}
