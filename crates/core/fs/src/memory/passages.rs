//! Ways from the root to directories, remembered.
//!
//! A walk asks each directory on its way: it locks it, counts holders of it and
//! searches it. Threads at work in different directories of one tree meet at
//! the root and just below it, on the same few lines of memory. A remembered
//! way asks nobody anything: it compares numbers that others only read.
//!
//! Each directory has a number of *turns*. It grows when the directory leaves
//! its name, or when who may search it changes; before anybody can see that,
//! and while the locks are held that a walk would need. A trail holds the turns
//! that a walk saw under those locks. As long as they are the same, the walk
//! would end where it did.
//!
//! Invariants:
//! - Whoever takes a trail holds its end first and compares the turns then. A
//!   removal counts a turn first and asks who holds the directory then. So
//!   either the one sees the turn, or the other the holder.
//! - A trail keeps its vnodes in the table, so that turns are counted on these
//!   very vnodes for as long as it lives.
//! - Only plain names are remembered: no links, no `.` and `..`.

use crate::attr::Caller;
use crate::hash::MixBuilder;
use crate::memory::vnode::Vnode;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use varve_device::sync::RwLock;

/// Shards of the mounted tree's.
pub(crate) const SHARDS: usize = 64;
/// Longer paths are walked every time.
const PATH_BYTES_MAX: usize = 256;
/// Deeper ones, too.
const STEPS_MAX: usize = 16;
/// One way for so many idle vnodes.
const VNODES_PER_TRAIL: usize = 16;

/// A directory on the way, and its turns when the walk came by.
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

/// A way from the root to a directory, as one caller may go it.
pub(crate) struct Trail {
    pub caller: Caller,
    /// From the root to the end, which is another one.
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

/// Aligned, so that shards share no line of memory.
#[derive(Default)]
#[repr(align(128))]
struct Shard(Trails);

/// See the module's head.
pub(crate) struct Passages {
    shards: Box<[RwLock<Shard>]>,
    shard_bound: usize,
}

impl Passages {
    /// Remembers as many ways as fit beside `idle_vnodes`, in so many shards.
    pub fn new(idle_vnodes: usize, shards: usize) -> Self {
        Passages {
            shards: (0..shards).map(|_| RwLock::default()).collect(),
            shard_bound: (idle_vnodes / VNODES_PER_TRAIL / shards).max(1),
        }
    }

    fn shard(&self, path: &[u8]) -> &RwLock<Shard> {
        // The table below takes the low bits and the highest.
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
        drop(shard); // and what was forgotten only after it
        drop(forgotten);
    }

    pub fn forget(&self, path: &[u8]) {
        self.shard(path).write().0.remove(path);
    }

    /// Forgets every way, and lets their vnodes go.
    pub fn clear(&self) {
        for shard in &self.shards {
            let forgotten = std::mem::take(&mut shard.write().0);
            drop(forgotten);
        }
    }
}
