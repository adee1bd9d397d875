//! The hash table of locked objects, in shards with a mutex each.

use crate::error::LockError;
use crate::families::Families;
use crate::holds::Holds;
use crate::object::{Answer, Object};
use crate::owner::OwnerId;
use crate::places::{Guard, Mutex, Place};
use crate::request::{Asker, Request};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// A type that names objects.
pub trait Key: Clone + Eq + Hash + Debug + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Debug + Send + Sync + 'static> Key for K {}

/// Capacity, in objects, above which an empty table frees its memory.
const KEPT_WHEN_EMPTY: usize = 1024;

pub(crate) struct Objects<K> {
    shards: Box<[Padded<K>]>,
    hasher: RandomState,
}

/// The mutex of one shard, aligned to 128 bytes because CPUs fetch lines of 64 in
/// pairs.
#[repr(align(128))]
struct Padded<K>(Mutex<Shard<K>>);

/// A part of the objects.
pub(crate) struct Shard<K> {
    table: HashTable<Object<K>>,
    hasher: RandomState,
    /// Number of requests that were granted without a wait.
    pub granted: u64,
}

impl<K: Key> Objects<K> {
    /// Creates a table of `shards` shards, rounded up to a power of two.
    pub(crate) fn new(shards: usize) -> Self {
        let hasher = RandomState::default();
        let shard = || Shard {
            table: HashTable::new(),
            hasher: hasher.clone(),
            granted: 0,
        };
        let mut all = Vec::new();
        let count = shards.next_power_of_two();
        all.resize_with(count, || Padded(Mutex::new(Place::Objects, shard())));
        Objects {
            shards: all.into(),
            hasher,
        }
    }

    #[inline]
    pub(crate) fn hash(&self, key: &K) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Returns the shard of a hash, by its middle bits: the hash table inside of a
    /// shard uses the lowest and the highest ones.
    #[inline]
    pub(crate) fn shard_of(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.shards.len() - 1)
    }

    #[inline]
    pub(crate) fn lock(&self, hash: u64) -> Guard<'_, Shard<K>> {
        self.lock_shard(self.shard_of(hash))
    }

    #[inline]
    pub(crate) fn lock_shard(&self, shard: usize) -> Guard<'_, Shard<K>> {
        self.shards[shard].0.lock()
    }

    /// Locks one shard after the other.
    pub(crate) fn each(&self) -> impl Iterator<Item = Guard<'_, Shard<K>>> {
        (0..self.shards.len()).map(|shard| self.lock_shard(shard))
    }
}

impl<K: Key> Shard<K> {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Grants a request unless it has to wait.
    #[inline]
    pub(crate) fn ask(
        &mut self,
        hash: u64,
        key: &K,
        asker: &Asker<'_>,
        families: &Families,
    ) -> Answer {
        let hasher = &self.hasher;
        let same = |object: &Object<K>| object.key == *key;
        let rehash = |object: &Object<K>| hasher.hash_one(&object.key);
        let answer = match self.table.entry(hash, same, rehash) {
            Entry::Vacant(place) => {
                place.insert(Object::held(key.clone(), asker.hold()));
                Answer::First
            }
            Entry::Occupied(mut object) => object.get_mut().ask(asker, families),
        };
        self.granted += u64::from(answer != Answer::Busy);
        answer
    }

    pub(crate) fn get(&self, hash: u64, key: &K) -> Option<&Object<K>> {
        self.table.find(hash, |object| object.key == *key)
    }

    /// Adds a request that has to wait to the queue of its object.
    pub(crate) fn enqueue(&mut self, request: Arc<Request<K>>) {
        let same = |object: &Object<K>| object.key == request.key;
        let object = self.table.find_mut(request.hash, same);
        object.expect("held by another").enqueue(request);
    }

    /// Ends a request with `error`, if it waits, and returns the requests of its family
    /// that still wait for the object.
    pub(crate) fn fail(
        &mut self,
        request: &Arc<Request<K>>,
        error: LockError,
        families: &Families,
    ) -> Option<Vec<Arc<Request<K>>>> {
        let same = |object: &Object<K>| object.key == request.key;
        let object = self.table.find_mut(request.hash, same)?;
        let failed = object.fail(request, error, families);
        let root = request.owner.root();
        failed.then(|| object.waiting_of(root).cloned().collect())
    }

    /// Applies `change`, which weakens or removes locks of an object. Returns the
    /// result of the change, and the requests of the family of `root` that wait for the
    /// object; `None` if no lock is held on it.
    #[inline]
    pub(crate) fn lessen<T>(
        &mut self,
        hash: u64,
        key: &K,
        root: OwnerId,
        families: &Families,
        change: impl FnOnce(&mut Holds) -> T,
    ) -> Option<(T, Vec<Arc<Request<K>>>)> {
        let same = |object: &Object<K>| object.key == *key;
        let mut entry = self.table.find_entry(hash, same).ok()?;
        let object = entry.get_mut();
        let result = object.lessen(families, change);
        let waiting = object.waiting_of(root).cloned().collect();
        if object.is_free() {
            entry.remove();
            if self.table.is_empty() && self.table.capacity() > KEPT_WHEN_EMPTY {
                self.table = HashTable::new();
            }
        }
        Some((result, waiting))
    }
}
