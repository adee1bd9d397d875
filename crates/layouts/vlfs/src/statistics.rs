//! What a mounted volume has done, and how its room is used.

use crate::Vlfs;
use crate::format::Entry;
use serde::Serialize;
use varve_device::sync::atomic::Ordering::Relaxed;
use varve_fs::Usage;

/// What has been counted since the mount, and how room is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VlfsStatistics {
    /// Transactions of the virtual log.
    pub transactions: u64,
    /// Brief ones among them: data and a record of changes.
    pub brief: u64,
    /// Records in them.
    pub records: u64,
    /// Flushes of the device.
    pub flushes: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Times that an append first had to take along what waited.
    pub reliefs: u64,
    /// Blocks with no used unit.
    pub blocks_free: u64,
    /// Blocks of which the tree uses a unit.
    pub blocks_live: u64,
    /// Units that the next checkpoint frees.
    pub units_pinned: u64,
    /// Units that the next flush frees.
    pub units_waiting: u64,
    /// Dead records kept because others hang on them.
    pub records_waiting: u64,
    /// Units that the compactor has moved, inodes and index nodes included.
    pub units_moved: u64,
    /// Regions (tracks of a drive) that it has moved everything off.
    pub regions_emptied: u64,
    /// Units that it could not move: unreadable, or nobody's that it knows.
    pub units_immovable: u64,
    /// Regions with no used unit.
    pub regions_empty: u64,
    /// Blocks and units whose owner it knows.
    pub owners_known: u64,
}

impl Vlfs {
    /// What lives on the volume.
    pub fn usage_now(&self) -> Usage {
        self.writer.lock().usage
    }

    /// The inode map: each number's entry as of the last fold, and whether the
    /// inode has changed since, in records of changes or in memory. What has
    /// changed has no unit yet, or another one after the next fold.
    pub fn inode_map(&self) -> Vec<(Entry, bool)> {
        let tables = self.tables.read();
        (0..tables.end())
            .map(|ino| (tables.entry(ino), tables.images.contains_key(&ino)))
            .collect()
    }

    /// What the volume has done since it was mounted.
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
