//! The laboratory: workloads, traces, a simulator, experiments, verdicts.
//!
//! | module | what is in it |
//! |---|---|
//! | [`ageing`] | years of use, and how free room then lies |
//! | [`workload`] | seeded streams of block operations |
//! | [`trace`] | readers of recorded workloads |
//! | [`simulator`] | the write-cost simulator and the oracle; those of allocation and of transactions |
//! | [`policy`] | cleaning policies beside those of a mount |
//! | [`platform`] | hosts, simulated drives and file systems on one clock |
//! | [`program`] | programs with which the papers measured file systems, on any files |
//! | [`database`] | the databases of the thesis, on the record store |
//! | [`experiments`] | one file per study, and what runs them |
//! | [`claims`] | what the papers claim, and what shows it |
//! | [`report`] | statistics, verdicts, data files, pictures |
//! | [`replay`] | a reader's own trace, and which layout and cleaner suits it |
//! | [`page`] | all results as one page of HTML |
//!
//! `study/cleaning.md` has the results.

pub mod ageing;
pub mod claims;
pub mod database;
mod error;
pub mod experiments;
mod jobs;
pub mod page;
pub mod platform;
pub mod policy;
pub mod program;
pub mod replay;
pub mod report;
mod row;
pub mod simulator;
pub mod trace;
pub mod workload;
