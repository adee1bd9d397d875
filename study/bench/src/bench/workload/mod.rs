//! The workloads, one per file.

mod andrew;
mod bandwidth;
mod bigfile;
mod cached;
mod database;
mod fillaging;
mod fsyncupdate;
mod largefile;
mod metadata;
mod office;
mod oo1;
mod scan;
mod sizes;
mod smallfile;
mod supercomputer;
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
        Workload::Scan => scan::run(bench),
        Workload::Andrew => andrew::run(bench),
        Workload::Multiandrew => andrew::run_many(bench),
        Workload::Supercomputer => supercomputer::run(bench),
        Workload::Bandwidth => bandwidth::run(bench),
        Workload::Bigfile => bigfile::run(bench),
        Workload::Office => office::run(bench),
    }
}
