//! The path to the layout: changes are collected in epochs, captured, appended and
//! committed.

pub(crate) mod capture;
mod charge;
mod commit;
mod epoch;
pub(crate) mod small;
mod write_back;
