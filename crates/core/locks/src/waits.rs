//! Who waits, all over the table, and what became of those who did.
//!
//! Invariant: a request is entered under the mutex of its object's shard, before
//! anybody looks for a deadlock on its account. So he who closes a circle finds the
//! others of it here.

use crate::error::LockError;
use crate::owner::Owner;
use crate::places::{Mutex, Place};
use crate::request::Request;
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_device::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A request's place among those that ever waited.
pub(crate) type Ticket = u64;

pub(crate) struct Waits<K> {
    entered: Mutex<Entered<K>>,
    pub granted: AtomicU64,
    pub deadlocks: AtomicU64,
    pub timeouts: AtomicU64,
    pub cancels: AtomicU64,
    pub searches: AtomicU64,
    pub longest_ns: AtomicU64,
}

struct Entered<K> {
    next: Ticket,
    requests: BTreeMap<Ticket, Arc<Request<K>>>,
}

impl<K> Waits<K> {
    pub(crate) fn new() -> Self {
        let entered = Entered {
            next: 0,
            requests: BTreeMap::new(),
        };
        Waits {
            entered: Mutex::new(Place::Waits, entered),
            granted: AtomicU64::new(0),
            deadlocks: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
            cancels: AtomicU64::new(0),
            searches: AtomicU64::new(0),
            longest_ns: AtomicU64::new(0),
        }
    }

    /// Enters a request; none if its owner is cancelled.
    pub(crate) fn enter(&self, request: &Arc<Request<K>>) -> Option<Ticket> {
        let mut entered = self.entered.lock();
        request.owner.begin_wait();
        if request.owner.is_cancelled() {
            request.owner.end_wait();
            return None;
        }
        let ticket = entered.next;
        entered.next += 1;
        entered.requests.insert(ticket, Arc::clone(request));
        Some(ticket)
    }

    pub(crate) fn leave(&self, ticket: Ticket) {
        let left = self.entered.lock().requests.remove(&ticket);
        left.expect("entered").owner.end_wait();
    }

    /// Those that were entered and have not left, the oldest first. Some may have
    /// an outcome already.
    pub(crate) fn all(&self) -> Vec<Arc<Request<K>>> {
        self.entered.lock().requests.values().cloned().collect()
    }

    /// Those of one branch.
    pub(crate) fn of(&self, branch: &Owner) -> Vec<Arc<Request<K>>> {
        if branch.waits() == 0 {
            return Vec::new();
        }
        let entered = self.entered.lock();
        let all = entered.requests.values();
        let its = all.filter(|request| request.owner.line.contains(&branch.id()));
        its.cloned().collect()
    }

    /// How many ever waited.
    pub(crate) fn count(&self) -> u64 {
        self.entered.lock().next
    }

    pub(crate) fn note(&self, result: Result<(), LockError>, waited_ns: u64) {
        let counter = match result {
            Ok(()) => &self.granted,
            Err(LockError::Deadlock) => &self.deadlocks,
            Err(LockError::Timeout) => &self.timeouts,
            Err(LockError::Cancelled) => &self.cancels,
        };
        counter.fetch_add(1, Relaxed);
        self.longest_ns.fetch_max(waited_ns, Relaxed);
    }
}
