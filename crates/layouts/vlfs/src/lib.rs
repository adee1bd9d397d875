//! VLFS: the log-structured file system on the virtual log.
//!
//! Data, index nodes and inodes are written eagerly, wherever that is soonest;
//! the virtual log holds the inode map and nothing else (Wang et al. 1999,
//! §3.3). A transaction of the log commits everything that was appended since
//! the last one: what it wrote, then a record for each piece of the inode map
//! that changed, then one flush. `docs/spec/vlfs.md` has format, rules and limits.
//!
//! Invariants:
//! - Nothing that the durable inode map leads to is written over: room that a
//!   transaction gives up is free once its flush has returned; room that the
//!   newest checkpoint's tree uses, once the next checkpoint is durable.
//! - The bits of used units are those of the newest checkpoint, amended by the
//!   difference of the two trees. So a mount looks at what has changed since,
//!   and at nothing else.
//! - After a failed flush or record nothing is written any more.
//!
//! Locks, in this order: `compactor`, `committing` (one transaction at a time), `writer`
//! (room, and who changes the tables), `tables` (what readers see; no write
//! waits for the device under it), `numbers`.

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
