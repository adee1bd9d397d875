//! A request that waits, and its outcome.
//!
//! Invariants:
//! - A request is in its object's queue if and only if it has no outcome. Both change
//!   together, under the mutex of the object's shard.
//! - The outcome is set once, by the thread that removes the request from the queue.

use crate::error::LockError;
use crate::holds::Hold;
use crate::mode::Mode;
use crate::owner::{Owner, OwnerId};
use crate::span::Span;
use std::sync::Arc;
use std::time::Duration;
use varve_device::Clock;
use varve_device::sync::{Condvar, Mutex};

/// `Ok` if the request was granted: true if it is its owner's first lock on the object.
pub(crate) type Outcome = Result<bool, LockError>;

/// A requester, and the span and mode that it wants.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub line: &'a [OwnerId],
    pub span: Span,
    pub mode: Mode,
}

impl Asker<'_> {
    #[inline]
    pub(crate) fn hold(&self) -> Hold {
        Hold {
            owner: self.line[self.line.len() - 1],
            span: self.span,
            mode: self.mode,
        }
    }

    /// Returns true if the request cannot be granted while the other lock is held.
    /// Locks of the requester, and of transactions that it is nested in, never
    /// conflict.
    #[inline]
    pub(crate) fn conflicts(&self, other: &Hold) -> bool {
        !self.mode.compatible(other.mode)
            && self.span.overlaps(other.span)
            && !self.line.contains(&other.owner)
    }
}

pub(crate) struct Request<K> {
    pub key: K,
    pub hash: u64,
    pub owner: Arc<Owner>,
    pub span: Span,
    pub mode: Mode,
    pub since_ns: u64,
    outcome: Mutex<Option<Outcome>>,
    settled: Condvar,
}

impl<K> Request<K> {
    pub(crate) fn new(key: K, hash: u64, owner: Arc<Owner>, wanted: &Hold, since_ns: u64) -> Self {
        Request {
            key,
            hash,
            owner,
            span: wanted.span,
            mode: wanted.mode,
            since_ns,
            outcome: Mutex::new(None),
            settled: Condvar::default(),
        }
    }

    pub(crate) fn asker(&self) -> Asker<'_> {
        Asker {
            line: &self.owner.line,
            span: self.span,
            mode: self.mode,
        }
    }

    /// Sets the outcome. The caller has the mutex of the object's shard.
    pub(crate) fn settle(&self, outcome: Outcome) {
        let before = self.outcome.lock().replace(outcome);
        assert!(before.is_none(), "settled as {before:?}, then {outcome:?}");
        self.settled.notify_all();
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        *self.outcome.lock()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.outcome().is_none()
    }

    /// Waits for the outcome; returns `None` if there is none at the deadline.
    pub(crate) fn wait(&self, clock: &dyn Clock, deadline_ns: Option<u64>) -> Option<Outcome> {
        let mut outcome = self.outcome.lock();
        while outcome.is_none() {
            let Some(deadline_ns) = deadline_ns else {
                self.settled.wait(&mut outcome);
                continue;
            };
            let left_ns = deadline_ns.saturating_sub(clock.monotonic_ns());
            if left_ns == 0 {
                return None;
            }
            let left = Duration::from_nanos(left_ns);
            self.settled.wait_for(&mut outcome, left);
        }
        *outcome
    }
}
