//! How a volume is mounted.

use crate::control::{CleanerSettings, Pace};
use crate::format::owner::OwnerIdentity;
use crate::policy::PolicyKind;

/// How a volume is mounted.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Nothing is written; recovery happens in memory.
    pub read_only: bool,
    /// Bytes for decoded metadata and for what has changed since the last
    /// checkpoint.
    pub cache_bytes: u64,
    /// Fixes the mount's random identity, for reproducible runs.
    pub seed: Option<u64>,
    /// A checkpoint starts after this many bytes of log.
    pub checkpoint_bytes: u64,
    /// A checkpoint starts after this many seconds with changes.
    pub checkpoint_seconds: u64,
    /// Tell the device about segments that became clean.
    pub discard: bool,
    /// Threads that hand large groups to the device; 0 for none: callers do.
    pub write_threads: usize,
    /// Threads that fetch parts of the log that will be read next; 0 for
    /// none.
    pub read_threads: usize,
    /// Which segments the cleaner takes, and in which order survivors go.
    pub policy: PolicyKind,
    /// Heads of the log; 0 for as many as the policy wants. A volume gets fewer
    /// if its reserve would become too large, or too few segments are clean.
    pub heads: u32,
    /// Bytes for which a head is given a partial segment of a group; less goes
    /// to a neighbour, as each costs a summary and padding, 4 KiB. A block that
    /// goes to the wrong head costs a move or more, as much again for each.
    pub head_bytes: u64,
    /// Blocks may be written into holes where the volume can do that and is short
    /// of clean segments.
    pub holes: bool,
    /// When the mount's own cleaner works.
    pub pace: Pace,
    /// Groups of another volume's log are replayed: where this one stands is said
    /// before anything else is written (`docs/spec/stream.md`).
    pub replays: bool,
    /// Recorded in the owner record: host name, boot identity, process.
    pub owner: OwnerIdentity,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            read_only: false,
            cache_bytes: 16 << 20,
            seed: None,
            checkpoint_bytes: 128 << 20,
            checkpoint_seconds: 30,
            discard: false,
            write_threads: 0,
            read_threads: 0,
            policy: PolicyKind::default(),
            heads: 0,
            head_bytes: 16 << 10,
            holes: true,
            pace: Pace::default(),
            replays: false,
            owner: OwnerIdentity::default(),
        }
    }
}

impl MountOptions {
    /// Bytes of memory that one delta takes before a checkpoint is due. There
    /// are two while one is taken, and both count into the cache where that is
    /// large enough: on a small one checkpoints would follow each other too
    /// closely.
    pub(crate) fn delta_bytes(&self) -> u64 {
        (self.cache_bytes / 4).clamp(4 << 20, 32 << 20)
    }

    /// How the mount's own cleaner works.
    pub(crate) fn cleaner(&self) -> CleanerSettings {
        CleanerSettings {
            policy: self.policy,
            pace: self.pace,
        }
    }

    /// Bytes of decoded metadata kept.
    pub(crate) fn reader_bytes(&self) -> u64 {
        let deltas = (2 * self.delta_bytes()).min(self.cache_bytes / 2);
        self.cache_bytes - deltas
    }
}
