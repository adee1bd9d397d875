//! One object: the locks that are held on it, and its queue of requests in the order of
//! arrival.
//!
//! **The rule.** A request waits for
//! 1. every lock that conflicts with it, and
//! 2. every earlier request that conflicts with it, unless that request itself waits
//!    for a branch that the requester belongs to.
//!
//! Two of these conflict if their spans overlap and their modes are incompatible. The
//! locks and requests of an owner, and of the transactions that it is nested in, never
//! conflict with a request of that owner. A request that waits for nothing is granted.
//! Consequently a request that is compatible with all waiting requests passes them. An
//! upgrade, or any other request of an owner whose lock blocks a waiting request,
//! passes that request, which has to wait for this owner in any case; waiting for it
//! would be a deadlock.
//!
//! **No request starves.** Let w wait, and let B be the branches that conflict with w
//! and hold a lock or wait ahead of w. A later request that conflicts with w is granted
//! before w only by the exception, so its branch is in B already (any member of a
//! branch that w waits for names that branch). Hence B never grows after the arrival of
//! w. B is finite, and loses a branch whenever one ends; when it is empty, w is
//! granted. Locks last as long as transactions, of which a deadlocked one is ended by
//! detection, so w waits for the end of finitely many. Transactions nested in w's own
//! owner are not counted: the owner waits for them by its own choice.
//!
//! By the same argument, a request that passes w makes w wait for no branch that it did
//! not wait for before. So a request that begins to wait closes a cycle through itself
//! or none at all.

use crate::error::LockError;
use crate::families::Families;
use crate::holds::{Hold, Holds};
use crate::owner::OwnerId;
use crate::request::{Asker, Request};
use smallvec::SmallVec;
use std::sync::Arc;

pub(crate) type Branches = SmallVec<[OwnerId; 4]>;

/// For each request of the queue, the branches that it waits for, as far as they are
/// known.
type Seen = Vec<Option<Branches>>;

/// The result of a request at its arrival.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Granted: the first lock of its owner on this object.
    First,
    /// Granted, or held already.
    More,
    /// The request has to wait.
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

    /// Returns true if no lock is held on the object. Then no request waits for it
    /// either.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.holds.is_empty()
    }

    /// Grants a new request unless it has to wait.
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

    /// Adds a request that has to wait to the queue.
    pub(crate) fn enqueue(&mut self, request: Arc<Request<K>>) {
        self.queue.push(request);
    }

    /// Removes a waiting request and ends it with `error`. Returns false if it no
    /// longer waits.
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

    /// Applies `change`, which weakens or removes locks, and grants the requests that
    /// this allows.
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

    /// Returns the waiting requests of a family. Once their branch holds less than
    /// before, they may have to wait for requests that they had passed.
    pub(crate) fn waiting_of(&self, root: OwnerId) -> impl Iterator<Item = &Arc<Request<K>>> {
        let all = self.queue.iter();
        all.filter(move |request| request.owner.root() == root)
    }

    /// Returns true if no request came after this waiting one.
    pub(crate) fn is_last(&self, request: &Arc<Request<K>>) -> bool {
        let last = self.queue.last();
        last.is_some_and(|last| Arc::ptr_eq(last, request))
    }

    /// Returns all waiting requests, and the branches that each of them waits for.
    pub(crate) fn waits(&self, families: &Families) -> Vec<(&Arc<Request<K>>, Branches)> {
        let mut seen = Seen::new();
        let mut waits = |at| self.branches(at, &mut seen, families).clone();
        let queue = self.queue.iter().enumerate();
        queue.map(|(at, request)| (request, waits(at))).collect()
    }

    /// Grants the requests that wait for nothing. A grant lets no request pass that
    /// could not pass before, so one iteration over the queue is enough.
    fn advance(&mut self, families: &Families) {
        let (mut at, mut seen) = (0, Seen::new());
        while at < self.queue.len() {
            if self.admits(&self.queue[at].asker(), at, &mut seen, families) {
                let request = self.queue.remove(at);
                // The branches that the other requests wait for stay the same.
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

    /// Returns true if a request with `ahead` requests ahead of it waits for nothing.
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

    /// Returns true if a request waits for the earlier one at `at` (rule 2).
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

    /// Returns the branches that the request at `at` waits for, each once.
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
