//! What a private tree stands on, and who stands on a tree.

use super::Kind;
use crate::error::{Error, Result};
use crate::layout::{Layout, Position, Usage};
use crate::memory::store::Store;
use crate::types::{InodeNo, SnapshotNo};
use std::sync::{Arc, Weak};
use varve_device::sync::Mutex;
use varve_device::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// What a private tree, which is a `T`, stands on.
pub(crate) struct Below<T, L: Layout> {
    /// The tree of which a commit makes it a part.
    pub target: Arc<T>,
    /// The snapshot it stands on, and the last group in that; on the target itself, if
    /// there is none.
    pub snapshot: Option<(SnapshotNo, Position)>,
    /// That snapshot, until the end.
    pub holds: Mutex<Option<Arc<Snapshot<L>>>>,
    /// What the tree took at the beginning.
    pub usage: Usage,
    /// What it counts for in the target's budget.
    pub charged: AtomicU64,
    /// How it is isolated.
    pub kind: Kind,
    /// It takes no more changes.
    pub ended: AtomicBool,
    /// A change was refused because transactions take too much memory.
    pub too_large: AtomicBool,
    /// A transaction within this one is open, or becomes part of it.
    pub has_inner: AtomicBool,
    /// It is open: nothing else is done in this one.
    pub is_suspended: AtomicBool,
    /// Numbers that were free, and are another file's in the snapshot.
    pub put_aside: Mutex<Vec<InodeNo>>,
    /// Held by who spills it: two at once would write the same blocks.
    pub spilling: Mutex<()>,
}

impl<T, L: Layout> Below<T, L> {
    /// Nothing more is done in it.
    pub fn is_over(&self) -> bool {
        self.ended.load(SeqCst) || self.is_doomed()
    }

    /// Something may be done in it.
    ///
    /// # Errors
    /// `Suspended` while a transaction within it is open: that one stands on what
    /// would change, and may hold locks that this one would wait for.
    #[inline]
    pub fn goes_on(&self) -> Result<()> {
        match self.is_suspended.load(Relaxed) {
            false => Ok(()),
            true => Err(Error::Suspended),
        }
    }

    /// It has not got a lock.
    pub fn is_doomed(&self) -> bool {
        match &self.kind {
            Kind::Locking(locking) => locking.doomed.load(SeqCst),
            Kind::Snapshot | Kind::Serializable(_) => false,
        }
    }
}

/// A state of the layout that is held.
pub(crate) struct Snapshot<L: Layout> {
    pub store: Arc<Store<L>>,
    pub number: SnapshotNo,
    /// The last group in it.
    pub position: Position,
}

impl<L: Layout> Drop for Snapshot<L> {
    fn drop(&mut self) {
        self.store.layout.release_snapshot(self.number);
    }
}

/// The newest snapshot, for whoever begins while nothing has changed.
pub(crate) type Snapshots<L> = Mutex<Weak<Snapshot<L>>>;

/// The trees that stand on one.
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
