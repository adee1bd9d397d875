//! The log-structured layout: segments, summaries, ifile, checkpoints,
//! roll-forward and the cleaner mechanism.
//!
//! [`Lfs`] is a [`varve_fs::Layout`]: the file system decides what changes
//! together, this crate decides where it goes. Everything is appended to a
//! log of segments; nothing live is overwritten but the checkpoint ring and
//! the owner record. `DESIGN.md` is the guide, `docs/format.md` the format.
//!
//! Source: Rosenblum & Ousterhout 1992; Seltzer 1992, chapter 6.

mod absorb;
mod apply;
mod base;
mod chain;
pub mod check;
mod checkpoint;
pub mod cleaner;
mod committed;
mod delta;
mod durability;
mod error;
mod failures;
pub mod format;
#[doc(hidden)]
pub mod fuzzing;
mod geometry;
mod heads;
mod inodes;
pub mod inspect;
mod layout;
mod lfs;
mod locks;
mod log;
mod mkfs;
mod mount;
mod ranges;
mod reader;
mod recovery;
pub mod repair;
pub mod salvage;
mod segment_map;
mod segments;
mod space;
mod speed;
mod statistics;
mod trim;
pub mod verify;
pub mod vlfs;

/// For the model checker, which runs it alone.
#[cfg(feature = "shuttle")]
#[doc(hidden)]
pub use durability::{Durability, InFlight};
pub use error::{Error, Result};
pub use failures::{Failure, FailureKind, FailureOutcome};
pub use geometry::Geometry;
pub use heads::MAX_HEADS;
pub use lfs::{Lfs, MountOptions, OwnerIdentity};
pub use mkfs::{FormatOptions, format as format_volume, plan as plan_volume, superblock_offsets};
pub use recovery::RecoveryReport;
pub use segment_map::{STEPS, SegmentUse, Utilisation};
pub use segments::{Edition, SegmentState};
pub use statistics::Statistics;
pub use vlfs::{Vlfs, VlfsFormatOptions, VlfsMountOptions};
