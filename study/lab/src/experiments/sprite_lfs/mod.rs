//! Rosenblum & Ousterhout 1992: the log-structured file system and its cleaner (R).

pub(super) mod bytes_by_type;
pub(super) mod cost_benefit;
pub(super) mod greedy_cleaning;
pub(super) mod long_term_use;
pub(super) mod recovery_time;
pub(super) mod small_and_large_files;
