//! Statistics of a lock table, and lists of its locks and requests.

use super::LockTable;
use crate::mode::Mode;
use crate::objects::Key;
use crate::owner::OwnerId;
use std::ops::Range;
use varve_device::sync::atomic::Ordering::Relaxed;

/// Counts since the table was made, and its present size. They are independent of each
/// other: while requests run, they may be inconsistent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Number of requests granted, including those of locks that the owner already
    /// held.
    pub granted: u64,
    /// Number of requests that had to wait, whatever their outcome.
    pub waits: u64,
    /// Number of waits that ended with a deadlock.
    pub deadlocks: u64,
    /// Number of waits that ended with a time-out. Requests that do not wait are not
    /// counted.
    pub timeouts: u64,
    /// Number of waits that ended because the owner was cancelled.
    pub cancels: u64,
    /// Number of searches for a deadlock by a request that is part of it.
    pub searches: u64,
    /// The longest wait, finished or not, in nanoseconds.
    pub longest_wait_ns: u64,
    /// Number of requests that wait now.
    pub waiting: usize,
    /// Number of owners that have not ended.
    pub owners: usize,
    /// Number of objects that are locked.
    pub objects: usize,
}

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting<K> {
    /// The owner that waits.
    pub owner: OwnerId,
    /// The object that it waits for.
    pub object: K,
    /// The span of the object; `0..u32::MAX` is the whole.
    pub span: Range<u32>,
    /// The requested mode.
    pub mode: Mode,
    /// Time waited so far, in nanoseconds.
    pub waited_ns: u64,
    /// Time at which the wait began, by the table's monotonic clock, in nanoseconds.
    pub since_ns: u64,
}

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held<K> {
    /// The owner of the lock.
    pub owner: OwnerId,
    /// The locked object.
    pub object: K,
    /// The locked span of the object; `0..u32::MAX` is the whole.
    pub span: Range<u32>,
    /// The mode of the lock.
    pub mode: Mode,
}

impl<K: Key> LockTable<K> {
    /// Returns the counts, the longest wait and the present size of the table.
    pub fn statistics(&self) -> Statistics {
        let waits = &self.waits;
        let mut statistics = Statistics {
            granted: waits.granted.load(Relaxed),
            waits: waits.count(),
            deadlocks: waits.deadlocks.load(Relaxed),
            timeouts: waits.timeouts.load(Relaxed),
            cancels: waits.cancels.load(Relaxed),
            searches: waits.searches.load(Relaxed),
            longest_wait_ns: waits.longest_ns.load(Relaxed),
            owners: self.owners.count(),
            ..Statistics::default()
        };
        for shard in self.objects.each() {
            statistics.granted += shard.granted;
            statistics.objects += shard.len();
        }
        for waiting in self.waiting() {
            statistics.waiting += 1;
            let longest = &mut statistics.longest_wait_ns;
            *longest = waiting.waited_ns.max(*longest);
        }
        statistics
    }

    /// Returns all waiting requests in the order of arrival.
    pub fn waiting(&self) -> Vec<Waiting<K>> {
        let now_ns = self.clock.monotonic_ns();
        let all = self.waits.all().into_iter();
        let waiting = all.filter(|request| request.is_waiting());
        let told = waiting.map(|request| Waiting {
            owner: request.owner.id(),
            object: request.key.clone(),
            span: request.span.range(),
            mode: request.mode,
            waited_ns: now_ns.saturating_sub(request.since_ns),
            since_ns: request.since_ns,
        });
        told.collect()
    }

    /// Returns the locks of an owner, in the order in which it first locked their
    /// objects.
    pub fn held(&self, owner: OwnerId) -> Vec<Held<K>> {
        let keys = {
            let owners = self.owners.lock(owner);
            owners.get(&owner).map(|record| record.keys().to_vec())
        };
        let mut seen = foldhash::HashSet::default();
        let mut keys = keys.unwrap_or_default();
        keys.retain(|key| seen.insert(key.clone()));
        let held = keys.iter().flat_map(|key| self.holders(key));
        held.filter(|held| held.owner == owner).collect()
    }

    /// Returns the locks on an object.
    pub fn holders(&self, key: &K) -> Vec<Held<K>> {
        let hash = self.objects.hash(key);
        let shard = self.objects.lock(hash);
        let object = shard.get(hash, key);
        let holds = object.into_iter().flat_map(|object| object.holds().iter());
        let told = holds.map(|hold| Held {
            owner: hold.owner,
            object: key.clone(),
            span: hold.span.range(),
            mode: hold.mode,
        });
        told.collect()
    }
}
