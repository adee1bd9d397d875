//! The mounts that are asked, each by a thread of its own: a server that does
//! not answer holds up that thread, and nobody who asks for the others.

use crate::cli::stats;
use parking_lot::{Condvar, Mutex};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A directory that is asked.
pub struct Source {
    directory: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// A thread is asking.
    asking: bool,
    /// How many have been answered.
    rounds: u64,
    latest: Option<Value>,
    /// Whether the last one to ask was given numbers; said when it changes.
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

    /// Has the mount asked, unless that is under way. Answers what to await.
    pub fn ask(self: &Arc<Self>) -> u64 {
        let mut state = self.state.lock();
        let round = state.rounds + 1;
        if !state.asking {
            let own = Arc::clone(self);
            let thread = std::thread::Builder::new().spawn(move || own.answer());
            // Without a thread, whoever waits finds that nobody answered.
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

    /// The answer to what [`Source::ask`] asked, if it is there in time.
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
    /// Logs how it stands, if that is news.
    fn told(&mut self, up: bool, text: &str) {
        let before = self.told.replace(up);
        match (before, up) {
            (Some(true) | None, false) => tracing::warn!("{text}"),
            (Some(false), true) => tracing::warn!("{text} again"),
            _ => {}
        }
    }
}

/// Asks all, side by side, and waits for so long at most.
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
