//! Tests of the store through its public interface.

mod common;
mod copies;
mod crafted;
mod crashes;
mod device;
mod duplicates;
mod faults;
mod images;
mod indices;
mod isolation;
mod large;
mod lost_log;
mod model;
#[cfg(feature = "planted")]
mod planted;
mod processes;
mod snapshots;
mod tables;
mod threads;
