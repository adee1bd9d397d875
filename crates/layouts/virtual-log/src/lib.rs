//! Eager writing, the virtual log and the virtual log disk.
//!
//! A small synchronous write is placed near the disk head instead of over the old
//! block. A map records the new place. The map's own changes are written in the same
//! manner, as records that are linked into a log without a fixed place (Wang, Anderson
//! & Patterson 1999).
//!
//! | module | contents |
//! |---|---|
//! | [`model`] | the paper's analytic models (1) to (11) |
//! | [`eager`] | the nearest free place by time, threshold and sweep |
//! | [`free_space`] | free units by block and track |
//! | [`medium`] | a device, and which of its places are near |
//! | [`mod@vld`] | the virtual log disk: requests, transactions, recovery, checkpoints, compactor |
//! | [`map`] | the place of each logical block |
//! | [`recovery`] | the log from its tail, or from a search for it |
//! | [`virtual_log`] | records linked backward, and when their space is free |
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
