//! The lock table: all locks, their owners, and the requests that wait.

mod give;
mod lists;
mod search;

use crate::error::LockError;
use crate::families::Families;
use crate::holds::Holds;
use crate::mode::Mode;
use crate::objects::{Key, Objects};
use crate::owner::{Owner, OwnerId};
use crate::owners::Owners;
use crate::request::Request;
use crate::span::Span;
use crate::waits::Waits;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use varve_device::Clock;

pub use lists::{Held, Statistics, Waiting};

/// The occasions of searches for deadlocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detection {
    /// Each request that is about to wait searches for a cycle that it closes.
    #[default]
    AtWait,
    /// Only calls of [`LockTable::detect`] search. Until then the requests of a
    /// deadlock wait.
    OnCall,
}

/// The options of a lock table.
#[derive(Clone, Copy, Debug)]
pub struct LockTableOptions {
    /// The occasions of searches for deadlocks.
    pub detection: Detection,
    /// Number of parts of the table, each with a mutex of its own; rounded up to a
    /// power of two. More parts than threads that lock at the same time have no
    /// benefit.
    pub shards: usize,
}

impl Default for LockTableOptions {
    fn default() -> Self {
        LockTableOptions {
            detection: Detection::default(),
            shards: 64,
        }
    }
}

/// Requests whose family held or wanted more before. They may have passed requests that
/// they have to wait for now, and so be in a deadlock.
type Affected<K> = Vec<Arc<Request<K>>>;

/// Hierarchical two-phase locks on objects, each named by a `K`.
///
/// Owners are transactions, begun with [`begin`](Self::begin) and ended with
/// [`end`](Self::end). Several threads may act for one owner. An owner that has ended
/// is treated as cancelled, and calls that change it have no effect.
///
/// The crate's documentation has the rule by which a request waits.
pub struct LockTable<K> {
    owners: Owners<K>,
    objects: Objects<K>,
    waits: Waits<K>,
    families: Families,
    clock: Arc<dyn Clock>,
    detection: Detection,
}

impl<K: Key> LockTable<K> {
    /// Creates an empty table. The clock measures time-outs and lengths of waits.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_options(clock, LockTableOptions::default())
    }

    /// Creates an empty table with the given options.
    pub fn with_options(clock: Arc<dyn Clock>, options: LockTableOptions) -> Self {
        LockTable {
            owners: Owners::new(options.shards),
            objects: Objects::new(options.shards),
            waits: Waits::new(),
            families: Families::new(),
            clock,
            detection: options.detection,
        }
    }

    /// Begins a new owner, nested in `parent` if there is one. The locks of a parent,
    /// and of those that it is nested in, do not conflict with requests of the new
    /// owner. If the parent has ended, the new owner is cancelled from the beginning.
    pub fn begin(&self, parent: Option<OwnerId>) -> OwnerId {
        let outer = parent.and_then(|parent| self.owners.get(parent));
        let orphan = parent.is_some() && outer.is_none();
        let owner = self.owners.begin(outer);
        self.families.enter(&owner);
        if orphan {
            owner.cancel();
        }
        owner.id()
    }

    /// Ends an owner: its waiting requests fail, its locks are released.
    ///
    /// The owners nested in it should have ended. If one has not, its waiting requests
    /// fail, and it keeps its locks until it ends.
    pub fn end(&self, id: OwnerId) {
        let mut affected = self.fail_all(id);
        affected.extend(self.let_go(id));
        let record = self.owners.lock(id).remove(&id);
        if let Some(mut record) = record {
            // Locks that another thread of the owner was granted in between.
            let chain = record.take_chain();
            affected.extend(self.release_chain(&record.owner, chain));
            self.families.leave(&record.owner);
        }
        self.search_again(affected);
    }

    /// Releases all locks of an owner. Its waiting requests continue to wait.
    pub fn release_all(&self, owner: OwnerId) {
        let affected = self.let_go(owner);
        self.search_again(affected);
    }

    fn let_go(&self, id: OwnerId) -> Affected<K> {
        let taken = self.take_chain(id);
        let release = |(owner, chain): (Arc<Owner>, _)| self.release_chain(&owner, chain);
        taken.map(release).unwrap_or_default()
    }

    fn take_chain(&self, id: OwnerId) -> Option<(Arc<Owner>, Vec<K>)> {
        let mut owners = self.owners.lock(id);
        let record = owners.get_mut(&id)?;
        Some((Arc::clone(&record.owner), record.take_chain()))
    }

    fn release_chain(&self, owner: &Owner, chain: Vec<K>) -> Affected<K> {
        let (id, root) = (owner.id(), owner.root());
        let mut affected = Affected::new();
        for key in chain {
            let hash = self.objects.hash(&key);
            let mut shard = self.objects.lock(hash);
            let drop_all = |holds: &mut Holds| holds.drop_all(id);
            let done = shard.lessen(hash, &key, root, &self.families, drop_all);
            affected.extend(done.into_iter().flat_map(|((), waiting)| waiting));
        }
        affected
    }

    /// Commits a child: its locks become its parent's, joined with those that the
    /// parent already holds. The child then holds no lock, and still has to be ended.
    ///
    /// # Panics
    /// If the owner is not nested in another one.
    pub fn hand_to_parent(&self, child: OwnerId) {
        let Some((child, chain)) = self.take_chain(child) else {
            return;
        };
        let parent = child.parent().expect("nested in another");
        let (from, to) = (child.id(), parent.id());
        let (mut new, mut affected) = (Vec::new(), Affected::new());
        for key in chain {
            let hash = self.objects.hash(&key);
            let mut shard = self.objects.lock(hash);
            let hand = |holds: &mut Holds| holds.hand(from, to);
            let done = shard.lessen(hash, &key, child.root(), &self.families, hand);
            drop(shard);
            let Some((first, waiting)) = done else {
                continue;
            };
            affected.extend(waiting);
            if first {
                new.push(key);
            }
        }
        // If the parent has ended, the locks are released.
        _ = self.adopt(parent, new);
        self.search_again(affected);
    }

    /// Adds objects to the chain of an owner that holds locks on them. If the owner has
    /// ended meanwhile, the locks are released here, because its end did not see them.
    fn adopt(&self, owner: &Owner, keys: Vec<K>) -> Result<(), LockError> {
        let mut owners = self.owners.lock(owner.id());
        if let Some(record) = owners.get_mut(&owner.id()) {
            keys.into_iter().for_each(|key| record.chain(key));
            return Ok(());
        }
        drop(owners);
        let affected = self.release_chain(owner, keys);
        self.search_again(affected);
        Err(LockError::Cancelled)
    }

    /// Weakens the locks of an owner on an object to `mode`. A lock that is not
    /// stronger than `mode` stays as it is.
    pub fn downgrade(&self, owner: OwnerId, key: &K, mode: Mode) {
        self.weaken(owner, key, Span::WHOLE, Some(mode));
    }

    /// Weakens locks as [`downgrade`](Self::downgrade) does, within a span.
    ///
    /// # Panics
    /// If the span is empty.
    pub fn downgrade_span(&self, owner: OwnerId, key: &K, span: Range<u32>, mode: Mode) {
        self.weaken(owner, key, Span::new(span), Some(mode));
    }

    /// Releases the locks of an owner on an object before the owner ends. This is for
    /// locks that are not two-phase, as in the descent of an index.
    pub fn release(&self, owner: OwnerId, key: &K) {
        self.weaken(owner, key, Span::WHOLE, None);
    }

    fn weaken(&self, id: OwnerId, key: &K, span: Span, to: Option<Mode>) {
        let hash = self.objects.hash(key);
        let mut owners = self.owners.lock(id);
        let Some(record) = owners.get_mut(&id) else {
            return;
        };
        let mut shard = self.objects.lock(hash);
        let weaken = |holds: &mut Holds| {
            let had = holds.has(id);
            holds.weaken(id, span, to);
            had && !holds.has(id)
        };
        let root = record.owner.root();
        let done = shard.lessen(hash, key, root, &self.families, weaken);
        drop(shard);
        if let Some((true, _)) = done {
            record.unchain(key);
        }
        drop(owners);
        self.search_again(done.map(|(_, waiting)| waiting).unwrap_or_default());
    }

    /// Cancels an owner. Every wait of the owner, and of those nested in it, fails with
    /// [`LockError::Cancelled`], now and later, until it ends. Requests that need not
    /// wait are still granted.
    pub fn cancel(&self, owner: OwnerId) {
        let affected = self.fail_all(owner);
        self.search_again(affected);
    }

    fn fail_all(&self, id: OwnerId) -> Affected<K> {
        let Some(owner) = self.owners.get(id) else {
            return Affected::new();
        };
        owner.cancel();
        let fail = |request| self.fail(&request, LockError::Cancelled);
        self.waits.of(&owner).into_iter().flat_map(fail).collect()
    }

    /// Ends a request with an error, if it waits.
    fn fail(&self, request: &Arc<Request<K>>, error: LockError) -> Affected<K> {
        let mut shard = self.objects.lock(request.hash);
        let waiting = shard.fail(request, error, &self.families);
        waiting.unwrap_or_default()
    }

    /// Protects an owner that is being committed: from now on it is never aborted in a
    /// deadlock. It should make no more requests; a cycle of such owners lasts until
    /// one of its requests is cancelled or times out.
    pub fn pin(&self, owner: OwnerId) {
        self.with(owner, |owner| owner.pin(true));
    }

    /// Ends the protection that [`pin`](Self::pin) began.
    pub fn unpin(&self, owner: OwnerId) {
        self.with(owner, |owner| owner.pin(false));
    }

    /// Sets the work that is lost if the owner is aborted, in a unit chosen by the
    /// caller. In a deadlock the request with the lowest cost fails. The default is the
    /// number of objects that the owner has locked.
    pub fn set_cost(&self, owner: OwnerId, cost: u64) {
        self.with(owner, |owner| owner.set_cost(cost));
    }

    fn with(&self, owner: OwnerId, change: impl FnOnce(&Owner)) {
        if let Some(owner) = self.owners.get(owner) {
            change(&owner);
        }
    }
}

impl<K> fmt::Debug for LockTable<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockTable").finish_non_exhaustive()
    }
}
