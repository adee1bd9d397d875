//! Experiments: one file each. An experiment is a list of points that can be
//! run apart, and what follows from all their rows: verdicts and a picture.

mod all;
mod allocation;
mod bank;
mod benchmarks;
mod beyond;
mod clustering;
mod embedded_transactions;
mod mounted;
mod rivals;
mod run;
mod simulated_transactions;
mod snapshots;
mod sprite_lfs;
mod study;
mod updates;
mod virtual_log;
mod wolf;
mod wrong;

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
    /// Only some experiments have such a number (`Experiment::is_sized`).
    pub segments: Option<u32>,
    /// A wrong model in the place of the machine; verdicts then mean nothing.
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

/// Whether an experiment replays recorded traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Traces {
    None,
    /// In addition to drawn workloads.
    Also,
    /// Nothing is left of it without them.
    Only,
}

/// What an experiment declares. Source, expectation and reason are recorded under the
/// same id by the papers.
#[derive(Debug)]
pub struct Experiment {
    /// Its id, that of the claim.
    pub id: &'static str,
    /// Its points.
    pub points: fn(&Context) -> Vec<Point>,
    /// The verdicts that follow from all rows.
    pub verdicts: fn(&[Row]) -> Vec<Verdict>,
    /// The picture of all rows.
    pub picture: fn(&[Row]) -> Picture,
    traces: Traces,
    is_sized: bool,
    has_machine: bool,
    /// Seconds of a core that it takes at its usual size, measured on one machine, most
    /// by some of its points and one seed (`BENCHMARKS.md`): decides what is begun first,
    /// and predicts the duration before anything is known.
    seconds: f64,
}

impl Experiment {
    const fn new(
        id: &'static str,
        points: fn(&Context) -> Vec<Point>,
        verdicts: fn(&[Row]) -> Vec<Verdict>,
        picture: fn(&[Row]) -> Picture,
    ) -> Self {
        Experiment {
            id,
            points,
            verdicts,
            picture,
            traces: Traces::None,
            is_sized: false,
            has_machine: false,
            seconds: 4.0,
        }
    }

    /// It replays traces in addition to drawn workloads.
    const fn with_traces(self) -> Self {
        Experiment {
            traces: Traces::Also,
            ..self
        }
    }

    /// It does nothing without traces.
    const fn only_with_traces(self) -> Self {
        Experiment {
            traces: Traces::Only,
            ..self
        }
    }

    /// The number of segments of its volumes can be chosen ([`Context::segments`]).
    const fn sized(self) -> Self {
        Experiment {
            is_sized: true,
            ..self
        }
    }

    /// It measures file systems on a machine, which can be a wrong one
    /// ([`Context::wrong`]).
    const fn on_machine(self) -> Self {
        Experiment {
            has_machine: true,
            ..self
        }
    }

    /// It takes so many seconds of a core.
    const fn taking(self, seconds: f64) -> Self {
        Experiment { seconds, ..self }
    }

    /// Whether it replays traces.
    pub fn needs_traces(&self) -> bool {
        self.traces != Traces::None
    }

    /// Whether nothing is left of it without traces.
    pub fn only_replays(&self) -> bool {
        self.traces == Traces::Only
    }
}

/// Every experiment.
pub const ALL: &[Experiment] = &[
    sprite_lfs::small_and_large_files::R1,
    sprite_lfs::small_and_large_files::R2,
    sprite_lfs::greedy_cleaning::R3A,
    sprite_lfs::cost_benefit::R3B,
    sprite_lfs::greedy_cleaning::R3C,
    sprite_lfs::long_term_use::R4,
    sprite_lfs::recovery_time::R5,
    sprite_lfs::bytes_by_type::R6,
    wolf::write_cost::W1,
    wolf::write_cost::W2,
    wolf::write_cost::W3,
    wolf::write_cost::W4,
    wolf::response_time::W5,
    wolf::torn_segments::W6,
    beyond::policies_on_traces::N1,
    beyond::log_on_log::N2,
    beyond::scan_by_place::N3,
    beyond::real_log::N4,
    beyond::mounted_traces::N5,
    beyond::assumptions::N6,
    snapshots::cost_to_the_cleaner::S1,
    snapshots::scan_by_place::S2,
    snapshots::backup_by_the_cleaner::S3,
    benchmarks::raw_bandwidth::B1,
    benchmarks::many_small_files::B2,
    benchmarks::andrew::B3,
    benchmarks::andrew_many_users::B4,
    benchmarks::oo1::B5,
    benchmarks::wisconsin::B6,
    benchmarks::tpcb_nearly_full::B7,
    benchmarks::supercomputers::B8,
    clustering::file_sizes::L1,
    clustering::tpcb_by_utilisation::L2,
    clustering::aged_file_system::L3,
    clustering::sprite_scaled::L4,
    virtual_log::eager_writing::V1,
    virtual_log::eager_writing::V2,
    virtual_log::block_sizes::V3,
    virtual_log::small_files::V4,
    virtual_log::large_file::V5,
    virtual_log::updates_by_utilisation::V6,
    virtual_log::technology_trend::V7,
    virtual_log::idle_time::V8,
    virtual_log::log_file_system::V9,
    virtual_log::map_recovery::V10,
    embedded_transactions::tpcb::X1,
    embedded_transactions::cost_of_support::X2,
    embedded_transactions::scan_after_updates::X3,
    embedded_transactions::cleaner_interference::X4,
    allocation::binary_buddy::A1,
    allocation::restricted_buddy::A2,
    allocation::extents::A3,
    allocation::policies_compared::A4,
    simulated_transactions::bound_by_processor::M1,
    simulated_transactions::system_call_cost::M2,
    simulated_transactions::bound_by_disk::M3,
    simulated_transactions::processor_speed::M4,
    simulated_transactions::skewed_access::M5,
    simulated_transactions::smaller_locks::M6,
    simulated_transactions::validation::M7,
];

/// The experiment of this id, upper or lower case.
pub fn named(id: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|e| e.id.eq_ignore_ascii_case(id))
}

#[cfg(test)]
mod tests;
