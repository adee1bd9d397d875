//! The laboratory: workloads, traces, a simulator, experiments, verdicts.
//!
//! | module | what is in it |
//! |---|---|
//! | [`ageing`] | years of use, and how free room then lies |
//! | [`workload`] | seeded streams of block operations |
//! | [`trace`] | readers of recorded workloads |
//! | [`simulator`] | the write-cost simulator and the oracle |
//! | [`policy`] | cleaning policies beside those of a mount |
//! | [`platform`] | hosts, simulated drives and file systems on one clock |
//! | [`experiment`] | one file per study, and what runs them |
//! | [`report`] | statistics, verdicts, data files, pictures |
//!
//! `docs/cleaning.md` has the results.

pub mod ageing;
mod error;
pub mod experiment;
pub mod platform;
pub mod policy;
pub mod report;
mod row;
pub mod simulator;
pub mod trace;
pub mod workload;
