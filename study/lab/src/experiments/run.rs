//! Running: each point leaves a file, so work can be divided and resumed.
//!
//! `OUT/ID/point-0007.json` holds the rows of a point and what they depend on;
//! those of the tiny size lie in `OUT/ID-small`, those of volumes of so many
//! segments in `OUT/ID-40000`, so that they spoil nothing.
//! A point whose file is there and fits is not run again. Whoever finds all
//! points writes `data.csv`, `picture.svg`, `picture.json` and `verdict.json`, so
//! shards need nothing but a common directory, or their files put into one.

use super::{Context, Experiment, LabError, Point, Row, SEEDS, SEGMENTS};
use crate::jobs::on_threads;
use crate::report::{Verdict, write_csv, write_json};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The share of the points that are run here: every `of`-th.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    of: usize,
}

impl Shard {
    /// All of them.
    pub const WHOLE: Shard = Shard { index: 0, of: 1 };

    /// Whether a point is among them.
    pub(super) fn has(self, point: usize) -> bool {
        point % self.of == self.index
    }
}

/// From `i/n`, counted from 1.
impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        let numbers = parts.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((index, of)) if (1..=of).contains(&index) => Ok(Shard {
                index: index - 1,
                of,
            }),
            _ => Err("it is i/n, with i from 1 to n".into()),
        }
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Where the files are.
    pub directory: PathBuf,
    /// Points that are still to be run, by other shards.
    pub missing: usize,
    /// What follows, if none is missing.
    pub verdicts: Vec<Verdict>,
}

/// A point's file.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Stored {
    experiment: String,
    point: String,
    seed: u64,
    small: bool,
    /// What was asked for instead of the usual seeds and segments.
    seeds: Option<u32>,
    segments: Option<u32>,
    /// The wrong model, if it was run on one.
    #[serde(default)]
    wrong: Option<String>,
    /// Traces take part.
    traces: bool,
    /// Which ([`crate::trace::present`]).
    #[serde(default)]
    replayed: String,
    /// Results of another version may differ.
    version: String,
    rows: Vec<Row>,
}

impl Stored {
    /// The rows at `path`, if they are of the same point.
    fn load(path: &Path, like: &Stored) -> Option<Vec<Row>> {
        let stored: Stored = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        let rows = stored.rows.clone();
        let same = Stored {
            rows: Vec::new(),
            ..stored
        } == *like;
        same.then_some(rows)
    }
}

/// `verdict.json`: what was found, and of what.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The experiment's id.
    pub experiment: String,
    /// What it was run with ([`Context`]).
    pub seed: u64,
    /// The tiny size.
    pub small: bool,
    /// Seeds of a point, if not the usual number.
    pub seeds: Option<u32>,
    /// Segments of a volume, if not the usual number.
    pub segments: Option<u32>,
    /// Whether traces took part.
    pub traces: bool,
    /// Of the program that ran it.
    pub version: String,
    /// What was found.
    pub verdicts: Vec<Verdict>,
}

impl Report {
    /// Whether it says something of the claim ([`Context::decides`]).
    pub fn decides(&self) -> bool {
        decides(self.small, self.seeds)
    }
}

/// Of the tiny size, or of fewer seeds than usual, nothing follows.
pub(super) fn decides(small: bool, seeds: Option<u32>) -> bool {
    !small && seeds.is_none_or(|seeds| seeds >= SEEDS)
}

/// An experiment's points, and where their files lie.
pub(super) struct Job<'a> {
    pub experiment: &'static Experiment,
    context: &'a Context,
    directory: PathBuf,
    points: Vec<Point>,
    /// Which traces take part, if any do.
    traces: Option<String>,
}

impl<'a> Job<'a> {
    /// Makes the directory.
    ///
    /// # Errors
    /// It cannot be made, or the experiment has no such number of segments.
    pub fn new(
        experiment: &'static Experiment,
        context: &'a Context,
        out: &Path,
    ) -> Result<Self, LabError> {
        if let Some(segments) = context.segments {
            let asked = || LabError::Segments(experiment.id, segments);
            (experiment.is_sized && SEGMENTS.contains(&segments))
                .then_some(())
                .ok_or_else(asked)?;
        }
        if context.wrong.is_some() && !experiment.has_machine {
            return Err(LabError::Wrong(experiment.id));
        }
        let directory = out.join(directory(experiment, context));
        std::fs::create_dir_all(&directory).map_err(|source| LabError::Io {
            path: directory.clone(),
            source,
        })?;
        let traces = context
            .traces
            .as_ref()
            .filter(|_| experiment.needs_traces());
        Ok(Job {
            experiment,
            context,
            directory,
            points: (experiment.points)(context),
            traces: traces.map(|traces| crate::trace::present(traces)),
        })
    }

    /// How many points it has.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    fn path(&self, at: usize) -> PathBuf {
        self.directory.join(format!("point-{at:04}.json"))
    }

    /// The rows of a point that was run before.
    pub fn known(&self, at: usize) -> Option<Vec<Row>> {
        Stored::load(&self.path(at), &self.stored(at, Vec::new()))
    }

    fn stored(&self, at: usize, rows: Vec<Row>) -> Stored {
        Stored {
            experiment: self.experiment.id.into(),
            point: self.points[at].label.clone(),
            seed: self.context.seed,
            small: self.context.small,
            seeds: self.context.seeds,
            segments: self.context.segments,
            wrong: self.context.wrong.map(|wrong| wrong.name().into()),
            traces: self.traces.is_some(),
            replayed: self.traces.clone().unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION").into(),
            rows,
        }
    }

    /// Runs a point and keeps its rows.
    ///
    /// # Errors
    /// It cannot be run, or its file not be written. A panic of what is studied
    /// is such an error: other experiments need not end with this one.
    pub fn run(&self, at: usize) -> Result<(), LabError> {
        let point = &self.points[at];
        let run = std::panic::AssertUnwindSafe(|| (point.run)(self.context));
        let rows = std::panic::catch_unwind(run)
            .unwrap_or_else(|_| Err(LabError::Panic(self.experiment.id, point.label.clone())))?;
        write_json(&self.path(at), &self.stored(at, rows))
    }

    /// Reports, if every point is there.
    ///
    /// # Errors
    /// A file cannot be written, or the picture not be drawn. A panic of what
    /// follows from the points is such an error, too.
    pub fn finish(&self) -> Result<Outcome, LabError> {
        let report = std::panic::AssertUnwindSafe(|| self.report());
        std::panic::catch_unwind(report).unwrap_or_else(|_| {
            let what = "what follows from its points".into();
            Err(LabError::Panic(self.experiment.id, what))
        })
    }

    fn report(&self) -> Result<Outcome, LabError> {
        let found: Vec<_> = (0..self.len()).map(|at| self.known(at)).collect();
        let missing = found.iter().filter(|rows| rows.is_none()).count();
        let directory = self.directory.clone();
        let mut verdicts = Vec::new();
        if missing == 0 {
            let rows: Vec<Row> = found.into_iter().flatten().flatten().collect();
            verdicts = (self.experiment.verdicts)(&rows);
            write_csv(&directory.join("data.csv"), &rows)?;
            let picture = (self.experiment.picture)(&rows);
            picture.draw(&directory.join("picture.svg"))?;
            write_json(&directory.join("picture.json"), &picture.finite())?;
            let report = Report {
                experiment: self.experiment.id.into(),
                seed: self.context.seed,
                small: self.context.small,
                seeds: self.context.seeds,
                segments: self.context.segments,
                traces: self.traces.is_some(),
                version: env!("CARGO_PKG_VERSION").into(),
                verdicts: verdicts.clone(),
            };
            // Last: where it is, everything is.
            write_json(&directory.join("verdict.json"), &report)?;
        }
        Ok(Outcome {
            directory,
            missing,
            verdicts,
        })
    }
}

/// Runs the shard's points of an experiment that are not there yet, on `jobs`
/// threads, and reports if all are there. `progress` is told how many points
/// of how many are done.
///
/// # Errors
/// A point cannot be run, a file not be written, or the experiment has no such
/// number of segments.
pub fn run(
    experiment: &'static Experiment,
    context: &Context,
    shard: Shard,
    jobs: usize,
    out: &Path,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Outcome, LabError> {
    let job = Job::new(experiment, context, out)?;
    let waiting: Vec<usize> = (0..job.len())
        .filter(|at| shard.has(*at) && job.known(*at).is_none())
        .collect();
    let done = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    progress(0, waiting.len());
    on_threads(jobs, &waiting, |at| match job.run(*at) {
        Ok(()) => {
            progress(done.fetch_add(1, Relaxed) + 1, waiting.len());
            true
        }
        Err(error) => {
            failure
                .lock()
                .expect("nobody panics with it")
                .replace(error);
            false
        }
    });
    match failure.into_inner().expect("nobody panics with it") {
        Some(error) => Err(error),
        None => job.finish(),
    }
}

/// Where results go, below the output directory.
fn directory(experiment: &Experiment, context: &Context) -> String {
    let mut name = experiment.id.to_owned();
    if let Some(segments) = context.segments {
        name += &format!("-{segments}");
    }
    if let Some(wrong) = context.wrong {
        name += &format!("-{}", wrong.name());
    }
    if context.small {
        name += "-small";
    }
    name
}
