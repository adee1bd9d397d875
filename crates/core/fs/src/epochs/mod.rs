//! The way to the layout: what changes together, captured, appended, committed.

pub(crate) mod capture;
mod charge;
mod commit;
mod epoch;
pub(crate) mod small;
mod write_back;
