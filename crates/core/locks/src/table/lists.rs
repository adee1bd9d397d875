//! What a table says of itself.

use super::LockTable;
use crate::mode::Mode;
use crate::objects::Key;
use crate::owner::OwnerId;
use std::ops::Range;
use varve_device::sync::atomic::Ordering::Relaxed;

/// Counts since the table was made, and what is there now. They are independent of
/// each other: while requests run they may not add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Requests that were granted, those of what was held already among them.
    pub granted: u64,
    /// Requests that had to wait, however it ended.
    pub waits: u64,
    /// Waits that ended with a deadlock.
    pub deadlocks: u64,
    /// Waits that ended with a time-out; requests that would not wait do not count.
    pub timeouts: u64,
    /// Waits that ended with a cancel.
    pub cancels: u64,
    /// Times that somebody has looked for a deadlock of his own.
    pub searches: u64,
    /// The longest wait, whether it is over or not.
    pub longest_wait_ns: u64,
    /// Requests that wait now.
    pub waiting: usize,
    /// Owners that have not ended.
    pub owners: usize,
    /// Objects that are locked.
    pub objects: usize,
}

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting<K> {
    /// Whose it is.
    pub owner: OwnerId,
    /// What it is for.
    pub object: K,
    /// Which part of the object; `0..u32::MAX` is the whole.
    pub span: Range<u32>,
    /// The mode that is asked for.
    pub mode: Mode,
    /// How long it has waited.
    pub waited_ns: u64,
    /// Since when, by the monotonic clock of the table.
    pub since_ns: u64,
}

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held<K> {
    /// Whose it is.
    pub owner: OwnerId,
    /// What is locked.
    pub object: K,
    /// Which part of it; `0..u32::MAX` is the whole.
    pub span: Range<u32>,
    /// How it is locked.
    pub mode: Mode,
}

impl<K: Key> LockTable<K> {
    /// Counts, and the longest wait.
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

    /// Everybody who waits, who came first first.
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

    /// What an owner holds, in the order in which it came to hold the objects.
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

    /// Who holds locks on an object.
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
