//! All owners, and the chain of each: the objects that it holds locks on.
//!
//! Commit and abort visit an owner's chain and nothing else. A chain names every object
//! on which its owner holds a lock. It may name an object twice, or one on which no
//! lock is held any more.

use crate::objects::Key;
use crate::owner::{Owner, OwnerId};
use crate::places::{Guard, Mutex, Place};
use foldhash::HashMap;
use std::sync::Arc;
use varve_device::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) struct Owners<K> {
    shards: Box<[Padded<K>]>,
    next: AtomicU64,
}

/// The mutex of one shard, aligned to 128 bytes because CPUs fetch lines of 64 in
/// pairs.
#[repr(align(128))]
struct Padded<K>(Mutex<HashMap<OwnerId, Record<K>>>);

/// An owner, and the objects that it has locks on.
pub(crate) struct Record<K> {
    pub owner: Arc<Owner>,
    chain: Vec<K>,
}

impl<K: Key> Record<K> {
    #[inline]
    pub(crate) fn chain(&mut self, key: K) {
        self.chain.push(key);
        self.owner.set_held(self.chain.len());
    }

    /// Removes an object from the chain; the search begins at the newest.
    pub(crate) fn unchain(&mut self, key: &K) {
        if let Some(at) = self.chain.iter().rposition(|chained| chained == key) {
            self.chain.remove(at);
            self.owner.set_held(self.chain.len());
        }
    }

    pub(crate) fn take_chain(&mut self) -> Vec<K> {
        self.owner.set_held(0);
        std::mem::take(&mut self.chain)
    }

    pub(crate) fn keys(&self) -> &[K] {
        &self.chain
    }
}

impl<K: Key> Owners<K> {
    /// Creates a table of `shards` shards, rounded up to a power of two.
    pub(crate) fn new(shards: usize) -> Self {
        let mut all = Vec::new();
        let count = shards.next_power_of_two();
        all.resize_with(count, || {
            Padded(Mutex::new(Place::Owners, HashMap::default()))
        });
        Owners {
            shards: all.into(),
            next: AtomicU64::new(1),
        }
    }

    #[inline]
    pub(crate) fn lock(&self, id: OwnerId) -> Guard<'_, HashMap<OwnerId, Record<K>>> {
        self.shards[id.0 as usize & (self.shards.len() - 1)]
            .0
            .lock()
    }

    pub(crate) fn begin(&self, parent: Option<Arc<Owner>>) -> Arc<Owner> {
        let id = OwnerId(self.next.fetch_add(1, Relaxed));
        let owner = Arc::new(Owner::new(id, parent));
        let record = Record {
            owner: Arc::clone(&owner),
            chain: Vec::new(),
        };
        self.lock(id).insert(id, record);
        owner
    }

    /// Returns the owner, unless it has ended.
    pub(crate) fn get(&self, id: OwnerId) -> Option<Arc<Owner>> {
        let owners = self.lock(id);
        owners.get(&id).map(|record| Arc::clone(&record.owner))
    }

    pub(crate) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }
}
