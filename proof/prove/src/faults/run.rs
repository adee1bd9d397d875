//! One run of a workload on a failing device, with all possible outcomes of the failed
//! operations.

use super::Tally;
use crate::contract::{History, Step};
use crate::failure::{Failure, Promise};
use crate::model::errno::ENOSPC;
use crate::model::{Model, Refusal};
use crate::mounted::Mounted;
use crate::operation::Operation;
use crate::panics;
use crate::runner::Runner;
use crate::tree::{self, Bounds, Trouble};

/// Largest number of branches; a run with more ends early.
const BRANCHES: usize = 16;
/// Number of failed operations after which a run ends early.
const FAILURES: u64 = 8;

pub(super) const EIO: i32 = 5;
pub(super) const EROFS: i32 = 30;

/// One possible outcome of the failed operations.
#[derive(Clone)]
pub(super) struct Branch {
    pub(super) model: Model,
    pub(super) history: History,
}

pub(super) struct Run<'a> {
    pub(super) branches: Vec<Branch>,
    pub(super) tally: Tally,
    pub(super) operations: &'a [Operation],
    pub(super) done: usize,
    pub(super) silent: bool,
}

impl Run<'_> {
    pub(super) fn workload(&mut self, runner: &mut Runner) -> Result<(), Failure> {
        for (index, operation) in self.operations.iter().enumerate() {
            if matches!(operation, Operation::Kill | Operation::Remount) {
                self.push(operation, false);
                continue;
            }
            let skipped = self.branches[0].model.clone().apply(operation) == Err(Refusal::Skip);
            if skipped {
                self.push(operation, false);
                continue;
            }
            let real = panics::catch(|| runner.perform(operation));
            let real = real.map_err(|text| {
                Failure::new(
                    Promise::Panic,
                    format!("operation {index}, {operation}: {text}"),
                )
            })?;
            let answer = match real {
                Err(error) if matches!(error.errno(), EIO | EROFS | ENOSPC) => {
                    self.tally.failed_operations += 1;
                    self.fork(operation);
                    if self.branches.len() > BRANCHES || self.tally.failed_operations > FAILURES {
                        return Ok(());
                    }
                    continue;
                }
                Err(error) => Err(Refusal::Errno(error.errno())),
                Ok(answer) => Ok(answer),
            };
            let mut followed = Vec::new();
            let mut expected = Vec::new();
            for mut branch in std::mem::take(&mut self.branches) {
                let outcome = branch.model.apply(operation);
                if outcome == answer {
                    branch
                        .history
                        .push(operation, branch.model.clone(), answer.is_ok());
                    followed.push(branch);
                } else {
                    expected.push(outcome);
                }
            }
            self.branches = followed;
            self.done += 1;
            if self.branches.is_empty() {
                let text = format!(
                    "operation {index}, {operation}: found {}, expected {}",
                    short(&answer),
                    expected.iter().map(short).collect::<Vec<_>>().join(" or ")
                );
                return Err(Failure::new(Promise::WrongData, text));
            }
        }
        Ok(())
    }

    /// Records an operation without changes.
    fn push(&mut self, operation: &Operation, done: bool) {
        for branch in &mut self.branches {
            branch.history.push(operation, branch.model.clone(), done);
        }
        self.done += 1;
    }

    /// Records that `operation` failed, and may have happened or not.
    fn fork(&mut self, operation: &Operation) {
        let mut happened = self.branches.clone();
        self.push(operation, false);
        if operation.promises_durability() {
            return; // it changes nothing but the promise
        }
        happened.retain_mut(|branch| {
            let applied = branch.model.apply(operation).is_ok();
            branch.history.push(operation, branch.model.clone(), false);
            applied
        });
        self.branches.extend(happened);
    }

    /// Reads the tree of the running mount, while the faults persist.
    pub(super) fn look_at_living(&mut self, mounted: &dyn Mounted) -> Result<(), Failure> {
        let tree = match tree::walk_damaged(mounted, Bounds::damaged()) {
            Ok(tree) => tree,
            Err(Trouble::Refused(_)) => return Ok(()),
            Err(Trouble::Disagrees(text)) => {
                return Err(Failure::new(Promise::WrongData, text).context("still mounted"));
            }
        };
        if !tree.unreadable.is_empty() {
            return Ok(());
        }
        let newest = |branch: &Branch| {
            let mut model = branch.model.clone();
            model.distrustful = false;
            model.settle();
            History::new(model).check(&tree, Step::START)
        };
        let mut errors = self.branches.iter().map(newest);
        if errors.any(|found| found.is_ok()) {
            return Ok(());
        }
        let error = self
            .branches
            .iter()
            .filter_map(|branch| newest(branch).err())
            .next();
        let error = error.unwrap_or_default();
        Err(Failure::new(Promise::WrongData, error).context("still mounted"))
    }

    pub(super) fn look_at_remounted(&mut self, mounted: &dyn Mounted) -> Result<(), Failure> {
        let reported = mounted
            .read_only()
            .into_iter()
            .chain(mounted.damage())
            .next();
        if let Some(reason) = &reported
            && !self.silent
        {
            return Err(Failure::new(Promise::Mount, format!("remounted: {reason}")));
        }
        let tree = match tree::walk_damaged(mounted, Bounds::damaged()) {
            Ok(tree) => tree,
            Err(Trouble::Refused(_)) if self.silent => {
                self.tally.unreadable += 1;
                return Ok(());
            }
            Err(Trouble::Disagrees(_)) if self.silent && reported.is_some() => {
                self.tally.damage_reported += 1;
                return Ok(());
            }
            Err(trouble) => {
                return Err(Failure::new(Promise::WrongData, trouble.text()));
            }
        };
        self.tally.damage_reported += u64::from(reported.is_some());
        self.tally.unreadable += u64::from(!tree.unreadable.is_empty());
        if !self.silent
            && let Some(text) = tree.unreadable.first()
        {
            return Err(Failure::new(
                Promise::Contract,
                format!("unreadable: {text}"),
            ));
        }
        let step = self.done.checked_sub(1).map_or(Step::START, Step::returned);
        if reported.is_some() || !tree.unreadable.is_empty() {
            let fits = |branch: &Branch| branch.history.check_fragments(&tree);
            let mut found = self.branches.iter().map(fits);
            if found.any(|fits| fits.is_ok()) {
                return Ok(());
            }
            let error = self
                .branches
                .iter()
                .filter_map(|branch| fits(branch).err())
                .next();
            return Err(Failure::new(Promise::WrongData, error.unwrap_or_default()));
        }
        let checked: Vec<_> = self
            .branches
            .iter()
            .map(|branch| branch.history.check(&tree, step))
            .collect();
        if let Some(moment) = checked.iter().flatten().max() {
            self.tally.intact += u64::from(*moment == self.done);
            self.tally.older += u64::from(*moment < self.done);
            return Ok(());
        }
        let error = checked
            .into_iter()
            .filter_map(Result::err)
            .next()
            .unwrap_or_default();
        let promise = if self.silent {
            Promise::WrongData
        } else {
            Promise::Contract
        };
        Err(Failure::new(promise, error))
    }
}

fn short(outcome: &crate::model::Outcome) -> String {
    match outcome {
        Ok(crate::model::Answer::Bytes(bytes)) => crate::model::content::describe(bytes),
        other => format!("{other:?}"),
    }
}
