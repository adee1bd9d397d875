//! Snapshots: states of the log that are kept readable (`docs/design/transactions.md`).
//!
//! A snapshot is the layers of a moment: the base image, the frozen delta, and what
//! the live delta knew of each inode, which is shared until it changes. Segments that
//! it may refer to are not opened anew while it is held (`segments/pins.rs`). After a
//! crash nothing is left of it.

use crate::committed::Committed;
use crate::locks::RankedRwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire};
use varve_fs::SnapshotNo;

/// A state of the log.
pub(crate) struct PinnedState {
    pub committed: RankedRwLock<Committed>,
    pub broken: Arc<AtomicBool>,
}

impl PinnedState {
    /// # Errors
    /// `Aborted` if it has been given up.
    pub fn check(&self) -> varve_fs::Result<()> {
        match self.broken.load(Acquire) {
            true => Err(varve_fs::Error::Aborted),
            false => Ok(()),
        }
    }
}

/// Those that are held.
#[derive(Default)]
pub(crate) struct Snapshots {
    pub held: BTreeMap<SnapshotNo, Arc<PinnedState>>,
    pub taken: u64,
    /// Snapshots of the volume that are open, and their numbers.
    pub opened: BTreeMap<SnapshotNo, u32>,
    /// When the log last named the snapshots that keep space, by the volume's clock.
    pub reported_ns: Option<i64>,
}
