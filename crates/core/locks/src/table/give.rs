//! Requests for locks, granted at once or after a wait.
//!
//! A lock that is granted at once is put on the owner's chain under the mutexes of
//! both. A lock that is granted after a wait is put there by the waiting thread; if the
//! owner has ended meanwhile, this thread releases the lock.

use super::{Detection, LockTable};
use crate::error::LockError;
use crate::mode::Mode;
use crate::object::Answer;
use crate::objects::Key;
use crate::owner::OwnerId;
use crate::request::{Asker, Request};
use crate::span::Span;
use crate::waits::Ticket;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

impl<K: Key> LockTable<K> {
    /// Locks the whole of an object for an owner, and waits for that as long as
    /// `timeout` allows, without limit if it is `None`. If the owner already holds a
    /// lock on the object, it then holds the join of both. With a time-out of zero the
    /// call does not wait.
    ///
    /// # Errors
    /// [`LockError::Deadlock`], [`LockError::Timeout`] and [`LockError::Cancelled`].
    /// The owner then gains no lock by this request.
    #[inline]
    pub fn lock(
        &self,
        owner: OwnerId,
        key: &K,
        mode: Mode,
        timeout: Option<Duration>,
    ) -> Result<(), LockError> {
        self.give(owner, key, Span::WHOLE, mode, timeout)
    }

    /// Locks a span of an object as [`lock`](Self::lock) does.
    ///
    /// Spans of one owner and mode that touch are one lock. Each request examines all
    /// locks of its object, so thousands of spans on one object are slow.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    ///
    /// # Panics
    /// If the span is empty.
    #[inline]
    pub fn lock_span(
        &self,
        owner: OwnerId,
        key: &K,
        span: Range<u32>,
        mode: Mode,
        timeout: Option<Duration>,
    ) -> Result<(), LockError> {
        self.give(owner, key, Span::new(span), mode, timeout)
    }

    /// Locks the whole of an object if this needs no wait. Returns false if it does, or
    /// if the owner has ended.
    pub fn try_lock(&self, owner: OwnerId, key: &K, mode: Mode) -> bool {
        self.try_span(owner, key, Span::WHOLE, mode)
    }

    /// Locks a span of an object as [`try_lock`](Self::try_lock) does.
    ///
    /// # Panics
    /// If the span is empty.
    pub fn try_lock_span(&self, owner: OwnerId, key: &K, span: Range<u32>, mode: Mode) -> bool {
        self.try_span(owner, key, Span::new(span), mode)
    }

    fn try_span(&self, owner: OwnerId, key: &K, span: Span, mode: Mode) -> bool {
        let given = self.give(owner, key, span, mode, Some(Duration::ZERO));
        given.is_ok()
    }

    #[inline]
    fn give(
        &self,
        id: OwnerId,
        key: &K,
        span: Span,
        mode: Mode,
        timeout: Option<Duration>,
    ) -> Result<(), LockError> {
        let hash = self.objects.hash(key);
        let mut owners = self.owners.lock(id);
        let record = owners.get_mut(&id).ok_or(LockError::Cancelled)?;
        let asker = Asker {
            line: &record.owner.line,
            span,
            mode,
        };
        let mut shard = self.objects.lock(hash);
        match shard.ask(hash, key, &asker, &self.families) {
            Answer::First => {
                record.chain(key.clone());
                return Ok(());
            }
            Answer::More => return Ok(()),
            Answer::Busy => {}
        }
        let wanted = asker.hold();
        let owner = Arc::clone(&record.owner);
        drop(owners);
        if timeout == Some(Duration::ZERO) {
            return Err(match owner.is_cancelled() {
                true => LockError::Cancelled,
                false => LockError::Timeout,
            });
        }
        let since_ns = self.clock.monotonic_ns();
        let request = Request::new(key.clone(), hash, owner, &wanted, since_ns);
        let request = Arc::new(request);
        let Some(ticket) = self.waits.enter(&request) else {
            return Err(LockError::Cancelled);
        };
        shard.enqueue(Arc::clone(&request));
        drop(shard);
        self.wait(&request, ticket, timeout)
    }

    #[cold]
    fn wait(
        &self,
        request: &Arc<Request<K>>,
        ticket: Ticket,
        timeout: Option<Duration>,
    ) -> Result<(), LockError> {
        if self.detection == Detection::AtWait {
            self.search(request);
        }
        let timeout_ns = timeout.map(|timeout| timeout.as_nanos().try_into().unwrap_or(u64::MAX));
        let deadline_ns = timeout_ns.map(|ns: u64| request.since_ns.saturating_add(ns));
        let outcome = request.wait(&*self.clock, deadline_ns).unwrap_or_else(|| {
            let affected = self.fail(request, LockError::Timeout);
            self.search_again(affected);
            request.outcome().expect("failed now or settled before")
        });
        let result = outcome.and_then(|first| match first {
            true => self.adopt(&request.owner, vec![request.key.clone()]),
            false => Ok(()),
        });
        let waited_ns = self.clock.monotonic_ns().saturating_sub(request.since_ns);
        self.waits.note(result, waited_ns);
        // The request leaves only after its lock is on the chain, because an owner that
        // has neither a lock nor another wait is taken to be in no deadlock.
        self.waits.leave(ticket);
        result
    }
}
