//! All waiting requests of the table, and counts of their outcomes.
//!
//! Invariant: a request is entered under the mutex of its object's shard, before a
//! search for a deadlock on its account begins. The search of the request that closes a
//! cycle therefore finds the other requests of the cycle here.

use crate::error::LockError;
use crate::owner::Owner;
use crate::places::{Mutex, Place};
use crate::request::Request;
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_device::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of a request among all that ever waited.
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

    /// Enters a request; returns `None` if its owner is cancelled.
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

    /// Returns the requests that were entered and have not left, the oldest first. Some
    /// may already have an outcome.
    pub(crate) fn all(&self) -> Vec<Arc<Request<K>>> {
        self.entered.lock().requests.values().cloned().collect()
    }

    /// Returns the waiting requests of one branch.
    pub(crate) fn of(&self, branch: &Owner) -> Vec<Arc<Request<K>>> {
        if branch.waits() == 0 {
            return Vec::new();
        }
        let entered = self.entered.lock();
        let all = entered.requests.values();
        let its = all.filter(|request| request.owner.line.contains(&branch.id()));
        its.cloned().collect()
    }

    /// Returns the number of requests that ever waited.
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
