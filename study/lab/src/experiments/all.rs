//! The whole laboratory: the points of every experiment that are not there yet,
//! on as many threads as one wants.
//!
//! Points are numbered through, experiment by experiment, so shards divide them
//! the same way on every machine. Those that take long are begun first: no
//! thread waits at the end for one that has only begun. An experiment reports as
//! soon as its last point is there, and one that fails stops nobody else.

use super::run::Job;
use super::{Context, Experiment, LabError, Outcome, Shard};
use crate::jobs::on_threads;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How far the whole is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Points that were run now.
    pub done: usize,
    /// Points that were missing when it began.
    pub points: usize,
    /// How long the rest takes, if it goes on as it did.
    pub left: Duration,
    /// The experiment whose last point has just ended.
    pub ended: Option<&'static str>,
}

/// What came of an experiment.
#[derive(Debug)]
pub struct Ended {
    /// Which.
    pub experiment: &'static Experiment,
    /// Points that were run now.
    pub run: usize,
    /// What they took, one after the other.
    pub spent: Duration,
    /// What was found, or why nothing was.
    pub outcome: Result<Outcome, LabError>,
}

/// One point that waits.
struct Task {
    experiment: usize,
    point: usize,
    /// What it is expected to take.
    seconds: f64,
}

/// What is known of an experiment while it runs.
#[derive(Default)]
struct State {
    /// Points of this shard that are not there yet.
    waiting: usize,
    run: usize,
    spent: Duration,
    error: Option<LabError>,
    /// What was reported when the last point had ended.
    outcome: Option<Result<Outcome, LabError>>,
}

/// Runs the shard's points of these experiments that are not there yet, on
/// `jobs` threads; every experiment that has all its points then reports.
/// `progress` is told after every point.
pub fn run_all(
    experiments: &[&'static Experiment],
    context: &Context,
    shard: Shard,
    jobs: usize,
    out: &Path,
    progress: &(dyn Fn(&Progress) + Sync),
) -> Vec<Ended> {
    let made: Vec<_> = experiments
        .iter()
        .map(|experiment| Job::new(experiment, context, out))
        .collect();
    let tasks = tasks(&made, shard, context.small);
    let states: Vec<Mutex<State>> = (0..made.len())
        .map(|at| {
            let waiting = tasks.iter().filter(|task| task.experiment == at).count();
            Mutex::new(State {
                waiting,
                ..State::default()
            })
        })
        .collect();
    let clock = Mutex::new(Clock::new(jobs, &tasks));
    let tell = |task: Option<&Task>, ended| {
        let now = clock.lock().expect(UNHARMED).tick(task, ended);
        progress(&now);
    };
    tell(None, None);
    on_threads(jobs, &tasks, |task| {
        let Ok(job) = &made[task.experiment] else {
            return true;
        };
        let state = &states[task.experiment];
        // One that failed would fail again.
        let sound = state.lock().expect(UNHARMED).error.is_none();
        let begun = Instant::now();
        let result = sound.then(|| job.run(task.point));
        let ended = state.lock().expect(UNHARMED).note(result, begun.elapsed());
        if ended {
            let outcome = job.finish();
            state.lock().expect(UNHARMED).outcome = Some(outcome);
        }
        tell(Some(task), ended.then_some(job.experiment.id));
        true
    });
    let ended = experiments.iter().zip(made).zip(states);
    ended
        .map(|((experiment, job), state)| {
            let state = state.into_inner().expect(UNHARMED);
            let outcome = match (state.error, state.outcome) {
                (Some(error), _) => Err(error),
                (None, Some(outcome)) => outcome,
                (None, None) => job.and_then(|job| job.finish()),
            };
            Ended {
                experiment,
                run: state.run,
                spent: state.spent,
                outcome,
            }
        })
        .collect()
}

const UNHARMED: &str = "nobody panics with it";

/// The shard's points that are not there, the longest first.
fn tasks(made: &[Result<Job<'_>, LabError>], shard: Shard, small: bool) -> Vec<Task> {
    let mut tasks = Vec::new();
    let mut number = 0;
    for (experiment, job) in made.iter().enumerate() {
        let Ok(job) = job else { continue };
        let seconds = match small {
            true => 1.0,
            false => job.experiment.seconds / job.len().max(1) as f64,
        };
        for point in 0..job.len() {
            if shard.has(number) && job.known(point).is_none() {
                tasks.push(Task {
                    experiment,
                    point,
                    seconds,
                });
            }
            number += 1;
        }
    }
    // Stable: equal ones stay in the order of the list.
    tasks.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    tasks
}

impl State {
    /// A point has ended, or was left out. Whether it was the last of those that
    /// could be run.
    fn note(&mut self, result: Option<Result<(), LabError>>, spent: Duration) -> bool {
        self.waiting -= 1;
        match result {
            Some(Ok(())) => self.run += 1,
            Some(Err(error)) => self.error = Some(error),
            None => {}
        }
        self.spent += spent;
        self.waiting == 0 && self.error.is_none()
    }
}

/// Guesses the time left: what was expected of the rest, corrected by how the
/// expectation fared. The first half minute counts as if it had been met.
struct Clock {
    begun: Instant,
    jobs: f64,
    points: usize,
    done: usize,
    done_s: f64,
    left_s: f64,
}

impl Clock {
    const TRUST_S: f64 = 30.0;

    fn new(jobs: usize, tasks: &[Task]) -> Self {
        Clock {
            begun: Instant::now(),
            jobs: jobs.max(1) as f64,
            points: tasks.len(),
            done: 0,
            done_s: 0.0,
            left_s: tasks.iter().map(|task| task.seconds).sum(),
        }
    }

    fn tick(&mut self, task: Option<&Task>, ended: Option<&'static str>) -> Progress {
        if let Some(task) = task {
            self.done += 1;
            self.done_s += task.seconds;
            self.left_s -= task.seconds;
        }
        Progress {
            done: self.done,
            points: self.points,
            left: self.left(self.begun.elapsed()),
            ended,
        }
    }

    fn left(&self, elapsed: Duration) -> Duration {
        let pace =
            (elapsed.as_secs_f64() + Self::TRUST_S / self.jobs) / (self.done_s + Self::TRUST_S);
        Duration::from_secs_f64((self.left_s.max(0.0) * pace).min(1e9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_what_was_measured() {
        let task = |seconds| Task {
            experiment: 0,
            point: 0,
            seconds,
        };
        let tasks = [task(300.0), task(300.0)];
        let mut clock = Clock::new(2, &tasks);
        assert_eq!(clock.left(Duration::ZERO).as_secs(), 300, "two at a time");
        clock.tick(Some(&tasks[0]), None);
        // Three times as fast as expected, but for the first half minute.
        let left = clock.left(Duration::from_secs(50)).as_secs();
        assert_eq!(left, 59);
        clock.tick(Some(&tasks[1]), None);
        assert_eq!(clock.left(Duration::from_secs(100)), Duration::ZERO);
    }
}
