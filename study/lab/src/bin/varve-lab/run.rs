//! `varve lab run`: one experiment, or all of them.

use serde_json::json;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;
use varve_console::output::{self, Failure, Outcome, Progress};
use varve_lab::experiments::{self, ALL, Context, Ended, Experiment, LabError, Shard, Wrong};

/// Run an experiment, or all of them.
///
/// Each point leaves a file in OUT/ID and is not run again while one of the same
/// version, seed and size is there, so a run can be stopped, resumed and
/// divided. When all points of an experiment are there, data.csv, picture.svg
/// and verdict.json are written. Of one experiment the verdicts are printed, and
/// the exit code is 1 if a claim was not reproduced. Of all there is a line
/// each, and the exit code is 1 only if one could not be run; `varve lab report`
/// makes a page of them.
#[derive(clap::Args)]
pub struct Run {
    /// Which, as `varve lab list` names them, or `all`.
    #[arg(value_name = "ID", value_parser = which)]
    which: Which,
    /// Run every n-th point only, beginning with the i-th.
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    shard: Shard,
    /// Where results go.
    #[arg(long, value_name = "DIR", default_value = "lab")]
    out: PathBuf,
    /// Decides everything that chance decides.
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Where the traces are, for experiments that replay some. Without them
    /// W1 to W4 have drawn workloads alone, and N1 is left out of `all`.
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Threads; as many as there are processors by default.
    #[arg(long)]
    jobs: Option<usize>,
    /// A tiny size, to see that it works, in OUT/ID-small; its verdicts mean
    /// nothing.
    #[arg(long, visible_alias = "small")]
    quick: bool,
    /// Seeds of each point; five by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,
    /// Segments of the simulated volumes (R3a, R3b, R3c, R4; 150 to 100000);
    /// results go to OUT/ID-N. By default R3a to R3c have 10000,
    /// R4 1280.
    #[arg(long, value_name = "N")]
    segments: Option<u32>,
    /// A wrong model in the place of the machine, to see verdicts fail: log-in-place,
    /// slow-processor, slow-drive or no-arm; results go to OUT/ID-NAME.
    #[arg(long, value_name = "NAME")]
    wrong: Option<Wrong>,
    /// The verdicts as JSON.
    #[arg(long)]
    json: bool,
}

/// What is run.
#[derive(Debug, Clone, Copy)]
enum Which {
    All,
    One(&'static Experiment),
}

fn which(id: &str) -> Result<Which, String> {
    if id.eq_ignore_ascii_case("all") {
        return Ok(Which::All);
    }
    match experiments::named(id) {
        Some(experiment) => Ok(Which::One(experiment)),
        None => Err("there is no such experiment; `varve lab list`".into()),
    }
}

impl Run {
    pub fn run(self) -> Outcome {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.unwrap_or_else(processors);
        let context = Context {
            seed: self.seed,
            traces: self.traces.clone(),
            small: self.quick,
            seeds: self.seeds,
            segments: self.segments,
            wrong: self.wrong,
        };
        match self.which {
            Which::One(experiment) => self.one(experiment, &context, jobs),
            Which::All if self.segments.is_some() => Err(Failure::new(
                2,
                "--segments is for R3a, R3b, R3c and R4, one at a time",
            )),
            Which::All => self.all(&context, jobs),
        }
    }

    fn one(self, experiment: &'static Experiment, context: &Context, jobs: usize) -> Outcome {
        let progress = Progress::count(experiment.id);
        let shown = |done: usize, all: usize| progress.at(done as u64, all as u64);
        let outcome = experiments::run(experiment, context, self.shard, jobs, &self.out, &shown);
        progress.finish();
        let outcome = outcome.map_err(Failure::with(1))?;
        let traces = context.traces.is_some();
        if self.json {
            output::json(&json!({
                "experiment": experiment.id,
                "traces": traces,
                "directory": outcome.directory,
                "points_missing": outcome.missing,
                "verdicts": outcome.verdicts,
            }));
        } else {
            outcome.verdicts.iter().for_each(output::lines);
            if experiment.needs_traces() && !traces {
                output::line("without traces: on drawn workloads alone");
            }
            if !context.decides() && outcome.missing == 0 {
                output::line(
                    "a quick run, a wrong model, or few seeds: it says nothing of the claim",
                );
            }
            let directory = outcome.directory.display();
            match outcome.missing {
                0 => output::line(format_args!("results in {directory}")),
                missing => output::line(format_args!(
                    "{missing} points are left to other shards; what is done is in {directory}"
                )),
            }
        }
        let failed = outcome.verdicts.iter().filter(|v| !v.pass && v.counts());
        match failed.count() {
            0 => Ok(0),
            failed => {
                let what = match context.decides() {
                    true => "not reproduced",
                    false => "do not hold in a run that decides nothing",
                };
                let told = format_args!("{}: {what}: {failed} of its claims", experiment.id);
                Err(Failure::new(1, told))
            }
        }
    }

    fn all(self, context: &Context, jobs: usize) -> Outcome {
        let all: Vec<&'static Experiment> = ALL.iter().collect();
        let bar = Progress::left("lab");
        let terminal = std::io::stderr().is_terminal();
        let shown = |now: &experiments::Progress| {
            bar.at(now.done as u64, now.points as u64);
            bar.say(&format!("{} left", minutes(now.left)));
            if let Some(id) = now.ended.filter(|_| !terminal) {
                let (done, points) = (now.done, now.points);
                let left = minutes(now.left);
                output::note(format_args!(
                    "{id} is done; {done} of {points} points, {left} left"
                ));
            }
        };
        let ended = experiments::run_all(&all, context, self.shard, jobs, &self.out, &shown);
        bar.finish();
        if self.json {
            output::json(&ended.iter().map(described).collect());
        } else {
            ended
                .iter()
                .for_each(|ended| output::lines(told(ended, context.decides())));
            let slowest = slowest(&ended);
            if !slowest.is_empty() {
                output::line(format_args!("the longest: {slowest}"));
            }
            let out = self.out.display();
            output::line(format_args!("`varve lab report {out}` makes a page of it"));
        }
        let skipped = |error: &LabError| matches!(error, LabError::NoTraces);
        let failed = |e: &&Ended| e.outcome.as_ref().err().is_some_and(|e| !skipped(e));
        match ended.iter().filter(failed).count() {
            0 => Ok(0),
            failed => Err(Failure::new(
                1,
                format_args!("{failed} experiments could not be run"),
            )),
        }
    }
}

fn minutes(time: Duration) -> String {
    match time.as_secs() {
        0..=89 => format!("{} s", time.as_secs()),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

/// Claims of an experiment that hold, and how many there are.
fn held(outcome: &experiments::Outcome) -> (usize, usize) {
    let claims = outcome.verdicts.iter().filter(|v| v.counts());
    (claims.clone().filter(|v| v.pass).count(), claims.count())
}

/// `decides`: whether the claim can be called reproduced or not.
fn told(ended: &Ended, decides: bool) -> String {
    let what = match &ended.outcome {
        Err(LabError::NoTraces) => "left out: it replays traces (--traces DIR)".into(),
        Err(error) => format!("not run: {error}"),
        Ok(outcome) if outcome.missing > 0 => {
            format!("{} points are left to other shards", outcome.missing)
        }
        Ok(outcome) => match held(outcome) {
            (_, 0) if outcome.verdicts.iter().any(|v| v.needs.is_some()) => {
                "underdetermined by the paper".into()
            }
            (_, 0) => "no part of the claim was measured".into(),
            (hold, all) if !decides => format!("{hold} of {all} parts hold, which says nothing"),
            (hold, all) if hold == all => format!("reproduced: {all} of {all}"),
            (hold, all) => format!("not reproduced: {} of {all}", all - hold),
        },
    };
    let run = match ended.run {
        0 => "nothing to run".into(),
        points => format!("{points} points, {} s", ended.spent.as_secs()),
    };
    format!("{:<4} {what} ({run})", ended.experiment.id)
}

fn described(ended: &Ended) -> serde_json::Value {
    let outcome = ended.outcome.as_ref();
    json!({
        "experiment": ended.experiment.id,
        "directory": outcome.map(|o| &o.directory).ok(),
        "points_run": ended.run,
        "points_missing": outcome.map(|o| o.missing).ok(),
        "seconds": ended.spent.as_secs_f64(),
        "error": outcome.err().map(ToString::to_string),
        "verdicts": outcome.map(|o| &o.verdicts[..]).unwrap_or_default(),
    })
}

/// The three that took longest, if they took a second.
fn slowest(ended: &[Ended]) -> String {
    let mut ended: Vec<&Ended> = ended.iter().filter(|e| e.spent.as_secs() > 0).collect();
    ended.sort_by_key(|e| std::cmp::Reverse(e.spent));
    let time = |e: &&Ended| format!("{} {} s", e.experiment.id, e.spent.as_secs());
    let times: Vec<String> = ended.iter().take(3).map(time).collect();
    times.join(", ")
}
