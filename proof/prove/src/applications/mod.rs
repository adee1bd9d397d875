//! Applications under crash: real programs work on a real mount of a volume
//! whose device is recorded; the power is cut in the recording; and the
//! program's own checker looks at what each crash left.
//!
//! An [`Application`] works in *steps*, one after the other, and names the
//! state it is in after each. What a crash leaves must be one of these states:
//! none older than the last step that was acknowledged as durable, and none
//! newer than the step that was under way. The application says which it is,
//! after its checker has found nothing wrong.
//!
//! | file | |
//! |---|---|
//! | `stage.rs` | the mount, its recording, and a disturber beside the application |
//! | `crashes.rs` | the crash states, mounted and laid out for the checker |
//! | `sqlite.rs`, `git.rs`, `replace.rs`, `manifest.rs` | the applications |
//!
//! Threads and the kernel decide what is written when, so a seed repeats the
//! work but not the recording: the image of a failure is kept.

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

/// What one step left behind, in the application's words. Equal states have
/// equal texts.
pub type State = String;

/// A program that keeps its files on the volume.
pub trait Application: Sync {
    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// The program it needs, if it is none of ours.
    fn program(&self) -> Option<&'static str>;

    /// It relies on the order of all data, and is mounted with `order=strict`.
    fn strict_order(&self) -> bool {
        false
    }

    /// Makes its files in the empty directory `dir`, and says in which state
    /// they are. They are synced afterwards.
    ///
    /// # Errors
    /// What failed.
    fn prepare(&self, dir: &Path) -> Result<State, String>;

    /// Does `steps` steps, and reports each to `diary`.
    ///
    /// # Errors
    /// What failed.
    fn work(
        &self,
        dir: &Path,
        steps: u64,
        random: &mut Random,
        diary: &mut Diary<'_>,
    ) -> Result<(), String>;

    /// Opens what a crash left, checks it with the application's own checker,
    /// and says in which state it is. May change the files.
    ///
    /// # Errors
    /// What the checker found.
    fn check(&self, dir: &Path) -> Result<State, String>;
}

/// Every application.
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

/// What an application reports while it works.
pub struct Diary<'a> {
    /// The state before the first step, and after each.
    states: Vec<State>,
    /// Hears of every report.
    note: &'a mut dyn FnMut(Note),
}

/// One report, numbered by steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// So many steps are over.
    Done(u64),
    /// So many steps are durable: the application was told so.
    Durable(u64),
}

impl<'a> Diary<'a> {
    fn new(first: State, note: &'a mut dyn FnMut(Note)) -> Self {
        Diary {
            states: vec![first],
            note,
        }
    }

    /// Steps that are over.
    fn steps(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// The step is over, and a crash may or may not undo it.
    pub fn done(&mut self, state: State) {
        self.states.push(state);
        let steps = self.steps();
        (self.note)(Note::Done(steps));
    }

    /// All steps so far survive every crash from now on.
    pub fn durable(&mut self) {
        let steps = self.steps();
        (self.note)(Note::Durable(steps));
    }

    /// The step is over. With `synced` the application has made it durable;
    /// otherwise now and then somebody syncs `dir`, and all is durable then.
    ///
    /// # Errors
    /// What `state` says, and if `dir` cannot be synced.
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

    /// The step is over and durable; what state that is can be told only now.
    ///
    /// # Errors
    /// What `state` says.
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

/// How much of an application to explore.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Steps of work.
    pub steps: u64,
    /// Power cuts, drawn from the whole recording; some four states each.
    pub cuts: usize,
    /// Decides the work and the crash states.
    pub seed: u64,
    /// Every so manyth flush of the recording is held to have been a lie; 0
    /// for none. Then something must be found.
    pub lie_one_in: u64,
}

/// Why applications cannot be run here, if they cannot.
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
/// The first crash state that is not as promised, or what went wrong before.
pub fn explore(application: &dyn Application, extent: &Extent) -> Result<Explored, Failure> {
    let told = |failure: Failure| failure.context(format!("application: {}", application.name()));
    let recorded = stage::record(application, extent).map_err(told)?;
    crashes::explore(application, &recorded, extent).map_err(told)
}

/// What a program printed; it must succeed.
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

/// Says what was tried and with which file.
fn at<'p>(what: &'p str, path: &'p Path) -> impl FnOnce(std::io::Error) -> String + 'p {
    move |error| format!("{what} {}: {error}", path.display())
}

/// Makes every step so far durable.
fn sync_directory(dir: &Path) -> Result<(), String> {
    std::fs::File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(at("sync", dir))
}

/// Text that its number decides, of some length.
fn filler(number: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(number);
    let mut content = Vec::with_capacity(bytes + 8);
    while content.len() < bytes {
        content.extend_from_slice(&random.word().to_le_bytes());
    }
    content.truncate(bytes);
    content
}
