//! The tree below a private tree, and the private trees above a tree.

use super::Kind;
use crate::error::{Error, Result};
use crate::layout::{Layout, Position, Usage};
use crate::memory::store::Store;
use crate::types::{InodeNo, SnapshotNo};
use std::sync::{Arc, Weak};
use varve_device::sync::Mutex;
use varve_device::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// The state below a private tree of type `T`.
pub(crate) struct Below<T, L: Layout> {
    /// The tree into which a commit merges it.
    pub target: Arc<T>,
    /// The snapshot below it, and the last group in that; `None` if it is directly above
    /// the target.
    pub snapshot: Option<(SnapshotNo, Position)>,
    /// Pin of that snapshot, until the tree's end.
    pub holds: Mutex<Option<Arc<Snapshot<L>>>>,
    /// Usage of the tree at its beginning.
    pub usage: Usage,
    /// Bytes charged to the target's budget.
    pub charged: AtomicU64,
    /// Method of isolation.
    pub kind: Kind,
    /// The tree takes no more changes.
    pub ended: AtomicBool,
    /// A change was refused because transactions take too much memory.
    pub too_large: AtomicBool,
    /// A nested transaction is open, or is being merged into this one.
    pub has_inner: AtomicBool,
    /// A nested transaction is open, and this one takes no calls meanwhile.
    pub is_suspended: AtomicBool,
    /// Numbers that were free when allocated but belong to another file in the snapshot.
    pub put_aside: Mutex<Vec<InodeNo>>,
    /// Taken while the tree is spilled, because two threads would write the same blocks.
    pub spilling: Mutex<()>,
}

impl<T, L: Layout> Below<T, L> {
    /// True if the tree takes no more calls.
    pub fn is_over(&self) -> bool {
        self.ended.load(SeqCst) || self.is_doomed()
    }

    /// Checks that the tree takes calls.
    ///
    /// # Errors
    /// `Suspended` while a nested transaction is open: a change would be below that one,
    /// and it may have locks for which this one would wait.
    #[inline]
    pub fn goes_on(&self) -> Result<()> {
        match self.is_suspended.load(Relaxed) {
            false => Ok(()),
            true => Err(Error::Suspended),
        }
    }

    /// True if a lock was not granted, after which the tree is aborted.
    pub fn is_doomed(&self) -> bool {
        match &self.kind {
            Kind::Locking(locking) => locking.doomed.load(SeqCst),
            Kind::Snapshot | Kind::Serializable(_) | Kind::ReadOnly => false,
        }
    }
}

/// A pinned state of the layout.
pub(crate) struct Snapshot<L: Layout> {
    pub store: Arc<Store<L>>,
    pub number: SnapshotNo,
    /// Position of the last group in it.
    pub position: Position,
}

impl<L: Layout> Drop for Snapshot<L> {
    fn drop(&mut self) {
        self.store.layout.release_snapshot(self.number);
    }
}

/// The newest snapshot, shared by transactions that begin while nothing changes.
pub(crate) type Snapshots<L> = Mutex<Weak<Snapshot<L>>>;

/// The private trees above a tree.
pub(crate) struct Open<T> {
    pub trees: Vec<Weak<T>>,
    /// The volume is being unmounted.
    pub closed: bool,
}

impl<T> Default for Open<T> {
    fn default() -> Self {
        Open {
            trees: Vec::new(),
            closed: false,
        }
    }
}
