//! Applications under crash: real programs use a real mount of a volume whose device is
//! recorded, the power is cut in the recording, and the program's own checker examines
//! the state after each crash.
//!
//! An [`Application`] works in *steps*, one after the other, and names its state after
//! each. The state after a crash must be one of these: none older than the last step that
//! was acknowledged as durable, and none newer than the step that was running. The
//! application identifies the state after its checker has found nothing wrong.
//!
//! | file | content |
//! |---|---|
//! | `stage.rs` | the mount, its recording, and a disturber in parallel with the application |
//! | `crashes.rs` | the crash states, mounted and written to a directory for the checker |
//! | `sqlite.rs`, `git.rs`, `replace.rs`, `manifest.rs` | the applications |
//!
//! Threads and the kernel decide the time of each write, so a seed repeats the work but
//! not the recording; the image of a failure is kept.

mod crashes;
mod git;
mod manifest;
mod replace;
mod sqlite;
mod stage;

use crate::failure::Failure;
use crate::random::Random;
use std::path::Path;
use std::process::{Command, Output};

pub use crashes::{Counts, Explored};
pub use git::Git;
pub use manifest::LogAndManifest;
pub use replace::Replace;
pub use sqlite::Sqlite;

/// The state after a step, as text of the application. Equal states have equal texts.
pub type State = String;

/// A program that keeps its files on the volume.
pub trait Application: Sync {
    /// Returns its name in reports.
    fn name(&self) -> &'static str;

    /// Returns the external program that it needs, if any.
    fn program(&self) -> Option<&'static str>;

    /// Returns true if it relies on the order of all data, and is mounted with
    /// `order=strict`.
    fn strict_order(&self) -> bool {
        false
    }

    /// Creates its files in the empty directory `dir`, and returns their state. They are
    /// synced afterwards.
    ///
    /// # Errors
    /// The operation that failed.
    fn prepare(&self, dir: &Path) -> Result<State, String>;

    /// Runs `steps` steps, and reports each to `diary`.
    ///
    /// # Errors
    /// The operation that failed.
    fn work(
        &self,
        dir: &Path,
        steps: u64,
        random: &mut Random,
        diary: &mut Diary<'_>,
    ) -> Result<(), String>;

    /// Opens the files after a crash, checks them with the application's own checker, and
    /// returns their state. It may change the files.
    ///
    /// # Errors
    /// The findings of the checker.
    fn check(&self, dir: &Path) -> Result<State, String>;
}

/// Returns every application.
pub fn all() -> [&'static dyn Application; 8] {
    [
        &Sqlite::WAL,
        &Sqlite::ROLLBACK,
        &Git::SYNCED,
        &Replace::SYNCED,
        &LogAndManifest::SYNCED,
        &Replace::CLOSED,
        &Sqlite::UNSYNCED,
        &LogAndManifest::UNSYNCED,
    ]
}

/// The reports of an application while it works.
pub struct Diary<'a> {
    /// The state before the first step, and after each.
    states: Vec<State>,
    /// Callback for every report.
    note: &'a mut dyn FnMut(Note),
}

/// One report, numbered by steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// This number of steps is complete.
    Done(u64),
    /// This number of steps was acknowledged as durable.
    Durable(u64),
}

impl<'a> Diary<'a> {
    fn new(first: State, note: &'a mut dyn FnMut(Note)) -> Self {
        Diary {
            states: vec![first],
            note,
        }
    }

    /// Returns the number of complete steps.
    fn steps(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// Reports a complete step, which a crash may or may not undo.
    pub fn done(&mut self, state: State) {
        self.states.push(state);
        let steps = self.steps();
        (self.note)(Note::Done(steps));
    }

    /// Reports that all steps so far survive every later crash.
    pub fn durable(&mut self) {
        let steps = self.steps();
        (self.note)(Note::Durable(steps));
    }

    /// Reports a complete step. With `synced` the application has made it durable;
    /// otherwise `dir` is sometimes synced here, which makes all steps durable.
    ///
    /// # Errors
    /// Errors of `state` and of the sync of `dir`.
    pub fn step(
        &mut self,
        synced: bool,
        dir: &Path,
        random: &mut Random,
        state: impl FnOnce() -> Result<State, String>,
    ) -> Result<(), String> {
        if synced {
            return self.durable_step(state);
        }
        self.done(state()?);
        if random.once_in(6) {
            sync_directory(dir)?;
            self.durable();
        }
        Ok(())
    }

    /// Reports a complete and durable step, whose state can be determined only now.
    ///
    /// # Errors
    /// Errors of `state`.
    pub fn durable_step(
        &mut self,
        state: impl FnOnce() -> Result<State, String>,
    ) -> Result<(), String> {
        let steps = self.steps() + 1;
        (self.note)(Note::Durable(steps));
        self.states.push(state()?);
        Ok(())
    }
}

/// Extent of the exploration of an application.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Number of steps.
    pub steps: u64,
    /// Number of power cuts, drawn from the whole recording; some four states each.
    pub cuts: usize,
    /// Seed of the work and the crash states.
    pub seed: u64,
    /// One in this number of flushes of the recording is treated as a lie; 0 for none.
    /// With such flushes, the run must find a failure.
    pub lie_one_in: u64,
}

/// Returns the reason why the application cannot be run here, if there is one.
pub fn missing(application: &dyn Application) -> Option<String> {
    let fuse = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse");
    if let Err(error) = fuse {
        return Some(format!("/dev/fuse: {error}"));
    }
    let program = application.program()?;
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|path| path.join(program).exists());
    (!found).then(|| format!("no {program}"))
}

/// Runs the application on a recorded mount, and explores the recording.
///
/// # Errors
/// The first crash state that breaks a promise, or an earlier failure.
pub fn explore(application: &dyn Application, extent: &Extent) -> Result<Explored, Failure> {
    let told = |failure: Failure| failure.context(format!("application: {}", application.name()));
    let recorded = stage::record(application, extent).map_err(told)?;
    crashes::explore(application, &recorded, extent).map_err(told)
}

/// Returns the output of a program, which must succeed.
fn output(command: &mut Command) -> Result<String, String> {
    let answer = command.output();
    let answer = answer.map_err(|error| format!("{command:?}: {error}"))?;
    let Output {
        status,
        stdout,
        stderr,
    } = answer;
    let said = String::from_utf8_lossy(&stdout).into_owned();
    if !status.success() {
        let complaint = String::from_utf8_lossy(&stderr);
        return Err(format!("{command:?}: {status}: {said}{complaint}"));
    }
    Ok(said)
}

/// Adds the operation and the file to an error.
fn at<'p>(what: &'p str, path: &'p Path) -> impl FnOnce(std::io::Error) -> String + 'p {
    move |error| format!("{what} {}: {error}", path.display())
}

/// Makes every step so far durable.
fn sync_directory(dir: &Path) -> Result<(), String> {
    std::fs::File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(at("sync", dir))
}

/// Returns text of some length that follows from its number.
fn filler(number: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(number);
    let mut content = Vec::with_capacity(bytes + 8);
    while content.len() < bytes {
        content.extend_from_slice(&random.word().to_le_bytes());
    }
    content.truncate(bytes);
    content
}
