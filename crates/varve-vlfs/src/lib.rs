//! VLFS: the log-structured file system on the virtual log.
//!
//! Data, index nodes and inodes are written eagerly, wherever that is soonest;
//! the virtual log holds the inode map and nothing else (Wang et al. 1999,
//! §3.3). A transaction of the log commits everything that was appended since
//! the last one: what it wrote, then a record for each piece of the inode map
//! that changed, then one flush. `docs/vlfs.md` has format, rules and limits.
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
mod cut;
mod error;
pub mod format;
mod layout;
mod logged;
mod lookup;
mod metadata;
mod mkfs;
mod mount;
mod near;
mod numbers;
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
mod walk;
mod writer;

pub use check::{Checked, check};
pub use checkpoint::whole_checkpoints;
pub use compact::{Claims, Compaction, Watermarks};
pub use error::{Error, Result};
pub use mkfs::{VlfsFormatOptions, format, plan};
pub use mount::VlfsMountOptions;
pub use recovery::VlfsRecovery;
pub use statistics::VlfsStatistics;
pub use tune::tune;
pub use varve_format::identity::Tune;

use compact::Compactor;
use format::{Measures, Superblock};
use lookup::{Store, Tables};
use numbers::Numbers;
use prices::Prices;
use statistics::Counters;
use std::sync::Arc;
use varve_device::Clock;
use varve_device::sync::{Mutex, RwLock};
use varve_vlog::Medium;
use writer::Writer;

/// A mounted VLFS volume.
pub struct Vlfs {
    clock: Arc<dyn Clock>,
    superblock: Superblock,
    options: VlfsMountOptions,
    store: Store,
    compactor: Mutex<Compactor>,
    committing: Mutex<()>,
    writer: Mutex<Writer>,
    tables: RwLock<Tables>,
    numbers: Mutex<Numbers>,
    prices: Prices,
    /// Why nothing is written, if so.
    stopped: Mutex<Option<String>>,
    counts: Counters,
    read_only: Option<String>,
    unfinished: Vec<u64>,
    recovery: VlfsRecovery,
}

impl Vlfs {
    /// The superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// What recovery found.
    pub fn recovery_report(&self) -> &VlfsRecovery {
        &self.recovery
    }

    /// What the volume stands on.
    pub fn medium(&self) -> &Arc<dyn Medium> {
        &self.store.medium
    }

    /// Why the volume takes no writes, if so.
    pub fn stopped(&self) -> Option<String> {
        match &self.read_only {
            Some(reason) => Some(reason.clone()),
            None => self.stopped.lock().clone(),
        }
    }

    fn measures(&self) -> &Measures {
        &self.store.measures
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
