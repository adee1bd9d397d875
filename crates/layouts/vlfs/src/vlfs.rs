//! A mounted volume: its parts, and whether it takes writes. The modules of the crate
//! add its operations.

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
use varve_device::sync::{Mutex, RwLock};
use varve_device::{Clock, Device};
use varve_format::Malformed;
use varve_vlog::Medium;

/// A report of the recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VlfsRecovery {
    /// True if the log's tail was found by its record, not by a search.
    pub tail_record: bool,
    /// Number of map records read by following branches.
    pub records_read: u64,
    /// Number of records of a transaction that does not count.
    pub records_discarded: u64,
    /// Number of checkpoints that could not be read.
    pub checkpoints_damaged: u32,
    /// Number of changes applied that no full transaction had included.
    pub changes: u64,
    /// Number of inodes that differ from the newest checkpoint's.
    pub inodes_changed: u64,
    /// True if the bits of used units were computed from all inodes.
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
    /// The reason why nothing is written any more, if there is one.
    pub(crate) stopped: Mutex<Option<String>>,
    pub(crate) counts: Counters,
    pub(crate) read_only: Option<String>,
    pub(crate) unfinished: Vec<u64>,
    pub(crate) recovery: VlfsRecovery,
}

impl Vlfs {
    /// Returns the superblock in the first block, or its copy in the last.
    ///
    /// # Errors
    /// `NoVolume`, with the problem of the first one, or errors of the device.
    pub fn find_superblock(device: &dyn Device) -> Result<Superblock> {
        let geometry = device.geometry();
        let step = u64::from(geometry.logical_block.max(512));
        let fits = |found: Superblock| {
            let bytes = found.blocks.get() * u64::from(found.block_bytes.get());
            match bytes <= geometry.size && found.unit_bytes.get() >= geometry.logical_block {
                true => Ok(found),
                false => Err(Malformed::new(
                    "superblock",
                    format!("a volume of {bytes} bytes on a device of {}", geometry.size),
                )),
            }
        };
        let read = |at: u64| -> Result<std::result::Result<Superblock, Malformed>> {
            let mut bytes = vec![0; step as usize];
            device.read(at, &mut bytes)?;
            Ok(Superblock::parse(&bytes).and_then(fits))
        };
        let no_volume = |reason| Error::NoVolume {
            device: device.name(),
            reason,
        };
        if geometry.size < step {
            return Err(no_volume(Malformed::new("superblock", "an empty device")));
        }
        let reason = match read(0)? {
            Ok(found) => return Ok(found),
            Err(reason) => reason,
        };
        // The copy is in the last whole block, whatever the block size.
        for power in 12..=16 {
            let block = 1u64 << power;
            let at = (geometry.size / block).saturating_sub(1) * block;
            if at > 0
                && at.is_multiple_of(step)
                && let Ok(found) = read(at)?
                && Measures::of(&found).block_byte(Measures::of(&found).last_block()) == at
            {
                return Ok(found);
            }
        }
        Err(no_volume(reason))
    }

    /// Returns the superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Returns the report of the recovery.
    pub fn recovery_report(&self) -> &VlfsRecovery {
        &self.recovery
    }

    /// Returns the medium of the volume.
    pub fn medium(&self) -> &Arc<dyn Medium> {
        &self.store.medium
    }

    /// Returns the reason why the volume takes no writes, if there is one.
    pub fn stopped(&self) -> Option<String> {
        match &self.read_only {
            Some(reason) => Some(reason.clone()),
            None => self.stopped.lock().clone(),
        }
    }

    pub(crate) fn measures(&self) -> &Measures {
        &self.store.measures
    }

    /// Stops all writes from now on; the first reason is kept.
    pub(crate) fn stop(&self, reason: String) {
        self.stopped.lock().get_or_insert(reason);
    }

    pub(crate) fn writable(&self) -> Result<()> {
        self.stopped()
            .map_or(Ok(()), |reason| Err(Error::Stopped(reason)))
    }

    /// Stops all writes, because reserved space is not free; returns the error.
    pub(crate) fn no_room(&self, whose: &str) -> Error {
        let reason = format!("no room is left for {whose}; the reserve should have had it");
        self.stop(reason.clone());
        Error::Stopped(reason)
    }
}
