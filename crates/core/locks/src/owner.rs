//! The owners of locks: transactions, and transactions nested in them.
//!
//! A transaction and all that are nested in it, at any depth, are a *branch*; the
//! branch of a transaction that is nested in no other is a family. When a transaction
//! commits, its locks move to its parent. For owners outside of a branch a lock is
//! therefore released only when the whole branch has ended, and a request that waits
//! for one lock of a branch waits for the branch.

use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;
use varve_device::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Identifies a transaction that may hold locks. A table never assigns a number twice;
/// of two transactions the one with the greater number is the younger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub u64);

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A transaction and those that it is nested in, the outermost first.
pub(crate) type Line = SmallVec<[OwnerId; 2]>;

/// The cost of an owner whose cost was not set: the number of its locks.
const BY_LOCKS: u64 = u64::MAX;

/// The state of a transaction, apart from its locks.
#[derive(Debug)]
pub(crate) struct Owner {
    pub line: Line,
    parent: Option<Arc<Owner>>,
    cancelled: AtomicBool,
    pinned: AtomicBool,
    cost: AtomicU64,
    /// Number of locks on its chain.
    held: AtomicU64,
    /// True once another transaction was nested in it.
    is_parent: AtomicBool,
    /// Number of requests of its branch that wait.
    waits: AtomicU64,
}

impl Owner {
    pub(crate) fn new(id: OwnerId, parent: Option<Arc<Owner>>) -> Owner {
        let mut line = Line::new();
        if let Some(parent) = &parent {
            line.extend_from_slice(&parent.line);
            parent.is_parent.store(true, Relaxed);
        }
        line.push(id);
        Owner {
            line,
            parent,
            cancelled: AtomicBool::new(false),
            pinned: AtomicBool::new(false),
            cost: AtomicU64::new(BY_LOCKS),
            held: AtomicU64::new(0),
            is_parent: AtomicBool::new(false),
            waits: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn id(&self) -> OwnerId {
        self.line[self.line.len() - 1]
    }

    pub(crate) fn root(&self) -> OwnerId {
        self.line[0]
    }

    pub(crate) fn parent(&self) -> Option<&Owner> {
        self.parent.as_deref()
    }

    /// Returns true if the transaction is its whole family and has no lock.
    pub(crate) fn is_alone_with_nothing(&self) -> bool {
        self.parent.is_none() && !self.is_parent.load(Relaxed) && self.held.load(Relaxed) == 0
    }

    /// Marks the transaction as cancelled, before its waiting requests are searched
    /// for.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, SeqCst);
    }

    /// Returns true if the transaction, or one that it is nested in, was cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        let outer = || self.parent.as_ref().is_some_and(|p| p.is_cancelled());
        self.cancelled.load(SeqCst) || outer()
    }

    /// Counts a waiting request, before the request checks whether its owner was
    /// cancelled. Either the thread that cancels sees the count, or the request sees
    /// the mark.
    pub(crate) fn begin_wait(&self) {
        self.waits.fetch_add(1, SeqCst);
        if let Some(parent) = &self.parent {
            parent.begin_wait();
        }
    }

    pub(crate) fn end_wait(&self) {
        self.waits.fetch_sub(1, SeqCst);
        if let Some(parent) = &self.parent {
            parent.end_wait();
        }
    }

    /// Returns the number of requests of its family that wait, or are about to.
    pub(crate) fn family_waits(&self) -> u64 {
        let parent = self.parent.as_ref();
        parent.map_or_else(|| self.waits(), |parent| parent.family_waits())
    }

    /// Returns the number of requests of its branch that wait, or are about to.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(SeqCst)
    }

    pub(crate) fn pin(&self, pinned: bool) {
        self.pinned.store(pinned, Relaxed);
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned.load(Relaxed)
    }

    pub(crate) fn set_cost(&self, cost: u64) {
        self.cost.store(cost.min(BY_LOCKS - 1), Relaxed);
    }

    #[inline]
    pub(crate) fn set_held(&self, held: usize) {
        self.held.store(held as u64, Relaxed);
    }

    /// Returns the amount of work that is lost if the transaction is aborted.
    pub(crate) fn cost(&self) -> u64 {
        match self.cost.load(Relaxed) {
            BY_LOCKS => self.held.load(Relaxed),
            cost => cost,
        }
    }
}
