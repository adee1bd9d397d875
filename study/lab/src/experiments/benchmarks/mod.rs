//! Seltzer 1992, chapter 7: benchmarks of FFS, EFS and LFS (B).

pub(super) mod andrew;
pub(super) mod andrew_many_users;
pub(super) mod database;
pub(super) mod many_small_files;
pub(super) mod oo1;
pub(super) mod raw_bandwidth;
pub(super) mod supercomputers;
pub(super) mod tpcb_nearly_full;
pub(super) mod wisconsin;
