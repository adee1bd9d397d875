//! Room: what is counted and what is kept. Who is admitted, and when a checkpoint or
//! the cleaner must run for that, is `admission.rs`, above the cleaner, which asks
//! here. `docs/design/space.md` has the argument.
//!
//! **The invariant.** *From every reachable state, any sequence of removals, in any
//! order, with checkpoints and cleaning between them, ends with an empty volume.*
//! Four rules keep it:
//!
//! - **R1, a checkpoint always fits.** Nothing is admitted, appended or moved unless
//!   the log's room then holds what waits in memory, what folding all of it may
//!   write, and the usage table of one checkpoint more ([`room`]). What a fold may
//!   write is counted from the delta alone (`counts.rs`).
//! - **R2, what grows leaves room** for the inode map and the index nodes to be
//!   written twice and for the cleaner to move a batch: the floor ([`room`]).
//! - **R3, what lives fits**, metadata and twice that once more included, into what
//!   the reserve leaves ([`fit`]).
//! - **R4, removals are admitted under R1 alone.** Where that does not hold, what
//!   waits is appended, a checkpoint is taken, the cleaner works; while room is
//!   short, they wait for it (`admission.rs`).
//!
//! Source of the two forms of accounting: Seltzer's thesis, §6.2.2.

mod fit;
mod history;
mod marks;
mod room;
mod stock;

pub(crate) use fit::Fit;
pub(crate) use stock::Stock;

use crate::control::Control;
use crate::format::Superblock;
use crate::geometry::Geometry;
use crate::heads::MAX_HEADS;
use crate::layers::Layers;
use crate::locks::RankedMutex;
use crate::log::LogState;
use crate::newest::Newest;
use crate::segments::SegmentTable;
use crate::statistics::Counters;
use std::sync::Arc;
use varve_device::Clock;
use varve_device::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The account of free space: sums over the committed state, the segment table and the end
/// of the log, which it only reads. Its own state are two counts of other modules.
pub struct Space {
    /// Number of heads of the log.
    heads: AtomicUsize,
    /// Upper bound of the inode numbers that are given out and in no group.
    loose_numbers: AtomicU64,
    layers: Arc<Layers>,
    segments: Arc<RankedMutex<SegmentTable>>,
    log: Arc<RankedMutex<LogState>>,
    geometry: Arc<Newest<Geometry>>,
    superblock: Arc<Newest<Superblock>>,
    control: Arc<Control>,
    counters: Arc<Counters>,
    clock: Arc<dyn Clock>,
}

impl Space {
    /// The account of a volume whose log has so many heads.
    pub(crate) fn new(
        (layers, segments): (Arc<Layers>, Arc<RankedMutex<SegmentTable>>),
        log: Arc<RankedMutex<LogState>>,
        superblock: Arc<Newest<Superblock>>,
        control: Arc<Control>,
        (counters, clock): (Arc<Counters>, Arc<dyn Clock>),
    ) -> Self {
        let heads = log.lock().end.heads();
        Space {
            heads: AtomicUsize::new(heads),
            loose_numbers: AtomicU64::new(0),
            geometry: layers.geometry(),
            layers,
            segments,
            log,
            superblock,
            control,
            counters,
            clock,
        }
    }

    /// Number of heads of the log.
    pub(crate) fn heads(&self) -> usize {
        self.heads.load(Relaxed)
    }

    /// The log has so many heads from now on.
    pub(crate) fn set_heads(&self, heads: usize) {
        assert!((1..=MAX_HEADS).contains(&heads), "{heads} heads");
        self.heads.store(heads, Relaxed);
    }

    /// Upper bound of the inode numbers that are given out and in no group.
    pub(crate) fn loose_numbers(&self) -> u64 {
        self.loose_numbers.load(Relaxed)
    }

    /// So many numbers are given out and in no group. The allocator is locked.
    pub(crate) fn set_loose_numbers(&self, count: u64) {
        self.loose_numbers.store(count, Relaxed);
    }
}
