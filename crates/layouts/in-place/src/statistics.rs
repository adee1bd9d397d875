//! What a mounted volume has done, and how its room is used.

use crate::Ffs;
use serde::Serialize;
use varve_device::sync::atomic::Ordering::Relaxed;
use varve_fs::Usage;

/// What has been counted since the mount, and how room is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FfsStatistics {
    /// Groups appended.
    pub groups: u64,
    /// Bytes of data written in place.
    pub data_bytes: u64,
    /// Records of the journal.
    pub records: u64,
    /// Bytes in them.
    pub record_bytes: u64,
    /// Commits of metadata in place.
    pub ordered_commits: u64,
    /// Flushes of the device.
    pub flushes: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Sectors of metadata written in place by them.
    pub sectors_placed: u64,
    /// Bytes of the journal in use.
    pub journal_used_bytes: u64,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// Sectors of metadata in memory that are not in place.
    pub sectors_newer: u64,
    /// Whole blocks that are free.
    pub blocks_free: u64,
    /// Fragments that are free, those in whole blocks included.
    pub fragments_free: u64,
    /// Fragments that the next record or checkpoint frees.
    pub fragments_waiting: u64,
    /// Fragments that are free and kept for files that are being written, where the
    /// policy gave more than was asked for.
    pub fragments_kept: u64,
    /// Inodes that are free.
    pub inodes_free: u64,
    /// Cylinder groups.
    pub groups_of_cylinders: u64,
}

/// The pieces that free room is in, as the policy sees it: what lies behind each
/// other is several pieces of a buddy system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FreeSpace {
    /// How many there are.
    pub runs: u64,
    /// Fragments in all of them.
    pub fragments: u64,
    /// Fragments in the longest.
    pub longest: u64,
    /// Fragments in the run that has the middle one of all free fragments: half of
    /// what is free lies in runs of so many or more.
    pub median: u64,
}

impl FreeSpace {
    /// Of runs of these lengths.
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

/// The room of one cylinder group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GroupRoom {
    /// Whole blocks that are free.
    pub blocks_free: u64,
    /// Fragments that are free, those in whole blocks included.
    pub fragments_free: u64,
    /// Inodes that are free.
    pub inodes_free: u64,
    /// Directories.
    pub directories: u64,
}

impl Ffs {
    /// What lives on the volume.
    pub fn usage_now(&self) -> Usage {
        self.writer.lock().usage
    }

    /// What the volume has done since it was mounted.
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

    /// How free room lies. What is kept for files is not among it. Lists every run, and
    /// nobody writes meanwhile: for whoever asks once.
    pub fn free_space(&self) -> FreeSpace {
        let runs = self.writer.lock().room.free_runs();
        FreeSpace::of(runs.iter().map(|run| run.units).collect())
    }

    /// The room of each cylinder group.
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
