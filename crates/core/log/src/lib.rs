//! The log-structured layout: segments, summaries, ifile, checkpoints,
//! roll-forward and the cleaner mechanism.
//!
//! [`Lfs`] is a [`varve_fs::Layout`]: the file system decides what changes
//! together, this crate decides where it goes. Everything is appended to a
//! log of segments; nothing live is overwritten but the checkpoint ring and
//! the owner record. `DESIGN.md` is the guide, `docs/spec/log.md` the format.
//!
//! Source: Rosenblum & Ousterhout 1992; Seltzer 1992, chapter 6.

mod absorb;
mod admission;
mod ahead;
mod apply;
mod base;
mod bytes;
mod chain;
mod checkpoint;
pub mod cleaner;
mod committed;
mod control;
mod counts;
mod delta;
mod durability;
mod error;
mod failures;
pub mod format;
#[doc(hidden)]
pub mod fuzzing;
mod geometry;
mod grants;
mod heads;
mod history;
mod hold;
mod inodes;
mod kept;
mod layers;
mod layout;
mod lfs;
mod locks;
mod log;
mod mark;
mod mechanism;
mod mkfs;
mod mount;
mod newest;
mod options;
mod outside;
pub mod policy;
mod ranges;
mod reader;
mod recovery;
mod relocate;
mod resize;
mod schedule;
mod segment_map;
mod segments;
pub mod shipping;
mod snapshots;
mod space;
mod speed;
mod spills;
mod statistics;
mod superblocks;
mod trim;
mod tune;
mod volume;
mod volume_snapshots;
mod writer;

/// For the model checker, which runs the account of what is durable alone.
#[cfg(feature = "shuttle")]
#[doc(hidden)]
pub use bytes::partial::PartialBytes;
#[cfg(feature = "shuttle")]
#[doc(hidden)]
pub use durability::{Durability, InFlight};
pub use error::{Error, Result};
pub use failures::{Failure, FailureKind, FailureOutcome};
pub use geometry::Geometry;
pub use heads::MAX_HEADS;
pub use lfs::Lfs;
pub use mkfs::{FormatOptions, format as format_volume, plan as plan_volume};
pub use options::MountOptions;
pub use recovery::RecoveryReport;
pub use resize::{Grown, ResizeOptions, plan_resize, resize};
pub use segment_map::{SegmentUse, Utilisation};
pub use segments::{Edition, SegmentState};
pub use statistics::{STEPS, Statistics};
pub use superblocks::{newest_bytes, superblock_offsets};
pub use tune::tune;
pub use varve_format::OwnerIdentity;
pub use varve_format::identity::Tune;
pub use volume_snapshots::SnapshotSpace;

/// What those who look at a volume from outside share with the log, so that there
/// is one reader of everything on it. It follows the log, and is no interface.
#[doc(hidden)]
pub mod internal {
    pub use crate::apply::Record;
    pub use crate::base::Base;
    pub use crate::chain::{ChainItem, MapPage, Payload, Summary, maps_in, summaries_of};
    pub use crate::checkpoint::Checkpoints;
    pub use crate::committed::Lookup;
    pub use crate::delta::{Answer, Delta, InodeDelta, RangeState};
    pub use crate::durability::Durability;
    pub use crate::format::history::{DisplacedBlock, HISTORY, Identity};
    pub use crate::format::index::{INDEX, Index, MAX_BLOCK};
    pub use crate::heads::{LogEnd, is_entered, place_of};
    pub use crate::history::HistoryImage;
    pub use crate::hold::{HeldSegment, Hold};
    pub use crate::kept::{attributes, data_block};
    pub use crate::layers::Layers;
    pub use crate::log::{GroupKind, LogItem};
    pub use crate::mechanism::Mechanism;
    pub use crate::mkfs::{Reserve, default_segment_bytes, first_record, fixed_layout};
    pub use crate::mount::Parts;
    pub use crate::outside::Verifying;
    pub use crate::reader::{Reader, Tree};
    pub use crate::recovery::{
        Image, Recovered, clear_leftover, load_base, read_ring, read_what_is_readable, recover,
        roll_forward, unfinished_after, valid_records,
    };
    pub use crate::segments::SegmentTable;
    pub use crate::space::Space;
    pub use crate::statistics::Counters;
    pub use crate::superblocks::{newest as newest_superblock, write as write_superblocks};
    pub use crate::writer::Writer;
}
