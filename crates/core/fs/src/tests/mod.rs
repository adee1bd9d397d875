//! Tests of the whole file system on the memory layout.
//!
//! Each file attacks one contract. [`harness::Recorder`] is placed between the file
//! system and the layout: it checks every group, counts, and fails on demand.

mod alone;
mod attributes;
mod content;
mod durability;
mod failures;
mod file_flags;
mod harness;
mod isolation;
mod isolation_times;
mod model;
mod names;
mod passages;
mod scan;
mod small_groups;
mod snapshots;
mod snapshots_model;
mod space;
mod stress;
mod transactions;
mod transactions_append;
mod transactions_attacks;
mod transactions_model;
mod transactions_spilled;
mod transactions_threads;
mod tree_model;
