//! What snapshots cost, and what they make possible (S).

pub(super) mod backup_by_the_cleaner;
pub(super) mod cost_to_the_cleaner;
mod model;
pub(super) mod scan_by_place;
