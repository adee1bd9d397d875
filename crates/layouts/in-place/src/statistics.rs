//! Statistics of a mounted volume, and the distribution of its free space.

use crate::Ffs;
use serde::Serialize;
use varve_device::sync::atomic::Ordering::Relaxed;
use varve_fs::Usage;

/// Counts since the mount, and the present use of space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FfsStatistics {
    /// Number of groups appended.
    pub groups: u64,
    /// Number of bytes of data written in place.
    pub data_bytes: u64,
    /// Number of records written to the journal.
    pub records: u64,
    /// Number of bytes of these records.
    pub record_bytes: u64,
    /// Number of commits of metadata in place.
    pub ordered_commits: u64,
    /// Number of flushes of the device.
    pub flushes: u64,
    /// Number of checkpoints.
    pub checkpoints: u64,
    /// Number of sectors of metadata that checkpoints wrote in place.
    pub sectors_placed: u64,
    /// Number of bytes of the journal in use.
    pub journal_used_bytes: u64,
    /// Size of the journal, in bytes.
    pub journal_bytes: u64,
    /// Number of sectors of metadata in memory that are not in place.
    pub sectors_newer: u64,
    /// Number of whole blocks that are free.
    pub blocks_free: u64,
    /// Number of fragments that are free, including those in whole blocks.
    pub fragments_free: u64,
    /// Number of fragments that the next record or checkpoint frees.
    pub fragments_waiting: u64,
    /// Number of free fragments that are kept for files being written, because the
    /// policy allocated more than was requested.
    pub fragments_kept: u64,
    /// Number of free inodes.
    pub inodes_free: u64,
    /// Number of cylinder groups.
    pub groups_of_cylinders: u64,
}

/// The pieces of the free space from the policy's point of view: adjacent free blocks
/// are several pieces of a buddy system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FreeSpace {
    /// Number of pieces.
    pub runs: u64,
    /// Number of fragments in all pieces.
    pub fragments: u64,
    /// Number of fragments in the longest piece.
    pub longest: u64,
    /// Number of fragments in the piece that contains the median free fragment: half of
    /// the free space is in pieces of at least this length.
    pub median: u64,
}

impl FreeSpace {
    /// Computes the values from the lengths of the pieces.
    pub fn of(mut runs: Vec<u64>) -> Self {
        runs.sort_unstable();
        let fragments = runs.iter().sum();
        let mut seen = 0;
        let mut holds = |run: &&u64| {
            seen += **run;
            2 * seen >= fragments
        };
        FreeSpace {
            runs: runs.len() as u64,
            fragments,
            longest: runs.last().copied().unwrap_or(0),
            median: runs.iter().find(|run| holds(run)).copied().unwrap_or(0),
        }
    }
}

/// The free space of one cylinder group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GroupRoom {
    /// Number of whole blocks that are free.
    pub blocks_free: u64,
    /// Number of fragments that are free, including those in whole blocks.
    pub fragments_free: u64,
    /// Number of free inodes.
    pub inodes_free: u64,
    /// Number of directories.
    pub directories: u64,
}

impl Ffs {
    /// Returns the present usage of the volume.
    pub fn usage_now(&self) -> Usage {
        self.writer.lock().usage
    }

    /// Returns the counts since the mount, and the present use of space.
    pub fn statistics(&self) -> FfsStatistics {
        let writer = self.writer.lock();
        let counts = &self.counts;
        FfsStatistics {
            groups: counts.groups.load(Relaxed),
            data_bytes: counts.data_bytes.load(Relaxed),
            records: counts.records.load(Relaxed),
            record_bytes: counts.record_bytes.load(Relaxed),
            ordered_commits: counts.ordered_commits.load(Relaxed),
            flushes: counts.flushes.load(Relaxed),
            checkpoints: counts.checkpoints.load(Relaxed),
            sectors_placed: counts.sectors_placed.load(Relaxed),
            journal_used_bytes: writer.head - writer.tail,
            journal_bytes: self.store.geometry.journal_bytes(),
            sectors_newer: self.tables.read().newer.len() as u64,
            blocks_free: writer.room.free_blocks(),
            fragments_free: writer.room.free_fragments(),
            fragments_waiting: writer.room.given_up(),
            fragments_kept: writer.room.window_fragments(),
            inodes_free: self.numbers.lock().free(),
            groups_of_cylinders: self.store.geometry.groups(),
        }
    }

    /// Returns the distribution of free space, without the space kept for files. The
    /// call lists every piece while no group can be appended, so it is not for frequent
    /// use.
    pub fn free_space(&self) -> FreeSpace {
        let runs = self.writer.lock().room.free_runs();
        FreeSpace::of(runs.iter().map(|run| run.units).collect())
    }

    /// Returns the free space of each cylinder group.
    pub fn group_rooms(&self) -> Vec<GroupRoom> {
        let writer = self.writer.lock();
        let numbers = self.numbers.lock();
        let of = |(group, (inodes_free, directories)): (u64, (u64, u64))| {
            let (blocks_free, fragments_free) = writer.room.free_in_group(group);
            GroupRoom {
                blocks_free,
                fragments_free,
                inodes_free,
                directories,
            }
        };
        (0..).zip(numbers.by_group()).map(of).collect()
    }
}
