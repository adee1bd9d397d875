//! The log-structured layout of one mounted volume.
//!
//! The order of its locks is in [`crate::locks`].

use crate::checkpoint::Checkpoints;
use crate::cleaner::Cleaner;
use crate::control::Control;
use crate::control::ahead::Ahead;
use crate::durability::Durability;
use crate::error::Result;
use crate::format::Superblock;
use crate::geometry::Geometry;
use crate::inodes::InodeAllocator;
use crate::layers::Layers;
use crate::locks::RankedMutex;
use crate::log::LogState;
use crate::mechanism::Mechanism;
use crate::newest::Newest;
use crate::options::MountOptions;
use crate::reader::Reader;
use crate::recovery::RecoveryReport;
use crate::segments::SegmentTable;
use crate::space::Space;
use crate::statistics::{Counters, Statistics};
use crate::writer::Writer;
use std::sync::Arc;
use varve_device::{Clock, Device};

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
    pub(crate) control: Arc<Control>,
    pub(crate) allocator: Arc<RankedMutex<InodeAllocator>>,
    pub(crate) log: Arc<RankedMutex<LogState>>,
    pub(crate) ahead: Ahead,
    pub(crate) layers: Arc<Layers>,
    pub(crate) space: Arc<Space>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) cleaner: Arc<Cleaner>,
    pub(crate) checkpoints: Arc<Checkpoints>,
    pub(crate) mechanism: Arc<Mechanism>,
    pub(crate) segments: Arc<RankedMutex<SegmentTable>>,
    /// Inodes that recovery found without names or half truncated.
    pub(crate) unfinished: Vec<u64>,
    pub(crate) recovery: RecoveryReport,
}

impl Lfs {
    /// The committed state.
    #[doc(hidden)]
    pub fn layers(&self) -> &Layers {
        &self.layers
    }

    /// The account of free space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// What appends to the log.
    #[doc(hidden)]
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// What empties segments.
    pub fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }

    /// Segments that an archive wants of the cleaner. Only one archive runs at a time.
    pub fn tap(&self) -> &crate::control::tap::Tap {
        &self.control.tap
    }

    /// What takes checkpoints.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// The cleaner.
    pub fn cleaner(&self) -> &Cleaner {
        &self.cleaner
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
        self.durability.stopped()
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
