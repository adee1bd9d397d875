//! VLFS: the log-structured file system on the virtual log.
//!
//! Data, index nodes and inodes are written eagerly, to the place that is reached
//! soonest; the virtual log contains only the inode map (Wang et al. 1999, §3.3). A
//! transaction of the log commits everything that was appended since the last one: the
//! blocks it wrote, then a record for each changed piece of the inode map, then one
//! flush. `docs/spec/vlfs.md` has format, rules and limits.
//!
//! Invariants:
//! - Nothing that the durable inode map leads to is overwritten. Space that a
//!   transaction gives up is free once its flush has returned; space that the newest
//!   checkpoint's tree uses, once the next checkpoint is durable.
//! - The bits of used units are those of the newest checkpoint, amended by the
//!   difference of the two trees. A mount therefore reads only what has changed since.
//! - After a failed flush or record nothing more is written.
//!
//! Locks, in this order: `compactor`, `committing` (one transaction at a time),
//! `writer` (free space, and changes of the tables), `tables` (the state that readers
//! see; no write waits for the device under it), `numbers`.

mod accounts;
mod append;
mod brief;
mod change;
mod check;
mod checkpoint;
mod compact;
mod compactor;
mod counters;
mod error;
pub mod format;
mod given_up;
mod layout;
mod logged;
mod lookup;
mod metadata;
mod mkfs;
mod mount;
mod near;
mod numbers;
mod options;
mod owners;
mod prices;
mod recovery;
mod replay;
mod runs;
mod seal;
mod space;
mod stage;
mod statistics;
#[cfg(test)]
mod tests;
mod trim;
mod tune;
mod unfolded;
mod vlfs;
mod walk;
mod writer;

pub use check::{Checked, check, passed_over};
pub use checkpoint::whole_checkpoints;
pub use compact::{Claims, Compaction};
pub use error::{Error, Result};
pub use mkfs::{VlfsFormatOptions, format, plan};
pub use options::{VlfsMountOptions, Watermarks};
pub use statistics::VlfsStatistics;
pub use tune::tune;
pub use varve_format::identity::Tune;
pub use vlfs::{Vlfs, VlfsRecovery};
