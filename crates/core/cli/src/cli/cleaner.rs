//! `varve cleaner`: settings of a mount's cleaner, and a cleaner in a process of its own.

use super::output::{self, Failure, Outcome};
use super::{cleaner_server, mount_table};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use varve::admin::PolicyKind;
use varve_lfs::cleaner::client::{Client, Marks, Outside, Refusal};
use varve_lfs::cleaner::wire::{Answer, Request};

const FAILED: u8 = 1;
/// Longest time between checks whether to end.
const SLICE: Duration = Duration::from_millis(20);

/// Clean a mounted volume in a process of its own, or change how its server cleans it.
///
/// Without --policy it changes the given settings of the server's own cleaner, and prints
/// its state. With --policy it cleans until it is interrupted. Any number of such
/// processes and the server's own cleaner work in parallel, and can be started and
/// stopped, or killed, at any time.
#[derive(clap::Args)]
pub struct Cleaner {
    /// The directory on which a volume is mounted.
    directory: PathBuf,
    /// Clean in this process, by this policy.
    #[arg(long, value_name = "POLICY", conflicts_with = "set")]
    policy: Option<PolicyKind>,
    /// End as soon as enough segments are clean, or none is worth cleaning.
    #[arg(long, requires = "policy")]
    once: bool,
    /// Change the server's own cleaner: on, off, or the policy it follows from now on.
    #[arg(long, value_name = "POLICY|on|off")]
    set: Option<String>,
    /// Begin when fewer than this percentage of all segments are clean; 0 for as few as
    /// writers need.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=90))]
    low: Option<u8>,
    /// Stop when this percentage of all segments are clean; 0 for a little more than the
    /// low mark.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=90))]
    high: Option<u8>,
    /// Also clean, up to the high mark, whenever the volume has had no requests for this
    /// many seconds; 0 for never.
    #[arg(long, value_name = "SECONDS")]
    idle: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Cleaner {
    pub fn run(self) -> Outcome {
        if !self.directory.is_dir() {
            let shown = self.directory.display();
            let text = format_args!(
                "{shown} is no directory; a volume is cleaned while it is mounted, by the \
                 directory it is mounted on"
            );
            return Err(Failure::new(FAILED, text));
        }
        if let (Some(low), Some(high)) = (self.low, self.high)
            && high != 0
            && low >= high
        {
            let text =
                format_args!("--low {low} is not below --high {high}: nothing would be done");
            return Err(Failure::new(2, text));
        }
        mount_table::varve_at(&self.directory).map_err(Failure::with(FAILED))?;
        match self.policy {
            Some(policy) => self.clean(policy),
            None => self.tell(),
        }
    }

    /// Changes the server's own cleaner, if asked to, and prints its state.
    fn tell(self) -> Outcome {
        let mut changes = Map::new();
        match self.set.as_deref() {
            Some(word @ ("on" | "off")) => {
                changes.insert("running".into(), (word == "on").into());
            }
            Some(policy) => {
                changes.insert("policy".into(), policy.into());
            }
            None => {}
        }
        let marks = [
            ("low", self.low.map(u32::from)),
            ("high", self.high.map(u32::from)),
            ("idle", self.idle),
        ];
        for (name, value) in marks {
            if let Some(value) = value {
                changes.insert(name.into(), value.into());
            }
        }
        let status = set(&self.directory, &changes)?;
        match self.json {
            true => output::json(&status),
            false => print(&status),
        }
        Ok(0)
    }

    /// Cleans until a signal ends it.
    fn clean(self, policy: PolicyKind) -> Outcome {
        let ending = Arc::new(AtomicBool::new(false));
        varve_fuse::signals::note_termination(&ending).map_err(Failure::with(FAILED))?;
        let percent = |mark: Option<u8>| mark.filter(|percent| *percent > 0);
        let idle = self.idle.filter(|seconds| *seconds > 0);
        let marks = Marks {
            low_percent: percent(self.low),
            high_percent: percent(self.high),
            idle_ns: idle.map(|seconds| u64::from(seconds) * 1_000_000_000),
        };
        let outside = Mounted {
            directory: self.directory.clone(),
            begun: Instant::now(),
            ending,
        };
        let mut client = Client::new(outside, policy, marks);
        let ended = client.run(self.once);
        let done = client.done();
        let report = json!({
            "segments": done.segments,
            "blocks": done.blocks,
            "left": done.left,
            "damaged": done.damaged,
        });
        match self.json {
            true => output::json(&report),
            false => output::line(format_args!(
                "{} segments cleaned, {} blocks moved; {} segments left to others, {} because \
                 of damage",
                done.segments, done.blocks, done.left, done.damaged
            )),
        }
        let shown = self.directory.display();
        ended.map_err(|why| Failure::new(FAILED, format_args!("cannot clean {shown}: {why}")))?;
        Ok(0)
    }
}

/// The interface of a cleaner in a process of its own: a mounted directory.
#[derive(Debug)]
struct Mounted {
    directory: PathBuf,
    begun: Instant,
    ending: Arc<AtomicBool>,
}

impl Outside for Mounted {
    fn call(&mut self, id: u64, request: Request) -> Result<(u64, Answer), Refusal> {
        let message = request.encode(id);
        let answer = varve_fuse::exchange(&self.directory, &message)
            .map_err(|error| cleaner_server::refusal(&error))?;
        Answer::parse(&answer[..]).map_err(|error| Refusal::Failed(error.to_string()))
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    fn sleep(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while !self.ending.load(Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(SLICE));
        }
        false
    }
}

/// Changes the given settings of the cleaner of the mount at `directory`, and returns its
/// state.
///
/// # Errors
/// The reason of the server's refusal.
pub fn set(directory: &Path, changes: &Map<String, Value>) -> Result<Value, Failure> {
    let shown = directory.display();
    let question = json!({"cleaner": changes}).to_string();
    let answer = varve_fuse::ask(directory, &question).map_err(|error| {
        let why = cleaner_server::refusal(&error);
        Failure::new(FAILED, format_args!("cannot ask {shown}: {why}"))
    })?;
    let answer: Value = serde_json::from_str(&answer).map_err(Failure::with(FAILED))?;
    match answer["refused"].as_str() {
        Some(why) => Err(Failure::new(FAILED, format_args!("{shown}: {why}"))),
        None => Ok(answer),
    }
}

fn print(status: &Value) {
    let mount = &status["mount"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let running = if mount["running"] == true {
        "on"
    } else {
        "off"
    };
    let idle = match mount["idle_seconds"].as_u64() {
        Some(seconds) => format!(", also after {seconds} s without requests"),
        None => String::new(),
    };
    output::line(format_args!(
        "the mount's own cleaner: {running}, {}{idle}",
        text(&mount["policy"])
    ));
    output::line(format_args!(
        "clean segments: {}; cleaning begins below {} and ends at {}; writers wait below {}",
        number(&status["clean"]),
        number(&status["low"]),
        number(&status["high"]),
        number(&status["floor"])
    ));
    for other in status["cleaners"].as_array().into_iter().flatten() {
        output::line(format_args!(
            "cleaner of process {}: {}, {} segments cleaned, {} claimed, last seen {} ms ago",
            number(&other["pid"]),
            text(&other["policy"]),
            number(&other["cleaned"]),
            number(&other["claims"]),
            number(&other["silent_ms"])
        ));
    }
}
