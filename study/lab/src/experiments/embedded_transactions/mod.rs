//! Seltzer 1992, chapter 5: transactions in the file system and above it (X).

pub(super) mod cleaner_interference;
pub(super) mod cost_of_support;
pub(super) mod embedded;
pub(super) mod scan_after_updates;
pub(super) mod tpcb;
