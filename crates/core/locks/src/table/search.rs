//! Deadlocks, found and broken.
//!
//! A search takes the mutexes of all shards in which a request waits. Its result was
//! therefore true at one moment, and no cycle consists of waits that never existed at
//! the same time.
//!
//! A cycle is closed by its last request (`object.rs`), or by an early release of a
//! lock by the branch of a request that had passed another one. In both cases the owner
//! of that request searches for the cycle.

use super::{Affected, Detection, LockTable};
use crate::deadlock::{Graph, victim};
use crate::error::LockError;
use crate::object::Object;
use crate::objects::{Key, Shard};
use crate::owner::OwnerId;
use crate::places::Guard;
use crate::request::Request;
use foldhash::{HashSet, HashSetExt};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use varve_device::sync::atomic::Ordering::Relaxed;

type Shards<'a, K> = BTreeMap<usize, Guard<'a, Shard<K>>>;

impl<K: Key> LockTable<K> {
    /// Examines all waiting requests, and ends one of each deadlock. Returns the owners
    /// of these requests. This is for tables with [`Detection::OnCall`]; in other
    /// tables only [pinned](Self::pin) owners can be in a deadlock.
    pub fn detect(&self) -> Vec<OwnerId> {
        self.break_circles(None)
    }

    /// Breaks the cycles through a request that begins to wait.
    pub(super) fn search(&self, request: &Arc<Request<K>>) {
        let owner = &request.owner;
        // The request is the last of its queue, and no request waits for its owner
        // elsewhere.
        let is_in_none = owner.is_alone_with_nothing() && owner.waits() == 1;
        if !is_in_none {
            self.break_circles(Some(request));
        }
        self.waits.searches.fetch_add(1, Relaxed);
    }

    /// Breaks the cycles through these requests, which have waited before.
    pub(super) fn search_again(&self, affected: Affected<K>) {
        if self.detection == Detection::AtWait {
            for request in affected {
                self.break_circles(Some(&request));
                self.waits.searches.fetch_add(1, Relaxed);
            }
        }
    }

    /// Breaks all cycles, or those through one request.
    fn break_circles(&self, through: Option<&Arc<Request<K>>>) -> Vec<OwnerId> {
        let all = self.waits.all();
        let mut shards = self.shards_of(&all);
        if through.is_some_and(|request| !self.is_waited_for(request, &all, &shards)) {
            return Vec::new();
        }
        let mut graph = self.graph(&all, &shards);
        let mut victims = Vec::new();
        let mut next: VecDeque<Arc<Request<K>>> = match through {
            Some(request) => [Arc::clone(request)].into(),
            None => all.iter().cloned().collect(),
        };
        while let Some(start) = next.pop_front() {
            while let Some(circle) = graph.circle(|request| Arc::ptr_eq(request, &start)) {
                let Some(chosen) = victim(&circle, |request| &*request.owner) else {
                    break;
                };
                let chosen = Arc::clone(chosen);
                let shard = shards.get_mut(&self.objects.shard_of(chosen.hash));
                let shard = shard.expect("it was seen waiting there");
                let waiting = shard.fail(&chosen, LockError::Deadlock, &self.families);
                next.extend(waiting.expect("waits, under this mutex"));
                victims.push(chosen.owner.id());
                graph = self.graph(&all, &shards);
            }
        }
        victims
    }

    /// Returns false if no request can wait for the family of a request: the family has
    /// no other request that waits, this one is the last of its queue, and no request
    /// waits for an object that the family has locked. This is usually so, and much
    /// cheaper to determine than the graph of waits.
    fn is_waited_for(
        &self,
        request: &Arc<Request<K>>,
        known: &[Arc<Request<K>>],
        shards: &Shards<'_, K>,
    ) -> bool {
        let root = request.owner.root();
        let objects = self.objects_of(known, shards);
        request.owner.family_waits() > 1
            || objects.into_iter().any(|object| {
                let is_its = object.key == request.key && !object.is_last(request);
                let mut holds = object.holds().iter();
                is_its || holds.any(|hold| self.families.root(hold.owner) == root)
            })
    }

    fn shards_of(&self, waiting: &[Arc<Request<K>>]) -> Shards<'_, K> {
        let shard_of = |request: &Arc<Request<K>>| self.objects.shard_of(request.hash);
        let mut shards: Vec<usize> = waiting.iter().map(shard_of).collect();
        shards.sort_unstable();
        shards.dedup();
        let locked = |shard| (shard, self.objects.lock_shard(shard));
        shards.into_iter().map(locked).collect()
    }

    /// Returns the graph of waits. It may contain some requests that were not known
    /// when the shards were locked; these search for themselves.
    fn graph(&self, known: &[Arc<Request<K>>], shards: &Shards<'_, K>) -> Graph<Arc<Request<K>>> {
        let mut graph = Graph::new();
        for object in self.objects_of(known, shards) {
            for (request, branches) in object.waits(&self.families) {
                graph.add(Arc::clone(request), &request.owner.line, branches);
            }
        }
        graph
    }

    /// Returns the objects that these requests wait for, each once.
    fn objects_of<'a>(
        &self,
        known: &[Arc<Request<K>>],
        shards: &'a Shards<'_, K>,
    ) -> Vec<&'a Object<K>> {
        let mut seen = HashSet::new();
        let new = known.iter().filter(|request| seen.insert(&request.key));
        let found = new.filter_map(|request| {
            let shard = &shards[&self.objects.shard_of(request.hash)];
            shard.get(request.hash, &request.key)
        });
        found.collect()
    }
}
