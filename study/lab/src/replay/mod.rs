//! A reader's own trace through cleaning policies and layouts, and which to
//! choose.
//!
//! The trace is read as a stream, a few passes of it, each the same; the first
//! half of them fills the volume and ages it, the other is measured. The volume
//! is as large as what lives at most fills it to the utilisation asked for. A
//! write buffer of two segments stands before every system: it is written when
//! it is full, when a block has waited for 30 s, and when the trace asks for
//! durability. Counted are blocks of data; inodes and directories are left out
//! for all systems alike. The device serves one request after the other without
//! a pause, so its time says what it is busy with and not what users wait for.
//! User reads go to the device, whatever a host may have cached.
//!
//! | module | what is in it |
//! |---|---|
//! | `devices` | a disk and an NVMe-like device that serve what a system does |
//! | `log` | the log under a cleaning policy |
//! | `in_place` | every block at its place |
//! | `virtual_log` | every block where the head is |
//! | `advice` | which to choose, in a sentence |

mod advice;
mod devices;
mod in_place;
mod log;
mod virtual_log;
mod waiting;

pub use advice::advice;
pub use devices::Spent;

use crate::jobs::on_threads;
use crate::policy::{self, Adaptive, Reordering, Simulated};
use crate::simulator::segment_blocks;
use crate::trace::{Source, Survey, TraceError};
use crate::workload::Op;
use serde::Serialize;
use std::sync::Mutex;
use varve_lfs::policy::TransferModel;

/// Block writes that are worth a replay; short traces take several passes.
const WORTH: u64 = 1_500_000;

/// What is wanted.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Names of cleaning policies ([`policies`]).
    pub policies: Vec<String>,
    /// What lives over what segments outside the reserve hold, each in `(0, 1)`.
    pub utilisations: Vec<f64>,
    /// Every write waits until it is durable.
    pub synchronous: bool,
    /// Threads.
    pub jobs: usize,
    /// Turns platters.
    pub seed: u64,
}

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub struct Findings {
    /// The trace's file.
    pub trace: String,
    /// How it was read.
    pub format: &'static str,
    /// One in so many of its regions or files was followed.
    pub one_in: u64,
    /// Blocks of 4 KiB that are written somewhere, of those that are followed.
    pub blocks: u32,
    /// Most of them that live at a time.
    pub live: u32,
    /// Block writes of a pass.
    pub writes: u64,
    /// Block reads of a pass.
    pub reads: u64,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// Passes, half of them measured.
    pub passes: u32,
    /// Every write waited until it was durable.
    pub synchronous: bool,
    /// System by system, for each utilisation.
    pub systems: Vec<Finding>,
}

impl Findings {
    /// Device time for each gigabyte that users wrote while it was measured.
    pub fn seconds_per_gigabyte(&self, ns: u64) -> f64 {
        let passes = u64::from(self.passes - self.passes / 2);
        let bytes = self.writes.max(1) * passes * 4096;
        ns as f64 / bytes as f64
    }
}

/// What a layout under a policy did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// How full the volume is.
    pub utilisation: f64,
    /// The layout.
    pub layout: Layout,
    /// The cleaning policy, of the log.
    pub policy: Option<String>,
    /// Blocks of data written for each block that users write to the device.
    pub amplification: f64,
    /// The same with summaries, or records of a map, as a block each.
    pub in_all: f64,
    /// Segments are cleaned when they are so full, in the mean.
    pub cleaned_at: Option<f64>,
    /// Time of a disk.
    pub disk: Spent,
    /// Time of an NVMe-like device, where it means anything.
    pub flash: Option<Spent>,
}

/// Where blocks go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// To the log.
    Log,
    /// To their place.
    InPlace,
    /// To where the head is.
    VirtualLog,
}

impl Layout {
    /// As people say it.
    pub fn text(self) -> &'static str {
        match self {
            Layout::Log => "log",
            Layout::InPlace => "update in place",
            Layout::VirtualLog => "virtual log",
        }
    }
}

/// Names of the policies that can be asked for.
pub fn policies() -> Vec<&'static str> {
    let mut names: Vec<_> = policy::all().iter().map(|policy| policy.name()).collect();
    names.push("wolf");
    names
}

/// A policy, and the reordering buffers before it.
pub(crate) fn policy(name: &str) -> Option<(Box<dyn Simulated>, Option<Reordering>)> {
    if name == "wolf" {
        let policy = Adaptive::new(TransferModel::ATLAS_10K, 2);
        return Some((Box::new(policy), Some(Reordering::new(2))));
    }
    let mut all = policy::all().into_iter();
    Some((all.find(|policy| policy.name() == name)?, None))
}

/// A layout at work.
trait System {
    /// Does what the trace says.
    fn run(&mut self, ops: &[Op]);

    /// Counts from here on.
    fn measure(&mut self);

    /// What it did since then.
    fn finding(&self) -> Finding;
}

/// What every system is made of.
#[derive(Debug, Clone, Copy)]
struct Volume<'a> {
    survey: &'a Survey,
    utilisation: f64,
    segment_blocks: u32,
    seed: u64,
}

/// Replays a trace.
///
/// # Errors
/// It cannot be read, a record is none, or it writes nothing.
///
/// # Panics
/// If a policy has no name of [`policies`], or a utilisation is not in `(0, 1)`.
pub fn replay(source: &Source, wanted: &Wanted) -> Result<Findings, TraceError> {
    replay_for(source, wanted, WORTH)
}

/// The same, until so many blocks were written.
pub(crate) fn replay_for(
    source: &Source,
    wanted: &Wanted,
    worth: u64,
) -> Result<Findings, TraceError> {
    let survey = Survey::of(source)?;
    let segment_blocks = segment_blocks(survey.live_max);
    let passes = (worth / survey.writes).clamp(2, 40) as u32;
    let kinds = kinds(wanted);
    let findings = Mutex::new(vec![None; kinds.len()]);
    let failure = Mutex::new(None);
    // Each thread reads the trace for itself, and gives it to its systems.
    let jobs = wanted.jobs.clamp(1, kinds.len());
    let shares: Vec<usize> = (0..jobs).collect();
    on_threads(jobs, &shares, |share| {
        let mine = || kinds.iter().enumerate().skip(*share).step_by(jobs);
        let mut systems: Vec<_> = mine()
            .map(|(_, kind)| {
                kind.system(Volume {
                    survey: &survey,
                    utilisation: kind.utilisation,
                    segment_blocks,
                    seed: wanted.seed,
                })
            })
            .collect();
        for pass in 0..passes {
            if pass == passes / 2 {
                systems.iter_mut().for_each(|system| system.measure());
            }
            let give = &mut |ops: &[Op]| systems.iter_mut().for_each(|system| system.run(ops));
            if let Err(error) = survey.pass(source, wanted.synchronous, give) {
                failure.lock().expect(UNHARMED).replace(error);
                return false;
            }
        }
        for ((at, _), system) in mine().zip(&systems) {
            findings.lock().expect(UNHARMED)[at] = Some(system.finding());
        }
        true
    });
    if let Some(error) = failure.into_inner().expect(UNHARMED) {
        return Err(error);
    }
    let systems = findings.into_inner().expect(UNHARMED);
    Ok(Findings {
        trace: source.name().to_owned(),
        format: source.format().name(),
        one_in: survey.sample.one_in(),
        blocks: survey.blocks,
        live: survey.live_max,
        writes: survey.writes,
        reads: survey.reads,
        segment_blocks,
        passes,
        synchronous: wanted.synchronous,
        systems: systems.into_iter().flatten().collect(),
    })
}

const UNHARMED: &str = "nobody panics with it";

/// A system to be made.
struct Kind {
    utilisation: f64,
    layout: Layout,
    policy: Option<String>,
}

fn kinds(wanted: &Wanted) -> Vec<Kind> {
    let mut kinds = Vec::new();
    for utilisation in &wanted.utilisations {
        let mut add = |layout, policy: Option<&String>| {
            kinds.push(Kind {
                utilisation: *utilisation,
                layout,
                policy: policy.cloned(),
            });
        };
        for policy in &wanted.policies {
            add(Layout::Log, Some(policy));
        }
        add(Layout::InPlace, None);
        add(Layout::VirtualLog, None);
    }
    kinds
}

impl Kind {
    fn system<'a>(&self, volume: Volume<'a>) -> Box<dyn System + 'a> {
        match (self.layout, &self.policy) {
            (Layout::Log, Some(name)) => {
                let (policy, reordering) = policy(name).expect("names come from the list");
                Box::new(log::Log::new(volume, policy, reordering))
            }
            (Layout::VirtualLog, _) => Box::new(virtual_log::VirtualLog::new(volume)),
            _ => Box::new(in_place::InPlace::new(volume)),
        }
    }
}

#[cfg(test)]
mod tests;
