//! Cache of path walks from the root to directories.
//!
//! A walk visits each directory of the path: it locks it, counts a reference and searches
//! it. Threads at work in different directories of one tree contend at the root and just
//! below it, on the same few cache lines. A cached walk locks no directory: it compares
//! numbers that are rarely written.
//!
//! Each directory has a *generation*. It grows when the directory loses its name, or when
//! the permission to search it changes, before the change is visible, and under the locks
//! that a walk would take. A trail contains the generations that a walk saw under those
//! locks. As long as they are the same, the walk would end at the same directory.
//!
//! Invariants:
//! - A reader first references the trail's end and then compares the generations. A
//!   removal first counts a generation and then checks the directory's references. So
//!   either the reader sees the new generation, or the remover sees the reference.
//! - A trail keeps its vnodes in the table, so that generations are counted on these very
//!   vnodes for as long as it exists.
//! - Only plain names are cached: no links, no `.` and `..`.

use crate::attr::Caller;
use crate::hash::MixBuilder;
use crate::memory::vnode::Vnode;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use varve_device::sync::RwLock;

/// Number of shards of the mounted tree's cache.
pub(crate) const SHARDS: usize = 64;
/// Most bytes of a cached path; longer ones are walked every time.
const PATH_BYTES_MAX: usize = 256;
/// Most directories of a cached path.
const STEPS_MAX: usize = 16;
/// Number of idle vnodes for each cached path.
const VNODES_PER_TRAIL: usize = 16;

/// A directory on the path, and its generation at the time of the walk.
pub(crate) struct Step {
    pub vnode: Arc<Vnode>,
    pub turns: u64,
}

impl Step {
    pub fn new(vnode: Arc<Vnode>) -> Self {
        let turns = vnode.turns.load(SeqCst);
        Step { vnode, turns }
    }
}

/// A path from the root to a directory, as one caller may walk it.
pub(crate) struct Trail {
    pub caller: Caller,
    /// From the root to the end, which is another directory.
    pub steps: Vec<Step>,
}

impl Trail {
    pub fn is_open(&self) -> bool {
        let unchanged = |step: &Step| step.vnode.turns.load(SeqCst) == step.turns;
        self.steps.iter().all(unchanged)
    }

    pub fn end(&self) -> &Arc<Vnode> {
        &self.steps.last().expect("the root at least").vnode
    }
}

type Trails = HashMap<Box<[u8]>, Arc<Trail>, MixBuilder>;

/// Aligned, so that shards share no cache line.
#[derive(Default)]
#[repr(align(128))]
struct Shard(Trails);

/// The cached path walks of one tree.
pub(crate) struct Passages {
    shards: Box<[RwLock<Shard>]>,
    shard_bound: usize,
}

impl Passages {
    /// A cache with a number of paths in proportion to `idle_vnodes`, in `shards` shards.
    pub fn new(idle_vnodes: usize, shards: usize) -> Self {
        Passages {
            shards: (0..shards).map(|_| RwLock::default()).collect(),
            shard_bound: (idle_vnodes / VNODES_PER_TRAIL / shards).max(1),
        }
    }

    fn shard(&self, path: &[u8]) -> &RwLock<Shard> {
        // The table below uses the low bits and the highest.
        let hash = MixBuilder.hash_one(path) >> 32;
        &self.shards[hash as usize % self.shards.len()]
    }

    pub fn get(&self, path: &[u8]) -> Option<Arc<Trail>> {
        self.shard(path).read().0.get(path).map(Arc::clone)
    }

    pub fn remember(&self, path: &[u8], trail: Trail) {
        let fits = path.len() <= PATH_BYTES_MAX && trail.steps.len() <= STEPS_MAX;
        if !fits {
            return;
        }
        let mut shard = self.shard(path).write();
        let forgotten = if shard.0.len() >= self.shard_bound {
            std::mem::take(&mut shard.0)
        } else {
            Trails::default()
        };
        shard.0.insert(path.into(), Arc::new(trail));
        drop(shard); // and the evicted trail only after it
        drop(forgotten);
    }

    pub fn forget(&self, path: &[u8]) {
        self.shard(path).write().0.remove(path);
    }

    /// Drops every path, and its references to vnodes.
    pub fn clear(&self) {
        for shard in &self.shards {
            let forgotten = std::mem::take(&mut shard.write().0);
            drop(forgotten);
        }
    }
}
