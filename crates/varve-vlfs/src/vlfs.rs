//! A mounted volume: its parts, and whether it takes writes. What it does is in the
//! rooms that know it.

use crate::compactor::Compactor;
use crate::counters::Counters;
use crate::error::{Error, Result};
use crate::format::{Measures, Superblock};
use crate::lookup::{Store, Tables};
use crate::numbers::Numbers;
use crate::options::VlfsMountOptions;
use crate::prices::Prices;
use crate::writer::Writer;
use std::sync::Arc;
use varve_device::Clock;
use varve_device::sync::{Mutex, RwLock};
use varve_vlog::Medium;

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VlfsRecovery {
    /// The log's tail was found by its record, not by a search.
    pub tail_record: bool,
    /// Map records read by following branches.
    pub records_read: u64,
    /// Records of a transaction that does not count.
    pub records_discarded: u64,
    /// Checkpoints that could not be read.
    pub checkpoints_damaged: u32,
    /// Changes applied that no full transaction has taken along.
    pub changes: u64,
    /// Inodes that differ from the newest checkpoint's.
    pub inodes_changed: u64,
    /// The bits of used units had to be made anew, from all inodes.
    pub walked: bool,
}

/// A mounted VLFS volume.
pub struct Vlfs {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) superblock: Superblock,
    pub(crate) options: VlfsMountOptions,
    pub(crate) store: Store,
    pub(crate) compactor: Mutex<Compactor>,
    pub(crate) committing: Mutex<()>,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) tables: RwLock<Tables>,
    pub(crate) numbers: Mutex<Numbers>,
    pub(crate) prices: Prices,
    /// Why nothing is written, if so.
    pub(crate) stopped: Mutex<Option<String>>,
    pub(crate) counts: Counters,
    pub(crate) read_only: Option<String>,
    pub(crate) unfinished: Vec<u64>,
    pub(crate) recovery: VlfsRecovery,
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

    pub(crate) fn measures(&self) -> &Measures {
        &self.store.measures
    }

    /// Nothing is written from now on.
    pub(crate) fn stop(&self, reason: String) {
        self.stopped.lock().get_or_insert(reason);
    }

    pub(crate) fn writable(&self) -> Result<()> {
        self.stopped()
            .map_or(Ok(()), |reason| Err(Error::Stopped(reason)))
    }
}
