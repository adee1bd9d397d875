//! The thread that verifies an open volume: the tree after a roll-forward, and everything
//! on demand.
//!
//! One verification runs at a time. A scrub that is requested during the verification of
//! the tree replaces it, because a scrub includes the tree. The findings are kept until
//! the next verification begins.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;
use varve_fs::FileSystem;
use varve_fsck::verify::{Control, Progress, Verification, VerifyOptions, verify};
use varve_lfs::Lfs;

/// Rate of the verification after a roll-forward, in bytes per second.
const TREE_RATE: u64 = 64 << 20;
/// Delay after mounting, so that the first operations are not slowed.
const REST: Duration = Duration::from_millis(200);

/// Options of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubOptions {
    /// Highest rate in bytes per second; 0 is no limit. Default: 0.
    pub rate: u64,
    /// If set, damaged data makes the volume read-only, as damaged metadata always does.
    /// Default: off.
    pub strict: bool,
}

/// Scope of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// The tree, after a roll-forward.
    Tree,
    /// All metadata and data.
    Scrub(ScrubOptions),
}

/// State of a verification.
#[derive(Clone, Debug)]
pub struct JobStatus {
    /// Number of the verification, counted from 1.
    pub number: u64,
    /// Progress so far.
    pub progress: Progress,
    /// Findings of the verification; `None` while it runs.
    pub report: Option<Arc<Verification>>,
}

#[derive(Default)]
struct State {
    wanted: Option<(u64, Job)>,
    running: Option<(u64, Job, Arc<Control>)>,
    tree: Option<JobStatus>,
    scrub: Option<JobStatus>,
    begun: u64,
    closing: bool,
}

/// Starts verifications and reports their state.
#[derive(Default)]
pub struct Verifier {
    state: Mutex<State>,
    changed: Condvar,
}

impl Verifier {
    /// Starts a scrub and returns its number. `None` if a scrub is running, or the volume
    /// is being closed.
    pub fn start_scrub(&self, options: ScrubOptions) -> Option<u64> {
        self.start(Job::Scrub(options))
    }

    pub(crate) fn start_tree(&self) {
        let _ = self.start(Job::Tree);
    }

    fn start(&self, job: Job) -> Option<u64> {
        let mut state = self.state.lock();
        let scrubs = |job: &Job| matches!(job, Job::Scrub(_));
        let waits = state.wanted.as_ref().is_some_and(|(_, job)| scrubs(job));
        let runs = state
            .running
            .as_ref()
            .is_some_and(|(_, job, _)| scrubs(job));
        if state.closing || waits || runs {
            return None;
        }
        state.begun += 1;
        let number = state.begun;
        state.wanted = Some((number, job));
        if let Some((_, _, control)) = &state.running {
            control.stop();
        }
        self.changed.notify_all();
        Some(number)
    }

    /// Cancels the scrub that is running or waiting to run.
    pub fn cancel_scrub(&self) {
        let mut state = self.state.lock();
        if let Some((_, Job::Scrub(_), control)) = &state.running {
            control.stop();
        }
        if let Some((number, Job::Scrub(_))) = state.wanted {
            state.wanted = None;
            state.scrub = Some(JobStatus {
                number,
                progress: Progress::default(),
                report: Some(Arc::default()),
            });
        }
    }

    /// Returns the state of the waiting, running or last scrub.
    pub fn scrub(&self) -> Option<JobStatus> {
        let state = self.state.lock();
        Self::status(&state, |job| matches!(job, Job::Scrub(_)), &state.scrub)
    }

    /// Returns the state of the verification after roll-forward, if there was one.
    pub fn tree(&self) -> Option<JobStatus> {
        let state = self.state.lock();
        Self::status(&state, |job| *job == Job::Tree, &state.tree)
    }

    fn status(
        state: &State,
        of: impl Fn(&Job) -> bool,
        last: &Option<JobStatus>,
    ) -> Option<JobStatus> {
        let standing = |number, progress| JobStatus {
            number,
            progress,
            report: None,
        };
        if let Some((number, job, control)) = &state.running
            && of(job)
        {
            return Some(standing(*number, control.progress()));
        }
        match &state.wanted {
            Some((number, job)) if of(job) => Some(standing(*number, Progress::default())),
            _ => last.clone(),
        }
    }

    /// Stops the running verification and the thread.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closing = true;
        state.wanted = None;
        if let Some((_, _, control)) = &state.running {
            control.stop();
        }
        self.changed.notify_all();
    }

    /// Body of the thread.
    pub(crate) fn serve(&self, fs: &FileSystem<Lfs>) {
        while let Some((number, job, control)) = self.next() {
            let options = match job {
                Job::Tree => VerifyOptions::default(),
                Job::Scrub(options) => VerifyOptions {
                    data: true,
                    strict: options.strict,
                },
            };
            let report = verify(fs.layout(), &control, &options);
            if let Some(reason) = fs.layout().stopped() {
                fs.refuse_changes(&reason);
            }
            let mut state = self.state.lock();
            state.running = None;
            let status = JobStatus {
                number,
                progress: control.progress(),
                report: Some(Arc::new(report.unwrap_or_default())),
            };
            match job {
                Job::Tree => state.tree = Some(status),
                Job::Scrub(_) => state.scrub = Some(status),
            }
        }
    }

    /// Waits for the next verification; `None` when the volume is being closed.
    fn next(&self) -> Option<(u64, Job, Arc<Control>)> {
        let mut state = self.state.lock();
        loop {
            if state.closing {
                return None;
            }
            if let Some((_, Job::Tree)) = state.wanted {
                self.changed.wait_for(&mut state, REST);
                if state.closing {
                    return None;
                }
            }
            if let Some((number, job)) = state.wanted.take() {
                let control = Arc::new(Control::new(match job {
                    Job::Tree => TREE_RATE,
                    Job::Scrub(options) => options.rate,
                }));
                state.running = Some((number, job, Arc::clone(&control)));
                return Some((number, job, control));
            }
            self.changed.wait(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_scrub_at_a_time_and_none_while_closing() {
        let verifier = Verifier::default();
        verifier.start_tree();
        let first = verifier.start_scrub(ScrubOptions::default());
        assert_eq!(first, Some(2));
        assert_eq!(verifier.start_scrub(ScrubOptions::default()), None);
        assert!(verifier.scrub().is_some_and(|scrub| scrub.report.is_none()));
        verifier.cancel_scrub();
        assert!(verifier.scrub().is_some_and(|scrub| scrub.report.is_some()));
        assert_eq!(verifier.start_scrub(ScrubOptions::default()), Some(3));
        verifier.close();
        assert_eq!(verifier.start_scrub(ScrubOptions::default()), None);
        assert!(verifier.next().is_none());
    }
}
