//! FFS: a layout that updates in place.
//!
//! Cylinder groups with bitmaps, inodes in fixed places, blocks and fragments, and
//! a journal that makes the file system's groups atomic; or none, and metadata that
//! is written in place in order (`ordered`), or in any, and repaired after a crash
//! (`repair`). `docs/ffs.md` has format, rules and limits.
//!
//! Invariants:
//! - With a journal, metadata goes to its place when the record that has it is
//!   durable, and not before. Without, what is led to is durable before what leads
//!   to it, and blocks of metadata that the device leads to are not changed.
//! - Room that a group gives up is given out again when that is durable; room that
//!   held journalled sectors, when a checkpoint has passed their records.
//! - After a failed write or flush nothing is written any more.
//!
//! Locks, in this order: `committing` (one record or checkpoint at a time),
//! `writer` (room, and who changes the tables), `tables` (what readers see; nothing
//! is written under it), `numbers`.

#![forbid(unsafe_code)]

pub mod allocate;
mod append;
mod bits;
mod check;
mod error;
pub mod format;
mod fsck;
mod journal;
mod layout;
mod maps;
mod mkfs;
mod mount;
mod numbers;
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
mod tree;
mod tune;
mod writer;

pub use check::{Checked, check};
pub use error::{Error, Result};
pub use fsck::{Repaired, repair};
pub use mkfs::{FfsFormatOptions, format, plan};
pub use mount::{Examine, FfsMountOptions, FfsRecovery};
pub use repair::search;
pub use statistics::{FfsStatistics, GroupRoom};
pub use tune::tune;
pub use varve_format::identity::Tune;

use format::Superblock;
use numbers::Numbers;
use prices::Prices;
use statistics::Counters;
use std::sync::Arc;
use store::{Store, Tables};
use varve_device::Clock;
use varve_device::sync::{Mutex, RwLock};
use writer::Writer;

/// A mounted volume.
pub struct Ffs {
    clock: Arc<dyn Clock>,
    superblock: Superblock,
    options: FfsMountOptions,
    store: Store,
    mount_id: u64,
    prices: Prices,
    committing: Mutex<()>,
    writer: Mutex<Writer>,
    tables: RwLock<Tables>,
    numbers: Mutex<Numbers>,
    /// Why nothing is written, if so.
    stopped: Mutex<Option<String>>,
    counts: Counters,
    /// What is appended stays in memory: a check before anything is written.
    rehearsing: bool,
    read_only: Option<String>,
    unfinished: Vec<u64>,
    recovery: FfsRecovery,
}

impl Ffs {
    /// The superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// How metadata gets to its place.
    pub fn metadata(&self) -> format::Metadata {
        self.superblock.metadata()
    }

    /// What the mount found in the journal.
    pub fn recovery_report(&self) -> &FfsRecovery {
        &self.recovery
    }

    /// Why the volume takes no writes, if so.
    pub fn stopped(&self) -> Option<String> {
        match &self.read_only {
            Some(reason) => Some(reason.clone()),
            None => self.stopped.lock().clone(),
        }
    }

    /// Nothing is written from now on.
    fn stop(&self, reason: String) {
        self.stopped.lock().get_or_insert(reason);
    }

    fn writable(&self) -> Result<()> {
        self.stopped()
            .map_or(Ok(()), |reason| Err(Error::Stopped(reason)))
    }
}
