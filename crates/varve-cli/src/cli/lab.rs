//! `varve lab`: the experiments of the laboratory.

use super::ageing::Age;
use super::output::{self, Failure, Outcome, Progress};
use clap::Subcommand;
use serde_json::json;
use std::path::PathBuf;
use varve_lab::experiment::{self, ALL, Context, Experiment, Shard};

/// Run the experiments of the laboratory, and age file systems.
#[derive(clap::Args)]
pub struct Lab {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand)]
enum LabCommand {
    List(List),
    Run(Run),
    Age(Box<Age>),
}

/// List the experiments.
#[derive(clap::Args)]
struct List {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Run an experiment.
///
/// Each point leaves a file in OUT/ID and is not run again while that is
/// there, so a run can be stopped, resumed and divided. When all points are
/// there, data.csv, verdict.json and picture.svg are written and the verdicts
/// printed. Exit code 1 if a claim was not reproduced.
#[derive(clap::Args)]
struct Run {
    /// Which, as `varve lab list` names them.
    #[arg(value_parser = named)]
    id: &'static Experiment,
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
    /// W1 to W4 have drawn workloads alone.
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Threads; as many as there are processors by default.
    #[arg(long)]
    jobs: Option<usize>,
    /// A tiny size, to see that it works, in OUT/ID-small; its verdicts mean
    /// nothing.
    #[arg(long)]
    small: bool,
    /// Seeds of each point; five by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,
    /// Segments of the simulated volumes (R3a, R3b, R3c, R4; 150 to 100000);
    /// results go to OUT/ID-N. By default R3a has 1000, R3b and R3c 10000,
    /// R4 1280.
    #[arg(long, value_name = "N")]
    segments: Option<u32>,
    /// The verdicts as JSON.
    #[arg(long)]
    json: bool,
}

fn named(id: &str) -> Result<&'static Experiment, String> {
    experiment::named(id).ok_or_else(|| "there is no such experiment; `varve lab list`".into())
}

impl Lab {
    pub fn run(self) -> Outcome {
        match self.command {
            LabCommand::List(command) => Ok(command.run()),
            LabCommand::Run(command) => command.run(),
            LabCommand::Age(command) => command.run(),
        }
    }
}

impl List {
    fn run(self) -> u8 {
        let about =
            |e: &Experiment| json!({"id": e.id, "about": e.about, "needs_traces": e.needs_traces});
        if self.json {
            output::json(&ALL.iter().map(about).collect());
            return 0;
        }
        for e in &ALL {
            let traces = if e.needs_traces { " (traces)" } else { "" };
            output::line(format_args!("{:<4} {}{traces}", e.id, e.about));
        }
        0
    }
}

impl Run {
    fn run(self) -> Outcome {
        let context = Context {
            seed: self.seed,
            traces: self.traces,
            small: self.small,
            seeds: self.seeds,
            segments: self.segments,
        };
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.unwrap_or_else(processors);
        let progress = Progress::count(self.id.id);
        let shown = |done: usize, all: usize| progress.at(done as u64, all as u64);
        let outcome = experiment::run(self.id, &context, self.shard, jobs, &self.out, &shown);
        progress.finish();
        let outcome = outcome.map_err(Failure::with(1))?;
        let traces = context.traces.is_some();
        if self.json {
            output::json(&json!({
                "experiment": self.id.id,
                "traces": traces,
                "directory": outcome.directory,
                "points_missing": outcome.missing,
                "verdicts": outcome.verdicts,
            }));
        } else {
            outcome.verdicts.iter().for_each(output::line);
            if self.id.needs_traces && !traces {
                output::line("without traces: on drawn workloads alone");
            }
            let directory = outcome.directory.display();
            match outcome.missing {
                0 => output::line(format_args!("results in {directory}")),
                missing => output::line(format_args!(
                    "{missing} points are left to other shards; what is done is in {directory}"
                )),
            }
        }
        let failed = outcome.verdicts.iter().filter(|v| !v.pass && !v.beside);
        match failed.count() {
            0 => Ok(0),
            failed => Err(Failure::new(
                1,
                format_args!("{}: not reproduced: {failed} of its claims", self.id.id),
            )),
        }
    }
}
