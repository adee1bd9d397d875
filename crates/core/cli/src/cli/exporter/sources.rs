//! The mounts whose metrics are served, each queried by a thread of its own: a server
//! that does not answer delays only that thread.

use crate::cli::stats;
use parking_lot::{Condvar, Mutex};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A mounted directory that is queried.
pub struct Source {
    directory: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// A thread is querying it.
    asking: bool,
    /// Number of queries answered.
    rounds: u64,
    latest: Option<Value>,
    /// Whether the last query returned numbers; a change is logged.
    told: Option<bool>,
}

impl Source {
    pub fn new(directory: PathBuf) -> Arc<Self> {
        Arc::new(Source {
            directory,
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Starts a query of the mount, unless one is running. Returns the round to await.
    pub fn ask(self: &Arc<Self>) -> u64 {
        let mut state = self.state.lock();
        let round = state.rounds + 1;
        if !state.asking {
            let own = Arc::clone(self);
            let thread = std::thread::Builder::new().spawn(move || own.answer());
            // Without a thread, the waiting caller times out.
            state.asking = thread.is_ok();
        }
        round
    }

    fn answer(&self) {
        let answer = stats::of_mount(&self.directory);
        let mut state = self.state.lock();
        if let Err(failure) = &answer {
            state.told(false, failure.message());
        }
        state.latest = answer.ok();
        state.asking = false;
        state.rounds += 1;
        self.changed.notify_all();
    }

    /// The answer to the query of [`Source::ask`], if it arrives in time.
    pub fn await_answer(&self, round: u64, until: Instant) -> Option<Value> {
        let mut state = self.state.lock();
        while state.rounds < round {
            if self.changed.wait_until(&mut state, until).timed_out() {
                let shown = self.directory.display();
                state.told(false, &format!("the server of {shown} does not answer"));
                return None;
            }
        }
        if state.latest.is_some() {
            let shown = self.directory.display();
            state.told(true, &format!("{shown} answers"));
        }
        state.latest.clone()
    }
}

impl State {
    /// Logs whether the mount answers, if that has changed.
    fn told(&mut self, up: bool, text: &str) {
        let before = self.told.replace(up);
        match (before, up) {
            (Some(true) | None, false) => tracing::warn!("{text}"),
            (Some(false), true) => tracing::warn!("{text} again"),
            _ => {}
        }
    }
}

/// Queries all in parallel, and waits at most for `patience`.
pub fn ask_all(sources: &[Arc<Source>], patience: Duration) -> Vec<(PathBuf, Option<Value>)> {
    let rounds: Vec<u64> = sources.iter().map(Source::ask).collect();
    let until = Instant::now() + patience;
    let answers = sources.iter().zip(rounds);
    answers
        .map(|(source, round)| {
            let answer = source.await_answer(round, until);
            (source.directory().to_path_buf(), answer)
        })
        .collect()
}
