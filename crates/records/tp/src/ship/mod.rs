//! Copies: an archive of the log, log shipping, backups of an environment in use,
//! restores to a point in the past, standbys.
//!
//! Invariants:
//! - A piece of the log is sent only when it is durable, so no restart of the original
//!   ever undoes a part of it.
//! - The identity distinguishes a copy from an original. Only pieces of its original's
//!   log change a copy. When it is opened for writing, it becomes an original with
//!   another identity, and no piece of the first one fits any more.
//! - A piece that a copy has received is synced before it is applied, and a checkpoint of
//!   a copy is like one of an original: a restart from it is an ordinary restart.
//!
//! `docs/spec/records.md` has the formats.

mod backup;
mod pieces;
mod standby;

pub use backup::BackupReport;
pub use standby::{Applied, Standby, Until};
