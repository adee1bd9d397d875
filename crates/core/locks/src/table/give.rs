//! Asking for a lock: granted at once, or after a wait.
//!
//! What is granted at once is granted and put on the owner's chain under the mutexes
//! of both. What is granted after a wait is put there by him who waited: if its owner
//! has ended meanwhile, he releases it again.

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
    /// `timeout` allows, or for ever. What the owner has already is kept: he holds the
    /// join of both then. With a time-out of zero nobody waits.
    ///
    /// # Errors
    /// [`LockError::Deadlock`], [`LockError::Timeout`] and [`LockError::Cancelled`].
    /// Nothing is held from this request then.
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

    /// [`lock`](Self::lock), of a part of the object.
    ///
    /// Spans of one owner and mode that touch are one lock. Each request looks at
    /// all locks of its object: thousands of spans on one are slow.
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

    /// Locks the whole of an object if nobody has to be waited for. False if not, or
    /// if the owner has ended.
    pub fn try_lock(&self, owner: OwnerId, key: &K, mode: Mode) -> bool {
        self.try_span(owner, key, Span::WHOLE, mode)
    }

    /// [`try_lock`](Self::try_lock), of a part of the object.
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
        // Not before its lock is on the chain: who holds nothing and has no other
        // wait is in no deadlock.
        self.waits.leave(ticket);
        result
    }
}
