//! Experiments: one file each. An experiment is a list of points that can be
//! run apart, and what follows from all their rows: verdicts and a picture.

mod a1;
mod a2;
mod a3;
mod a4;
mod all;
mod allocation;
mod b1;
mod b2;
mod b3;
mod b4;
mod b5;
mod b6;
mod b7;
mod b8;
mod bank;
mod database;
mod embedded;
mod l1;
mod l2;
mod l3;
mod l4;
mod m1;
mod m2;
mod m3;
mod m4;
mod m5;
mod m6;
mod m7;
mod mounted;
mod n1;
mod n2;
mod n3;
mod n4;
mod n5;
mod n6;
mod r1;
mod r3;
mod r3b;
mod r4;
mod r5;
mod r6;
mod rivals;
mod run;
mod study;
mod transactions;
mod updates;
mod v10;
mod v3;
mod v4;
mod v5;
mod v6;
mod v7;
mod v8;
mod v9;
mod vlog;
mod w5;
mod w6;
mod wolf;
mod wrong;
mod x1;
mod x2;
mod x3;
mod x4;

pub use all::{Ended, Progress, run_all};
pub use run::{Outcome, Report, Shard, run};
pub use study::Study;
#[cfg(test)]
pub(crate) use study::replay;
pub use wrong::Wrong;

pub use crate::error::{LabError, SEGMENTS};
use crate::platform::Platform;
use crate::report::{Picture, Verdict};
pub use crate::row::Row;
use std::path::PathBuf;

/// Seeds of a stochastic point, if nothing else is asked for.
const SEEDS: u32 = 5;

/// What an experiment may depend on.
#[derive(Debug, Clone)]
pub struct Context {
    /// Decides everything that chance decides.
    pub seed: u64,
    /// Where the traces lie.
    pub traces: Option<PathBuf>,
    /// Tiny volumes and few seeds, to see that it works; verdicts mean nothing.
    pub small: bool,
    /// Seeds of a stochastic point, if not the usual five.
    pub seeds: Option<u32>,
    /// Segments of the volumes that are simulated, if not the usual number.
    /// Only some experiments have such a number ([`Experiment::is_sized`]).
    pub segments: Option<u32>,
    /// A wrong model in the place of the machine; verdicts then say nothing of a claim.
    pub wrong: Option<Wrong>,
}

impl Context {
    /// Of the tiny size, with one seed.
    #[cfg(test)]
    pub(crate) fn tiny() -> Self {
        Context {
            seed: 1,
            traces: None,
            small: true,
            seeds: None,
            segments: None,
            wrong: None,
        }
    }

    /// The traces by name; of the tiny size, the smallest.
    fn trace_names(&self) -> Vec<&'static str> {
        let names: Vec<&'static str> = crate::trace::names().collect();
        self.size(&names[..], &names[6..]).to_vec()
    }

    /// Seeds of a stochastic point: five, or one of the tiny size, or as many
    /// as are wanted.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let seed = self.seed;
        let count = self.seeds.unwrap_or(self.size(SEEDS, 1));
        (0..u64::from(count)).map(move |i| seed.wrapping_add(i))
    }

    /// The platform as it is, or as the wrong model has it.
    fn platform(&self, platform: Platform) -> Platform {
        match self.wrong {
            Some(wrong) => wrong.platform(platform),
            None => platform,
        }
    }

    /// Whether verdicts say something of the claim: not those of the tiny size, or
    /// of fewer than five seeds.
    pub fn decides(&self) -> bool {
        self.wrong.is_none() && run::decides(self.small, self.seeds)
    }

    /// Segments of a volume: `usual`, or `tiny` of the tiny size, or as many
    /// as are wanted.
    pub fn segments(&self, usual: u32, tiny: u32) -> u32 {
        self.segments.unwrap_or(self.size(usual, tiny))
    }

    /// `full`, or `small` of the tiny size.
    pub fn size<T>(&self, full: T, small: T) -> T {
        if self.small { small } else { full }
    }

    fn trace(&self, name: &str) -> Result<crate::trace::Trace, LabError> {
        let directory = self.traces.as_ref().ok_or(LabError::NoTraces)?;
        Ok(crate::trace::load(directory, name)?)
    }
}

type Work = Box<dyn Fn(&Context) -> Result<Vec<Row>, LabError> + Send + Sync>;

/// A part of an experiment that can be run by itself.
pub struct Point {
    /// What it measures.
    pub label: String,
    run: Work,
}

impl Point {
    /// A point.
    pub fn new(
        label: impl Into<String>,
        run: impl Fn(&Context) -> Result<Vec<Row>, LabError> + Send + Sync + 'static,
    ) -> Self {
        Point {
            label: label.into(),
            run: Box::new(run),
        }
    }

    /// A point with a row for each seed.
    fn per_seed(
        label: impl Into<String>,
        row: impl Fn(&Context, u64) -> Result<Row, LabError> + Send + Sync + 'static,
    ) -> Self {
        Point::new(label, move |context: &Context| {
            context.seeds().map(|seed| row(context, seed)).collect()
        })
    }

    /// A place of a curve, with a row for each seed.
    fn of_seeds(series: &str, x: f64, row: impl Fn(u64) -> Row + Send + Sync + 'static) -> Self {
        Point::new(format!("{series} at {x}"), move |context: &Context| {
            Ok(context.seeds().map(&row).collect())
        })
    }
}

/// An experiment.
#[derive(Debug)]
pub struct Experiment {
    /// Its id, that of the claim.
    pub id: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// Whether it replays traces.
    pub needs_traces: bool,
    /// Its points.
    pub points: fn(&Context) -> Vec<Point>,
    /// What follows.
    pub verdicts: fn(&[Row]) -> Vec<Verdict>,
    /// How it looks.
    pub picture: fn(&[Row]) -> Picture,
}

/// Those that simulate volumes of so many segments as one wants.
const SIZED: [&str; 4] = ["R3a", "R3b", "R3c", "R4"];

impl Experiment {
    /// Whether the number of segments can be chosen ([`Context::segments`]).
    pub fn is_sized(&self) -> bool {
        SIZED.contains(&self.id)
    }
}

/// Those whose machine can be a wrong one ([`Context::wrong`]).
const MACHINES: [&str; 18] = [
    "R1", "R2", "N3", "N6", "B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "L1", "L2", "L3", "L4",
    "X1", "X3",
];

impl Experiment {
    /// Whether it measures file systems on a machine, which can be a wrong one.
    pub fn has_machine(&self) -> bool {
        MACHINES.contains(&self.id)
    }
}

/// Those that do nothing without recorded traces.
const REPLAYS: [&str; 2] = ["N1", "N5"];

impl Experiment {
    /// Whether nothing is left of it without traces; others that replay some
    /// have drawn workloads, too.
    pub fn only_replays(&self) -> bool {
        REPLAYS.contains(&self.id)
    }
}

/// Every experiment.
pub const ALL: &[Experiment] = &[
    r1::R1,
    r1::R2,
    r3::R3A,
    r3b::R3B,
    r3::R3C,
    r4::R4,
    r5::R5,
    r6::R6,
    wolf::W1,
    wolf::W2,
    wolf::W3,
    wolf::W4,
    w5::W5,
    w6::W6,
    n1::N1,
    n2::N2,
    n3::N3,
    n4::N4,
    n5::N5,
    n6::N6,
    b1::B1,
    b2::B2,
    b3::B3,
    b4::B4,
    b5::B5,
    b6::B6,
    b7::B7,
    b8::B8,
    l1::L1,
    l2::L2,
    l3::L3,
    l4::L4,
    vlog::V1,
    vlog::V2,
    v3::V3,
    v4::V4,
    v5::V5,
    v6::V6,
    v7::V7,
    v8::V8,
    v9::V9,
    v10::V10,
    x1::X1,
    x2::X2,
    x3::X3,
    x4::X4,
    a1::A1,
    a2::A2,
    a3::A3,
    a4::A4,
    m1::M1,
    m2::M2,
    m3::M3,
    m4::M4,
    m5::M5,
    m6::M6,
    m7::M7,
];

/// The experiment of this id, upper or lower case.
pub fn named(id: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|e| e.id.eq_ignore_ascii_case(id))
}

#[cfg(test)]
mod tests;
