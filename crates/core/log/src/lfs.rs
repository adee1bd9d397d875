//! The log-structured layout of one mounted volume.
//!
//! The order of its locks is in [`crate::locks`].

use crate::control::ahead::Ahead;
use crate::control::{CleanerSettings, Control, Pace};
use crate::durability::Durability;
use crate::error::Result;
use crate::format::Superblock;
use crate::format::owner::OwnerIdentity;
use crate::geometry::Geometry;
use crate::inodes::InodeAllocator;
use crate::layers::Layers;
use crate::locks::RankedMutex;
use crate::log::{LogState, Output};
use crate::newest::Newest;
use crate::policy::PolicyKind;
use crate::reader::Reader;
use crate::recovery::RecoveryReport;
use crate::segments::SegmentTable;
use crate::space::Space;
use crate::spills::Spills;
use crate::statistics::{Counters, Statistics};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use varve_device::{Clock, Device};

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
    /// Threads that fetch what is going to be read next of the log; 0 for
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

/// A mounted volume.
pub struct Lfs {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) superblock: Arc<Newest<Superblock>>,
    pub(crate) volume_tag: u64,
    /// Shared with the reader.
    pub(crate) geometry: Arc<Newest<Geometry>>,
    pub(crate) options: Arc<MountOptions>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) durability: Arc<Durability>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) verifying: RankedMutex<()>,
    pub(crate) cleaning: RankedMutex<crate::control::state::CleanerState>,
    /// Held while live blocks are moved, so that what one cleaner was told it
    /// may use another has not used.
    pub(crate) moving: RankedMutex<()>,
    pub(crate) control: Arc<Control>,
    pub(crate) checkpointing: RankedMutex<crate::schedule::Schedule>,
    pub(crate) allocator: RankedMutex<InodeAllocator>,
    pub(crate) log: Arc<RankedMutex<LogState>>,
    pub(crate) output: Output,
    pub(crate) ahead: Ahead,
    /// Somebody looks for holes.
    pub(crate) finding_holes: AtomicBool,
    pub(crate) layers: Arc<Layers>,
    pub(crate) space: Arc<Space>,
    pub(crate) segments: Arc<RankedMutex<SegmentTable>>,
    pub(crate) spills: RankedMutex<Spills>,
    /// Inodes that recovery found without names or half truncated.
    pub(crate) unfinished: Vec<u64>,
    pub(crate) recovery: RecoveryReport,
    /// Why the volume takes no writes, if so from the start.
    pub(crate) read_only: Option<String>,
}

impl Lfs {
    /// What is committed.
    #[doc(hidden)]
    pub fn layers(&self) -> &Layers {
        &self.layers
    }

    /// The account of free space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// What recovery did when the volume was mounted.
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.recovery
    }

    /// The volume's superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The volume's measures.
    pub fn geometry_of_volume(&self) -> &Geometry {
        &self.geometry
    }

    /// Counters since the mount.
    pub fn statistics(&self) -> Statistics {
        self.counters.read()
    }

    /// The last failures of the device, oldest first.
    pub fn failures(&self) -> Vec<crate::Failure> {
        self.counters.failures.recent()
    }

    /// Why the volume takes no writes, if it does not.
    pub fn stopped(&self) -> Option<String> {
        self.read_only.clone().or_else(|| self.durability.stopped())
    }

    /// Forgets everything that could be read from the device again.
    pub fn drop_caches(&self) {
        self.reader.forget_all();
        self.layers.drop_images();
    }

    /// The superblock of a device that counts: the primary, or a copy.
    ///
    /// # Errors
    /// `NoVolume` says why the primary was refused.
    pub fn find_superblock(device: &dyn Device) -> Result<Superblock> {
        Ok(crate::superblocks::find(device)?.superblock)
    }
}
