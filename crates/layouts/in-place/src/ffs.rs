//! A mounted volume: its parts, and whether it takes writes. The modules of the crate
//! add its operations.

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

/// The result of a mount: the findings of replay and check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FfsRecovery {
    /// Number of journal records that were replayed.
    pub records: u64,
    /// Number of sectors in these records.
    pub sectors: u64,
    /// Number of files without a name, or whose truncation was not finished.
    pub unfinished: u64,
    /// True if the volume was being changed in place when it was last used.
    pub unclean: bool,
    /// Findings that a crash explains. They were repaired, or a mount that writes would
    /// do so.
    pub repairs: Vec<String>,
    /// Findings that a crash does not explain.
    pub losses: Vec<String>,
    /// Number of findings beyond those listed.
    pub untold: u64,
}

/// A volume that is mounted.
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
    /// The reason why nothing is written any more, if there is one.
    pub(crate) stopped: Mutex<Option<String>>,
    pub(crate) counts: Counters,
    /// True during a check before the first write: appended groups stay in memory.
    pub(crate) rehearsing: bool,
    pub(crate) read_only: Option<String>,
    pub(crate) unfinished: Vec<u64>,
    pub(crate) recovery: FfsRecovery,
}

impl Ffs {
    /// Returns the superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Returns the discipline of metadata writes.
    pub fn metadata(&self) -> Metadata {
        self.superblock.metadata()
    }

    /// Returns the allocation policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the result of the mount.
    pub fn recovery_report(&self) -> &FfsRecovery {
        &self.recovery
    }

    /// Returns the reason why the volume takes no writes, if there is one.
    pub fn stopped(&self) -> Option<String> {
        match &self.read_only {
            Some(reason) => Some(reason.clone()),
            None => self.stopped.lock().clone(),
        }
    }

    /// Stops all writes from now on; the first reason is kept.
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

    /// Returns a sector that is written because others of its unit are. If it cannot be
    /// read, it was either empty, or its own change is pending; zeros suffice then.
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
