//! Copies: the log kept and shipped, backups of an environment at work, restores to a
//! point of its past, standbys.
//!
//! Invariants:
//! - A piece of the log leaves only when it is durable, so nothing of it is ever taken
//!   back by a restart of the original.
//! - A copy is told from an original by its identity. Nothing but pieces of its
//!   original's log changes it. Once it is opened for writing it is an original, with
//!   another identity, and nothing of the first fits it any more.
//! - What a copy has received is synced before it is applied, and a checkpoint of a copy is
//!   one of an original: a restart from it does what a restart always does.
//!
//! `docs/spec/records.md` has the formats.

mod backup;
mod pieces;
mod standby;

pub use backup::BackupReport;
pub use standby::{Applied, Standby, Until};
