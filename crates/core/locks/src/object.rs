//! One object: what is held on it, and who waits for it, in the order of arrival.
//!
//! **The rule.** A request waits for
//! 1. every hold that conflicts with it, and
//! 2. every earlier request that conflicts with it, unless that one itself waits for
//!    a branch that the requester belongs to.
//!
//! Two conflict if their spans overlap and their modes do not go together; nothing
//! that an owner or one he is nested in holds or waits for conflicts with what he
//! asks for. A request that waits for nothing is granted. So what is compatible with
//! all who wait goes past them; an upgrade, or anything else asked for by who holds a
//! lock in another's way, goes past that other, who would have to wait for him anyway
//! and whom to wait for would be a deadlock.
//!
//! **Nobody starves.** Let w wait, and let B be the branches that hold or wait
//! ahead of w in conflict with it. A later request that conflicts with w is granted
//! before w only by the exception, so its branch is in B already (a branch that w
//! waits for is named by any of its members alike). Hence B never grows after w has
//! come. It is finite, and loses a branch whenever one ends; when it is empty w is
//! granted. Locks last as long as transactions, of which a deadlocked one is ended by
//! detection, so w waits for the end of finitely many. What w's owner runs within
//! himself does not count among others: he waits for it by his own choice.
//!
//! The same says that going past w makes w wait for no branch that it did not wait
//! for. So whoever begins to wait closes a circle through himself or none at all.

use crate::error::LockError;
use crate::families::Families;
use crate::holds::{Hold, Holds};
use crate::owner::OwnerId;
use crate::request::{Asker, Request};
use smallvec::SmallVec;
use std::sync::Arc;

pub(crate) type Branches = SmallVec<[OwnerId; 4]>;

/// Whom each of the queue waits for, as far as somebody asked.
type Seen = Vec<Option<Branches>>;

/// What a request meets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Granted: the first lock of its owner on this object.
    First,
    /// Granted, or held already.
    More,
    /// It has to wait.
    Busy,
}

pub(crate) struct Object<K> {
    pub key: K,
    holds: Holds,
    queue: Vec<Arc<Request<K>>>,
}

impl<K> Object<K> {
    pub(crate) fn held(key: K, hold: Hold) -> Self {
        Object {
            key,
            holds: Holds::of(hold),
            queue: Vec::new(),
        }
    }

    pub(crate) fn holds(&self) -> &Holds {
        &self.holds
    }

    /// Nobody holds it. Then nobody waits for it.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.holds.is_empty()
    }

    /// Grants a new request, if it need not wait.
    #[inline]
    pub(crate) fn ask(&mut self, asker: &Asker<'_>, families: &Families) -> Answer {
        let wanted = asker.hold();
        if self.holds.covers(&wanted) {
            return Answer::More;
        }
        if !self.admits(asker, self.queue.len(), &mut Seen::new(), families) {
            return Answer::Busy;
        }
        match self.holds.add(wanted) {
            true => Answer::First,
            false => Answer::More,
        }
    }

    /// Has a request wait that was told to.
    pub(crate) fn enqueue(&mut self, request: Arc<Request<K>>) {
        self.queue.push(request);
    }

    /// Takes a waiting request out and ends it. False if it waits no longer.
    pub(crate) fn fail(
        &mut self,
        request: &Arc<Request<K>>,
        error: LockError,
        families: &Families,
    ) -> bool {
        let at = self
            .queue
            .iter()
            .position(|other| Arc::ptr_eq(other, request));
        if let Some(at) = at {
            self.queue.remove(at).settle(Err(error));
            self.advance(families);
        }
        at.is_some()
    }

    /// Changes what is held to something less, and grants what that allows.
    pub(crate) fn lessen<T>(
        &mut self,
        families: &Families,
        change: impl FnOnce(&mut Holds) -> T,
    ) -> T {
        let result = change(&mut self.holds);
        if !self.queue.is_empty() {
            self.advance(families);
        }
        result
    }

    /// Who of a family waits here. What they went past they may have to wait for,
    /// when their branch holds less than before.
    pub(crate) fn waiting_of(&self, root: OwnerId) -> impl Iterator<Item = &Arc<Request<K>>> {
        let all = self.queue.iter();
        all.filter(move |request| request.owner.root() == root)
    }

    /// True if nobody came after a waiting request.
    pub(crate) fn is_last(&self, request: &Arc<Request<K>>) -> bool {
        let last = self.queue.last();
        last.is_some_and(|last| Arc::ptr_eq(last, request))
    }

    /// Everybody who waits, and the branches that he waits for.
    pub(crate) fn waits(&self, families: &Families) -> Vec<(&Arc<Request<K>>, Branches)> {
        let mut seen = Seen::new();
        let mut waits = |at| self.branches(at, &mut seen, families).clone();
        let queue = self.queue.iter().enumerate();
        queue.map(|(at, request)| (request, waits(at))).collect()
    }

    /// Grants what waits for nothing. That lets nobody past who did not get past
    /// before, so once through the queue is enough.
    fn advance(&mut self, families: &Families) {
        let (mut at, mut seen) = (0, Seen::new());
        while at < self.queue.len() {
            if self.admits(&self.queue[at].asker(), at, &mut seen, families) {
                let request = self.queue.remove(at);
                // Whom the others wait for stays the same.
                seen.truncate(at);
                let first = self.holds.add(request.asker().hold());
                request.settle(Ok(first));
            } else {
                at += 1;
            }
        }
        let stuck = self.holds.is_empty() && !self.queue.is_empty();
        assert!(!stuck, "who waits for nobody waits");
    }

    /// True if a request that has `ahead` others ahead of it waits for nothing.
    #[inline]
    fn admits(
        &self,
        asker: &Asker<'_>,
        ahead: usize,
        seen: &mut Seen,
        families: &Families,
    ) -> bool {
        !self.holds.iter().any(|hold| asker.conflicts(hold))
            && (0..ahead).all(|at| !self.waits_behind(asker, at, seen, families))
    }

    /// True if a request waits for an earlier one (2).
    fn waits_behind(
        &self,
        asker: &Asker<'_>,
        at: usize,
        seen: &mut Seen,
        families: &Families,
    ) -> bool {
        let earlier = self.queue[at].asker().hold();
        asker.conflicts(&earlier) && {
            let mut branches = self.branches(at, seen, families).iter();
            !branches.any(|branch| asker.line.contains(branch))
        }
    }

    /// The branches that one of the queue waits for, each once.
    fn branches<'a>(&self, at: usize, seen: &'a mut Seen, families: &Families) -> &'a Branches {
        seen.resize(seen.len().max(at + 1), None);
        if seen[at].is_none() {
            let asker = self.queue[at].asker();
            let holds = self.holds.iter().filter(|hold| asker.conflicts(hold));
            let mut owners: Branches = holds.map(|hold| hold.owner).collect();
            for ahead in 0..at {
                if self.waits_behind(&asker, ahead, seen, families) {
                    owners.push(self.queue[ahead].owner.id());
                }
            }
            for owner in &mut owners {
                *owner = families.branch(*owner, asker.line);
            }
            owners.sort_unstable();
            owners.dedup();
            seen[at] = Some(owners);
        }
        seen[at].as_ref().expect("just looked at")
    }
}
