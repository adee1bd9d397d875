//! Every experiment at its tiny size, run once for all tests that look at it.

use super::{context, quiet};
use crate::experiments::run::Job;
use crate::experiments::{ALL, Experiment, Row, run};
use crate::report::Verdict;
use std::fmt::Write;
use std::sync::OnceLock;

/// What a run leaves.
pub(in crate::experiments) struct Tiny {
    /// Of all points, in their order.
    pub rows: Vec<Row>,
    /// What follows.
    pub verdicts: Vec<Verdict>,
    /// `data.csv` and `picture.json`.
    pub files: [String; 2],
}

/// The first run of an experiment in this process.
pub(in crate::experiments) fn tiny(id: &str) -> &'static Tiny {
    static RUNS: [OnceLock<Tiny>; ALL.len()] = [const { OnceLock::new() }; ALL.len()];
    let at = ALL.iter().position(|experiment| experiment.id == id);
    let at = at.expect("an experiment");
    RUNS[at].get_or_init(|| Tiny::run(&ALL[at], &["1/1"]))
}

/// A trace, in the form of `traces/`: so many writes to a thousand blocks.
pub(in crate::experiments) fn recorded(writes: u32) -> String {
    let (mut text, mut x) = (String::new(), 1u64);
    for at in 0..writes {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let _ = writeln!(text, "{at} 0 {} 8 0", (x >> 33) % 1000 * 8);
    }
    text
}

impl Tiny {
    /// Runs it in a directory of its own, a shard after the other. Only what does
    /// nothing else replays a trace.
    pub fn run(experiment: &'static Experiment, shards: &[&str]) -> Self {
        let (out, traces) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(traces.path().join("tpcc-small.ascii"), recorded(1000)).unwrap();
        let context = context(experiment.only_replays().then_some(traces.path()));
        let outcomes = shards.iter().map(|shard| {
            let shard = shard.parse().unwrap();
            run(experiment, &context, shard, 2, out.path(), &quiet).unwrap()
        });
        let outcome = outcomes.collect::<Vec<_>>().pop().unwrap();
        assert_eq!(outcome.missing, 0, "{}", experiment.id);
        let job = Job::new(experiment, &context, out.path()).unwrap();
        let rows = (0..job.len()).flat_map(|at| job.known(at).unwrap());
        let read = |file| std::fs::read_to_string(outcome.directory.join(file)).unwrap();
        Tiny {
            rows: rows.collect(),
            verdicts: outcome.verdicts,
            files: ["data.csv", "picture.json"].map(read),
        }
    }

    /// What is the same whenever it is run: all but R5's time on the host.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        let lines = self.files.iter().flat_map(|file| file.lines());
        lines.filter(|line| !line.contains(",host_s,"))
    }
}
