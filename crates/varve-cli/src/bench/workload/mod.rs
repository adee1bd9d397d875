//! The workloads, one per file.

mod cached;
mod database;
mod fillaging;
mod fsyncupdate;
mod largefile;
mod metadata;
mod oo1;
mod sizes;
mod smallfile;
mod tpcb;
mod wisconsin;

use super::target::{Outcome, Target};
use super::{Bench, Workload};

/// Runs one.
pub fn run<T: Target>(bench: &Bench<'_, T>, workload: Workload) -> Outcome<()> {
    match workload {
        Workload::Smallfile => smallfile::run(bench),
        Workload::Sizes => sizes::run(bench),
        Workload::Largefile => largefile::run(bench),
        Workload::Fsyncupdate => fsyncupdate::run(bench),
        Workload::Tpcb => tpcb::run(bench),
        Workload::Metadata => metadata::run(bench),
        Workload::Cached => cached::run(bench),
        Workload::Fillaging => fillaging::run(bench),
        Workload::Oo1 => oo1::run(bench),
        Workload::Wisconsin => wisconsin::run(bench),
    }
}
