//! Eager writing, the virtual log and the virtual log disk.
//!
//! A small synchronous write goes where the head is, not where the block was; a
//! map remembers, and the map's own changes are written the same way, threaded
//! into a log that has no place of its own (Wang, Anderson & Patterson 1999).
//!
//! | module | what it offers |
//! |---|---|
//! | [`model`] | the paper's analytic models (1) to (11) |
//! | [`eager`] | the nearest free place by time, threshold and sweep |
//! | [`free_space`] | free units by block and track |
//! | [`medium`] | a device and what is near on it |
//! | [`mod@vld`] | the virtual log disk: requests, transactions, recovery, checkpoints, compactor |
//! | [`map`] | where each logical block is |
//! | [`recovery`] | the log from its tail, or from a search for it |
//! | [`virtual_log`] | records threaded backward, and whose room is free |
//! | [`mod@format`] | bytes on the medium (`docs/spec/virtual-log.md`) |
//!
//! `docs/spec/virtual-log.md` has the rules that keep data through a crash, and what
//! breaks without each.

pub mod eager;
pub mod error;
pub mod format;
pub mod free_space;
pub mod map;
pub mod medium;
pub mod model;
pub mod recovery;
pub mod virtual_log;
pub mod vld;

pub use eager::*;
pub use error::*;
pub use medium::*;
pub use vld::*;
