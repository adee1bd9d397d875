//! FFS: a layout that updates in place.
//!
//! It has cylinder groups with bitmaps, inodes in fixed places, blocks and fragments,
//! and a journal that makes the file system's groups atomic. Without the journal,
//! metadata is written in place in order (`ordered`) or in any order, and repaired
//! after a crash (`repair`). `docs/spec/in-place.md` has format, rules and limits.
//!
//! Invariants:
//! - With a journal, metadata is written in place only after its record is durable.
//!   Without one, a structure is durable before references to it, and blocks of
//!   metadata to which the device refers are not changed.
//! - Space that a group gives up is reused when the group is durable; space of
//!   journalled sectors, when a checkpoint has passed their records.
//! - After a failed write or flush nothing more is written.
//!
//! Locks, in this order: `committing` (one record or checkpoint at a time), `writer`
//! (free space, and changes of the tables), `tables` (the state that readers see;
//! nothing is written under it), `numbers`.

#![forbid(unsafe_code)]

mod aged;
pub mod allocate;
mod append;
mod bits;
mod check;
mod counters;
mod error;
mod ffs;
pub mod format;
mod fsck;
mod journal;
mod layout;
mod maps;
mod mkfs;
mod mount;
mod numbers;
mod options;
mod ordered;
mod planner;
mod prices;
mod repair;
mod replay;
mod room;
mod stage;
mod statistics;
mod store;
#[cfg(test)]
mod tests;
mod transaction;
mod tree;
mod trim;
mod tune;
mod writer;

pub use aged::FreeMap;
pub use check::{Checked, check, passed_over};
pub use error::{Error, Result};
pub use ffs::{Ffs, FfsRecovery};
pub use fsck::{Repaired, repair};
pub use mkfs::{FfsFormatOptions, bytes_for, format, plan};
pub use options::{Examine, FfsMountOptions};
pub use repair::search;
pub use statistics::{FfsStatistics, FreeSpace, GroupRoom};
pub use tune::tune;
pub use varve_format::identity::Tune;
