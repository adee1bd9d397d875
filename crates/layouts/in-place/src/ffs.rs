//! A mounted volume: its parts, and whether it takes writes. What it does is in the
//! rooms that know it.

use crate::allocate::Policy;
use crate::counters::Counters;
use crate::error::{Error, Result};
use crate::format::{GroupMap, Holds, Metadata, Sector, Superblock};
use crate::numbers::Numbers;
use crate::options::FfsMountOptions;
use crate::prices::Prices;
use crate::store::{Store, Tables};
use crate::writer::Writer;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::Clock;
use varve_device::sync::{Mutex, RwLock};

/// What a mount found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FfsRecovery {
    /// Records of the journal that were replayed.
    pub records: u64,
    /// Sectors in them.
    pub sectors: u64,
    /// Files that were without a name, or in the middle of a truncate.
    pub unfinished: u64,
    /// The volume was being changed in place when it was last used.
    pub unclean: bool,
    /// What a crash explains, and was mended, or would be by a mount that writes.
    pub repairs: Vec<String>,
    /// What it does not explain.
    pub losses: Vec<String>,
    /// Findings beyond those told.
    pub untold: u64,
}

/// A mounted volume.
pub struct Ffs {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) superblock: Superblock,
    pub(crate) policy: Policy,
    pub(crate) options: FfsMountOptions,
    pub(crate) store: Store,
    pub(crate) mount_id: u64,
    pub(crate) prices: Prices,
    pub(crate) committing: Mutex<()>,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) tables: RwLock<Tables>,
    pub(crate) numbers: Mutex<Numbers>,
    /// Why nothing is written, if so.
    pub(crate) stopped: Mutex<Option<String>>,
    pub(crate) counts: Counters,
    /// What is appended stays in memory: a check before anything is written.
    pub(crate) rehearsing: bool,
    pub(crate) read_only: Option<String>,
    pub(crate) unfinished: Vec<u64>,
    pub(crate) recovery: FfsRecovery,
}

impl Ffs {
    /// The superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// How metadata gets to its place.
    pub fn metadata(&self) -> Metadata {
        self.superblock.metadata()
    }

    /// How room is found.
    pub fn policy(&self) -> &Policy {
        &self.policy
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
    pub(crate) fn stop(&self, reason: String) {
        self.stopped.lock().get_or_insert(reason);
    }

    pub(crate) fn writable(&self) -> Result<()> {
        self.stopped()
            .map_or(Ok(()), |reason| Err(Error::Stopped(reason)))
    }

    pub(crate) fn flush(&self) -> Result<()> {
        self.counts.flushes.fetch_add(1, Relaxed);
        Ok(self.store.device.flush()?)
    }

    /// A sector that is written because others of its unit are. If it cannot be read,
    /// it need not have held anything, or it has its turn: zeros do then.
    pub(crate) fn or_zeros(
        &self,
        sector: u64,
        is_pending: bool,
        read: Result<Arc<Sector>>,
    ) -> Result<Arc<Sector>> {
        let geometry = &self.store.geometry;
        let is_wanted = || match geometry.holds(sector) {
            Holds::Map(nth) => nth < geometry.map_sectors(),
            Holds::Inode(ino) => self.numbers.lock().map(GroupMap::Touched).get(ino.0),
            Holds::Data => true,
        };
        match read {
            Err(Error::Device(_)) if is_pending || !is_wanted() => Ok(Arc::new([0; 512])),
            other => other,
        }
    }
}
