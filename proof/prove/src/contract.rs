//! The contract on the state after a crash, and its check.
//!
//! A workload runs on one thread. The model after each operation is kept: a *moment*. At
//! a crash, some operations have been acknowledged, and at most one is running. The tree
//! that a mount finds must equal **one moment** such that:
//!
//! 1. it is not older than the last operation that was acknowledged as durable: an
//!    `fsync` (of any file, because it includes earlier directory operations), a `sync`,
//!    a checkpoint, an unmount; nor than the last change of content of a file whose
//!    `fdatasync` was acknowledged;
//! 2. it is not newer than the operations that were started;
//! 3. names, kinds, links, owners, modes, attributes and targets are exactly those of the
//!    moment: directory operations survive as a prefix;
//! 4. every block of each file is in a version that it had since the last acknowledged
//!    sync of the file, and not after the moment; truncates and punches up to the moment
//!    have taken effect on it, later ones have not;
//! 5. a file's size is explained: every block inside is in a version that was that long,
//!    every block behind it in one in which the file ended before it. A length whose data
//!    never arrived and reads as zeros is in no version ([`crate::model::content`]);
//! 6. a rename over a name counts as a sync of its source if the rename is visible: the
//!    target has either the old or the new content.
//!
//! If the layout overwrites in place (`Promise::GroupsButOverwrites`), point 4 is weaker:
//! a block that was overwritten since the last acknowledged sync of its file may be a
//! mixture of its versions, including later ones, sector by sector. If the crash tore a
//! write, a sector may contain anything except for the content of any file.
//!
//! If a check makes the volume consistent (`Promise::Ordered`, `Promise::UntilCommit`),
//! `contract/mixed.rs` replaces the rule of one moment. With the former, an operation on
//! names is acknowledged as durable when it returns.
//!
//! When the process is killed and the device is not, and a new process mounts, it must
//! find one of these moments. Later moments can no longer appear, earlier ones stay
//! possible until an operation is acknowledged as durable.

mod mixed;
mod seen;

use crate::model::{Id, Model};
use crate::operation::{File, Operation};
use crate::tree::{self, Line, Tree};
use mixed::Mixed;
use std::sync::Arc;
use varve_fs::Promise;

/// Progress of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step(pub u64);

impl Step {
    /// The first mount is running.
    pub const START: Step = Step(0);

    /// Returns the step at which operation `index` was started.
    pub fn begun(index: usize) -> Step {
        Step(2 * index as u64 + 1)
    }

    /// Returns the step at which operation `index` returned.
    pub fn returned(index: usize) -> Step {
        Step(2 * index as u64 + 2)
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.0, self.0 % 2) {
            (0, _) => f.write_str("during the first mount"),
            (step, 1) => write!(f, "during operation {}", step / 2),
            (step, _) => write!(f, "after operation {}", step / 2 - 1),
        }
    }
}

#[derive(Clone)]
struct Moment {
    model: Model,
    lines: Arc<(Vec<Line>, Vec<Id>)>,
    hash: u64,
    /// Step from which on the moment can no longer be found.
    dead_from: Step,
}

/// The moments of a workload.
#[derive(Clone)]
pub struct History {
    operations: Vec<Operation>,
    /// Moments after 0, 1, ... operations.
    moments: Vec<Moment>,
    /// The oldest moment allowed after 0, 1, ... operations have returned.
    floors: Vec<usize>,
    promise: Promise,
}

const NEVER: Step = Step(u64::MAX);

impl Moment {
    fn new(model: Model, before: Option<&Moment>) -> Self {
        let lines = tree::model_lines(&model);
        let lines = match before {
            Some(before) if before.lines.0 == lines.0 => {
                // Different files may have the same names.
                Arc::new((before.lines.0.clone(), lines.1))
            }
            _ => Arc::new(lines),
        };
        let hash = tree::fingerprint(&lines.0);
        Moment {
            model,
            lines,
            hash,
            dead_from: NEVER,
        }
    }

    /// Returns the file to which a path leads.
    fn leads_to(&self, path: &[u8]) -> Option<Id> {
        let index = self.lines.0.iter().position(|line| line.path == path)?;
        Some(self.lines.1[index])
    }

    /// Returns the file to which a name in a directory leads.
    fn entry(&self, directory: Id, name: &[u8]) -> Option<Id> {
        let is_there = self.lines.1.contains(&directory);
        is_there
            .then(|| self.model.node(directory).entries.get(name).copied())
            .flatten()
    }

    /// Returns true if the contents found are possible at this moment, given that the
    /// `later` ones had begun.
    fn explains_contents(
        &self,
        tree: &Tree,
        later: &[Moment],
        torn: bool,
        is_known: &dyn Fn(&[u8]) -> bool,
    ) -> Result<(), String> {
        for file in &tree.files {
            let id = self.lines.1[file.line];
            let content = &self.model.node(id).content;
            let explained = match self.model.in_place {
                false => content.explains(&file.bytes),
                true => {
                    let later = later.iter().filter_map(|moment| moment.model.content(id));
                    let later: Vec<_> = later.collect();
                    content.explains_in_place(&file.bytes, &later, torn, is_known)
                }
            };
            explained.map_err(|error| format!("{}: {error}", tree.lines[file.line]))?;
        }
        Ok(())
    }
}

impl History {
    /// Returns a history that begins with a durable `model`.
    pub fn new(model: Model) -> Self {
        History {
            operations: Vec::new(),
            moments: vec![Moment::new(model, None)],
            floors: vec![0],
            promise: Promise::Groups,
        }
    }

    /// Does the same for the promise of a layout.
    pub fn promising(model: Model, promise: Promise) -> Self {
        History {
            promise,
            ..History::new(model)
        }
    }

    /// Returns true if a crash can leave each inode at a different moment.
    fn is_mixed(&self) -> bool {
        matches!(self.promise, Promise::Ordered | Promise::UntilCommit)
    }

    /// Records that `operation` left `model`; `done` is false if it was refused.
    pub fn push(&mut self, operation: &Operation, model: Model, done: bool) {
        let moment = Moment::new(model, self.moments.last());
        self.moments.push(moment);
        let believed = !self.moments[0].model.distrustful;
        let durable = done && believed && operation.promises_durability();
        let floor = self.floors[self.operations.len()];
        let newest = self.moments.len() - 1;
        // An operation on names waits for durability, which includes everything before
        // it.
        let waited = done
            && self.promise == Promise::Ordered
            && operation.changes_names()
            && self.moments[newest].hash != self.moments[newest - 1].hash;
        // The next process makes the state that it finds durable.
        let found = self.is_mixed() && *operation == Operation::Kill;
        let promised = match operation {
            _ if waited || found => newest,
            _ if !durable => floor,
            Operation::Fsync {
                file,
                data_only: true,
            } => self.last_change(file),
            Operation::Fsync { file, .. } if self.newest().exact => {
                self.last_change(file).max(self.last_change_of_names())
            }
            _ => self.moments.len() - 1,
        };
        self.floors.push(floor.max(promised));
        self.operations.push(operation.clone());
    }

    /// Returns the moment that contains the newest content of `file`.
    fn last_change(&self, file: &File) -> usize {
        let newest = self.moments.len() - 1;
        let Ok(id) = self.newest().any_file(file) else {
            return newest;
        };
        let changes = |index: usize| self.moments[index].model.content_changes(id);
        (0..newest)
            .rev()
            .find(|&index| changes(index) != changes(newest))
            .map_or(0, |index| index + 1)
    }

    fn last_change_of_names(&self) -> usize {
        let newest = self.moments.len() - 1;
        let hash = self.moments[newest].hash;
        let differs = (0..newest)
            .rev()
            .find(|&index| self.moments[index].hash != hash);
        differs.map_or(0, |index| index + 1)
    }

    /// Records that the process was killed and its successor found `tree`. Adds the
    /// resulting moment and returns its model.
    ///
    /// # Errors
    /// If the tree equals no allowed moment.
    pub fn push_kill(&mut self, operation: &Operation, tree: &Tree) -> Result<Model, String> {
        let index = self.operations.len();
        let step = match index {
            0 => Step::START,
            _ => Step::returned(index - 1),
        };
        if self.is_mixed() {
            let mut model = self.check_mixed(tree, step, false)?;
            model.close_all();
            for moment in &mut self.moments {
                moment.dead_from = moment.dead_from.min(Step::returned(index));
            }
            self.push(operation, model.clone(), true);
            return Ok(model);
        }
        let survivor = self.check(tree, step)?;
        let mut model = self.moments[survivor].model.clone();
        let lines = Arc::clone(&self.moments[survivor].lines);
        for file in &tree.files {
            model.observe(lines.1[file.line], &file.bytes);
        }
        model.close_all();
        for moment in &mut self.moments[survivor + 1..] {
            moment.dead_from = moment.dead_from.min(Step::returned(index));
        }
        self.push(operation, model.clone(), true);
        Ok(model)
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns true if there are no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns the model after all operations.
    pub fn newest(&self) -> &Model {
        &self.moments[self.moments.len() - 1].model
    }

    /// Returns the model at a moment that [`History::check`] returned.
    pub fn model(&self, moment: usize) -> &Model {
        &self.moments[moment].model
    }

    /// Checks that each readable file has content that its path had at some moment, which
    /// must be true even of a damaged volume.
    ///
    /// # Errors
    /// The first file with any other content.
    pub fn check_fragments(&self, tree: &Tree) -> Result<(), String> {
        for file in &tree.files {
            let line = &tree.lines[file.line];
            let mut error = "no file ever had this path".to_owned();
            let explained = self.moments.iter().rev().any(|moment| {
                let known = moment
                    .lines
                    .0
                    .iter()
                    .position(|known| known.path == line.path);
                let Some(index) = known else { return false };
                let content = &moment.model.node(moment.lines.1[index]).content;
                content
                    .explains(&file.bytes)
                    .map_err(|text| error = text)
                    .is_ok()
            });
            if !explained {
                return Err(format!("{line}: {error}"));
            }
        }
        Ok(())
    }

    /// Returns the oldest and the newest moment allowed.
    fn window(&self, step: Step) -> (usize, usize) {
        if step == Step::START {
            return (0, 0);
        }
        let index = (step.0 as usize - 1) / 2;
        if step == Step::returned(index) {
            return (self.floors[index + 1], index + 1);
        }
        let operation = self.operations.get(index);
        // An operation that only waits for the device adds a promise and no state.
        let waits = operation.is_none_or(|operation| {
            operation.promises_durability() || *operation == Operation::Kill
        });
        (self.floors[index], if waits { index } else { index + 1 })
    }

    /// Returns the model of a tree after a crash, which may have torn a write.
    ///
    /// # Errors
    /// If the contract does not allow the tree.
    pub fn survivor(&self, tree: &Tree, step: Step, torn: bool) -> Result<Model, String> {
        if self.is_mixed() {
            return self.check_mixed(tree, step, torn);
        }
        let mut model = self.model(self.moment(tree, step, torn)?).clone();
        let (_, ids) = tree::model_lines(&model);
        for file in &tree.files {
            model.observe(ids[file.line], &file.bytes);
        }
        Ok(model)
    }

    /// Returns true if a sector of `bytes` is one of some file's content.
    fn is_known(&self, bytes: &[u8]) -> bool {
        let models = self.moments.iter().map(|moment| &moment.model);
        let mut contents = models.flat_map(Model::contents);
        contents.any(|content| content.has_sector_of(bytes))
    }

    fn check_mixed(&self, tree: &Tree, step: Step, torn: bool) -> Result<Model, String> {
        let (floor, ceiling) = self.window(step);
        let begun = (ceiling + 1).min(self.moments.len() - 1);
        let moments = self.moments[floor..=ceiling].iter();
        let mixed = Mixed {
            past: &self.moments[..floor],
            moments: moments.filter(|moment| moment.dead_from > step).collect(),
            later: &self.moments[(ceiling + 1).min(begun + 1)..=begun],
            ordered: self.promise == Promise::Ordered,
            tree,
            torn,
            is_known: &|bytes| self.is_known(bytes),
        };
        mixed.check().map_err(|error| {
            format!("moments {floor}..={ceiling} (operations done) are allowed {step}:\n{error}")
        })?;
        Ok(seen::of_tree(tree, self.newest()))
    }

    /// Returns the moment of a `tree` that was found after a crash at `step`, without
    /// torn units.
    ///
    /// # Errors
    /// If there is none: the difference from the closest moment.
    pub fn check(&self, tree: &Tree, step: Step) -> Result<usize, String> {
        self.moment(tree, step, false)
    }

    fn moment(&self, tree: &Tree, step: Step, torn: bool) -> Result<usize, String> {
        let (floor, ceiling) = self.window(step);
        // An operation that waits for the device may have written data meanwhile.
        let begun = (ceiling + 1).min(self.moments.len() - 1);
        let hash = tree::fingerprint(&tree.lines);
        let mut contents: Option<(usize, String)> = None;
        let allowed = |index: &usize| self.moments[*index].dead_from > step;
        for index in (floor..=ceiling).rev().filter(allowed) {
            let moment = &self.moments[index];
            if moment.hash != hash || moment.lines.0 != tree.lines {
                continue;
            }
            let later = &self.moments[index + 1..=begun.max(index)];
            let is_known = |bytes: &[u8]| self.is_known(bytes);
            match moment.explains_contents(tree, later, torn, &is_known) {
                Ok(()) => return Ok(index),
                Err(error) => {
                    contents.get_or_insert((index, error));
                }
            }
        }
        let window = format!("moments {floor}..={ceiling} (operations done) are allowed {step}");
        if let Some((index, error)) = contents {
            return Err(format!(
                "{window}; names are those of moment {index}, but\n{error}"
            ));
        }
        let differing = |index: usize| tree::differences(&self.moments[index].lines.0, &tree.lines);
        let closest = (floor..=ceiling)
            .filter(allowed)
            .rev()
            .map(|index| (index, differing(index)));
        let closest = closest.min_by_key(|(_, text)| text.lines().count());
        let (index, text) = closest.unwrap_or((floor, "no moment is left".to_owned()));
        let earlier = (0..self.moments.len()).find(|&i| self.moments[i].hash == hash);
        let earlier = earlier.map_or(String::new(), |index| {
            format!("\n(names are those of moment {index}, which is not allowed)")
        });
        Err(format!(
            "{window}; closest is moment {index}:\n{text}{earlier}"
        ))
    }
}

#[cfg(test)]
mod tests;
