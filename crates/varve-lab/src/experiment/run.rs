//! Running: each point leaves a file, so work can be divided and resumed.
//!
//! `OUT/ID/point-0007.json` holds the rows of a point and what they depend on;
//! those of the tiny size lie in `OUT/ID-small`, those of volumes of so many
//! segments in `OUT/ID-40000`, so that they spoil nothing.
//! A point whose file is there and fits is not run again. Whoever finds all
//! points writes `data.csv`, `verdict.json` and `picture.svg`, so shards need
//! nothing but a common directory, or their files put into one.

use super::{Context, Experiment, LabError, Point, Row, SEGMENTS};
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

    fn has(self, point: usize) -> bool {
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
    /// The traces take part where they are needed.
    traces: bool,
    /// Results of another version may differ.
    version: String,
    rows: Vec<Row>,
}

impl Stored {
    fn new(experiment: &Experiment, point: &Point, context: &Context, rows: Vec<Row>) -> Self {
        Stored {
            experiment: experiment.id.into(),
            point: point.label.clone(),
            seed: context.seed,
            small: context.small,
            seeds: context.seeds,
            segments: context.segments,
            traces: context.traces.is_some(),
            version: env!("CARGO_PKG_VERSION").into(),
            rows,
        }
    }

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
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    experiment: String,
    seed: u64,
    small: bool,
    seeds: Option<u32>,
    segments: Option<u32>,
    traces: bool,
    version: String,
    verdicts: Vec<Verdict>,
}

/// Runs the shard's points of an experiment that are not there yet, on `jobs`
/// threads, and reports if all are there. `progress` is told how many points
/// of how many are done.
///
/// # Errors
/// A point cannot be run, a file not be written, or the experiment has no such
/// number of segments.
pub fn run(
    experiment: &Experiment,
    context: &Context,
    shard: Shard,
    jobs: usize,
    out: &Path,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Outcome, LabError> {
    if let Some(segments) = context.segments {
        let asked = || LabError::Segments(experiment.id, segments);
        (experiment.is_sized() && SEGMENTS.contains(&segments))
            .then_some(())
            .ok_or_else(asked)?;
    }
    let directory = out.join(directory(experiment, context));
    std::fs::create_dir_all(&directory).map_err(|source| LabError::Io {
        path: directory.clone(),
        source,
    })?;
    let points = (experiment.points)(context);
    let path = |at: usize| directory.join(format!("point-{at:04}.json"));
    let known = |at: usize| {
        let like = Stored::new(experiment, &points[at], context, Vec::new());
        Stored::load(&path(at), &like)
    };
    let waiting: Vec<usize> = (0..points.len())
        .filter(|at| shard.has(*at) && known(*at).is_none())
        .collect();
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    progress(0, waiting.len());
    let work = || {
        while let Some(&at) = waiting.get(next.fetch_add(1, Relaxed)) {
            let rows = (points[at].run)(context);
            let written = rows.and_then(|rows| {
                let stored = Stored::new(experiment, &points[at], context, rows);
                write_json(&path(at), &stored)
            });
            if let Err(error) = written {
                // The others end with their present point.
                next.store(waiting.len(), Relaxed);
                *failure.lock().expect("nobody panics with it") = Some(error);
                return;
            }
            progress(done.fetch_add(1, Relaxed) + 1, waiting.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, waiting.len().max(1)) {
            scope.spawn(work);
        }
    });
    if let Some(error) = failure.into_inner().expect("nobody panics with it") {
        return Err(error);
    }
    let found = (0..points.len()).map(known).collect();
    report(experiment, context, directory.clone(), found)
}

/// Where results go, below the output directory.
fn directory(experiment: &Experiment, context: &Context) -> String {
    let mut name = experiment.id.to_owned();
    if let Some(segments) = context.segments {
        name += &format!("-{segments}");
    }
    if context.small {
        name += "-small";
    }
    name
}

fn report(
    experiment: &Experiment,
    context: &Context,
    directory: PathBuf,
    found: Vec<Option<Vec<Row>>>,
) -> Result<Outcome, LabError> {
    let missing = found.iter().filter(|rows| rows.is_none()).count();
    let mut verdicts = Vec::new();
    if missing == 0 {
        let rows: Vec<Row> = found.into_iter().flatten().flatten().collect();
        verdicts = (experiment.verdicts)(&rows);
        write_csv(&directory.join("data.csv"), &rows)?;
        let report = Report {
            experiment: experiment.id.into(),
            seed: context.seed,
            small: context.small,
            seeds: context.seeds,
            segments: context.segments,
            traces: context.traces.is_some(),
            version: env!("CARGO_PKG_VERSION").into(),
            verdicts: verdicts.clone(),
        };
        write_json(&directory.join("verdict.json"), &report)?;
        (experiment.picture)(&rows).draw(&directory.join("picture.svg"))?;
    }
    Ok(Outcome {
        directory,
        missing,
        verdicts,
    })
}
