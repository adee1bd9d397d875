//! Statistics of a mounted volume, and the use of its space.

use crate::Vlfs;
use crate::format::Entry;
use serde::Serialize;
use varve_device::sync::atomic::Ordering::Relaxed;
use varve_fs::Usage;

/// Counts since the mount, and the present use of space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VlfsStatistics {
    /// Number of transactions of the virtual log.
    pub transactions: u64,
    /// Number of brief transactions among them: data and a record of changes.
    pub brief: u64,
    /// Number of records in these transactions.
    pub records: u64,
    /// Number of flushes of the device.
    pub flushes: u64,
    /// Number of checkpoints.
    pub checkpoints: u64,
    /// Number of appends that first had to commit pending changes.
    pub reliefs: u64,
    /// Number of blocks without a used unit.
    pub blocks_free: u64,
    /// Number of blocks of which the tree uses a unit.
    pub blocks_live: u64,
    /// Number of units that the next checkpoint frees.
    pub units_pinned: u64,
    /// Number of units that the next flush frees.
    pub units_waiting: u64,
    /// Number of dead records that are kept because others depend on them.
    pub records_waiting: u64,
    /// Number of units that the compactor has moved, including inodes and index nodes.
    pub units_moved: u64,
    /// Number of regions (tracks of a drive) whose whole content it has moved.
    pub regions_emptied: u64,
    /// Number of units that it could not move: unreadable, or without a known owner.
    pub units_immovable: u64,
    /// Number of regions without a used unit.
    pub regions_empty: u64,
    /// Number of blocks and units whose owner the compactor knows.
    pub owners_known: u64,
}

impl Vlfs {
    /// Returns the present usage of the volume.
    pub fn usage_now(&self) -> Usage {
        self.writer.lock().usage
    }

    /// Returns the inode map: each number's entry as of the last fold, and whether the
    /// inode has changed since, in records of changes or in memory. A changed inode has
    /// no unit yet, or will have another one after the next fold.
    pub fn inode_map(&self) -> Vec<(Entry, bool)> {
        let tables = self.tables.read();
        (0..tables.end())
            .map(|ino| (tables.entry(ino), tables.images.contains_key(&ino)))
            .collect()
    }

    /// Returns the counts since the mount, and the present use of space.
    pub fn statistics(&self) -> VlfsStatistics {
        let writer = self.writer.lock();
        let counts = &self.counts;
        VlfsStatistics {
            transactions: counts.transactions.load(Relaxed),
            brief: counts.brief.load(Relaxed),
            records: counts.records.load(Relaxed),
            flushes: counts.flushes.load(Relaxed),
            checkpoints: counts.checkpoints.load(Relaxed),
            reliefs: counts.reliefs.load(Relaxed),
            blocks_free: writer.space.free_blocks(),
            blocks_live: writer.space.live_blocks(),
            units_pinned: writer.space.pinned_units(),
            units_waiting: writer.space.waiting_units(),
            records_waiting: writer.log.waiting() as u64,
            units_moved: counts.units_moved.load(Relaxed),
            regions_emptied: counts.regions_emptied.load(Relaxed),
            units_immovable: counts.units_immovable.load(Relaxed),
            regions_empty: writer.space.empty_regions(),
            owners_known: writer.owners.known(),
        }
    }
}
