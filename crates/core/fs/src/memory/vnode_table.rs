//! Vnodes in memory, by number.
//!
//! Invariants:
//! - The table has at most one vnode per number. It never drops a vnode that is dirty,
//!   referenced without a name, or freed but not yet logged, because the layout's state
//!   of such a number is outdated.
//! - The reference count of every number is known: from its vnode, or from the count that
//!   the vnode left when it was dropped. It passes from one to the other under the
//!   shard's lock.
//! - A number whose file was freed without a vnode (`names/alone.rs`) is listed as freed
//!   until that is logged; no vnode is made from the layout's state of it.
//! - An inode is read from the layout under its loading lock, so that no stale image can
//!   enter after a concurrent change.

use crate::hash::MixBuilder;
use crate::locks::{Level, Lock, Ranked};
use crate::memory::parked::ParkedCounts;
use crate::memory::vnode::Vnode;
use crate::types::InodeNo;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::fence;
use varve_device::sync::atomic::Ordering;
use varve_device::sync::{Mutex, MutexGuard, RwLock};

/// Number of shards of the mounted tree's table.
pub(crate) const SHARDS: usize = 64;
/// Number of shards of a private tree's.
pub(crate) const SHARDS_PRIVATE: usize = 2;
/// Number of consecutive inode numbers in one shard: files that were made together are
/// used together, so threads at work in different places seldom contend.
const RUN: u64 = 64;
/// Most vnodes examined for eviction at an insertion beyond the bound.
const EVICT_TRIES: usize = 4;

/// Aligned, so that shards share no cache line.
#[derive(Default)]
#[repr(align(128))]
struct Shard {
    vnodes: HashMap<u64, Arc<Vnode>, MixBuilder>,
    /// Numbers and births in order of insertion; some are no longer in the table.
    order: VecDeque<(u64, u64)>,
    parked: ParkedCounts,
    ended: HashSet<u64, MixBuilder>,
}

/// The vnodes of one tree.
pub(crate) struct VnodeTable {
    shards: Box<[RwLock<Shard>]>,
    loading: Box<[Mutex<()>]>,
    shard_bound: usize,
    level: Level,
}

/// State of a number in [`VnodeTable`].
pub(crate) enum Known {
    /// Its file is in memory.
    Vnode(Arc<Vnode>),
    /// Its file is not in memory, and is referenced.
    Held,
    /// Its file was freed, which is not logged yet.
    Ended,
    /// Only the layout knows of it.
    Nothing,
}

impl VnodeTable {
    /// A table of `shards` shards, a power of two, that keeps about `bound` unused
    /// vnodes.
    pub fn new(bound: usize, shards: usize, level: Level) -> Self {
        assert!(shards.is_power_of_two());
        VnodeTable {
            shards: (0..shards).map(|_| RwLock::default()).collect(),
            loading: (0..shards).map(|_| Mutex::default()).collect(),
            shard_bound: bound.div_ceil(shards),
            level,
        }
    }

    /// Number of unused vnodes that it keeps.
    pub fn bound(&self) -> usize {
        self.shard_bound * self.shards.len()
    }

    fn shard(&self, ino: InodeNo) -> usize {
        (ino.0 / RUN) as usize & (self.shards.len() - 1)
    }

    fn index(&self, ino: InodeNo) -> u64 {
        index(ino, self.shards.len())
    }

    #[inline]
    pub fn get(&self, ino: InodeNo) -> Option<Arc<Vnode>> {
        let shard = self.shards[self.shard(ino)].read();
        let vnode = shard.vnodes.get(&ino.0)?;
        if !vnode.touched.load(Ordering::Relaxed) {
            vnode.touched.store(true, Ordering::Relaxed);
        }
        Some(Arc::clone(vnode))
    }

    /// Lock taken while an inode is read and entered. Neighbouring numbers have different
    /// locks, so they are read in parallel.
    pub fn loading(&self, ino: InodeNo) -> Ranked<MutexGuard<'_, ()>> {
        let lock = &self.loading[ino.0 as usize & (self.loading.len() - 1)];
        Ranked::take(self.level.rank(Lock::Load), || lock.lock())
    }

    /// Enters a vnode, replacing one of an earlier file of the number, and evicts if
    /// there are many.
    pub fn insert(&self, vnode: Arc<Vnode>) {
        // A second shard is chosen at random, because shards into which no vnode is
        // entered any more also have vnodes to evict.
        let other = MixBuilder.hash_one(vnode.birth) as usize & (self.shards.len() - 1);
        self.make_room(other);
        let place = self.shard(vnode.ino);
        let mut shard = self.shards[place].write();
        let held = shard.parked.take(self.index(vnode.ino));
        vnode.refs.fetch_add(held, Ordering::Relaxed);
        shard.order.push_back((vnode.ino.0, vnode.birth));
        shard.vnodes.insert(vnode.ino.0, vnode);
        drop(shard);
        self.make_room(place);
    }

    /// Examines a few vnodes of a shard that has many.
    fn make_room(&self, place: usize) {
        let mut evicted = [const { None }; EVICT_TRIES];
        let mut shard = self.shards[place].write();
        if shard.order.len() > self.shard_bound {
            for slot in &mut evicted {
                *slot = shard.evict_one(self.shard_bound, self.shards.len());
            }
        }
        drop(shard); // and the evicted only after it
    }

    /// Releases references to a number whose vnode is not in memory; returns the vnode if
    /// it is.
    pub fn release(&self, ino: InodeNo, references: u64) -> Option<Arc<Vnode>> {
        let mut shard = self.shards[self.shard(ino)].write();
        if let Some(vnode) = shard.vnodes.get(&ino.0) {
            return Some(Arc::clone(vnode));
        }
        let index = self.index(ino);
        let held = shard.parked.get(index);
        shard.parked.set(index, held.saturating_sub(references));
        None
    }

    /// State of a number whose loading lock the caller has.
    pub fn known(&self, ino: InodeNo) -> Known {
        let shard = self.shards[self.shard(ino)].read();
        if let Some(vnode) = shard.vnodes.get(&ino.0) {
            return Known::Vnode(Arc::clone(vnode));
        }
        if shard.ended.contains(&ino.0) {
            return Known::Ended;
        }
        match shard.parked.get(self.index(ino)) {
            0 => Known::Nothing,
            _ => Known::Held,
        }
    }

    /// Records that the file of a number without a vnode was freed. The caller has the
    /// loading lock.
    pub fn end(&self, ino: InodeNo) {
        let mut shard = self.shards[self.shard(ino)].write();
        shard.ended.insert(ino.0);
    }

    /// Records that the freeing of these files has been logged.
    pub fn forget_ended(&self, numbers: impl Iterator<Item = InodeNo>) {
        let mut numbers = numbers.peekable();
        while let Some(ino) = numbers.next() {
            let place = self.shard(ino);
            let mut shard = self.shards[place].write();
            shard.ended.remove(&ino.0);
            while let Some(ino) = numbers.next_if(|next| self.shard(*next) == place) {
                shard.ended.remove(&ino.0);
            }
        }
    }

    /// Removes this very vnode.
    pub fn remove(&self, vnode: &Vnode) {
        let mut shard = self.shards[self.shard(vnode.ino)].write();
        if shard
            .vnodes
            .get(&vnode.ino.0)
            .is_some_and(|v| v.birth == vnode.birth)
        {
            shard.vnodes.remove(&vnode.ino.0);
        }
    }

    /// Drops every vnode that can be loaded again.
    pub fn clear(&self) {
        for shard in &self.shards {
            let mut shard = shard.write();
            let Shard {
                vnodes,
                order,
                parked,
                ended: _,
            } = &mut *shard;
            vnodes.retain(|_, vnode| {
                let keep = !is_idle(vnode);
                if !keep {
                    park(parked, vnode, self.shards.len());
                }
                keep
            });
            order.retain(|(ino, birth)| vnodes.get(ino).is_some_and(|v| v.birth == *birth));
        }
    }

    /// All vnodes.
    pub fn all(&self) -> Vec<Arc<Vnode>> {
        let shards = self.shards.iter();
        shards
            .flat_map(|shard| shard.read().vnodes.values().cloned().collect::<Vec<_>>())
            .collect()
    }

    /// Removes and returns all vnodes.
    pub fn drain(&self) -> Vec<Arc<Vnode>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.write();
            shard.order.clear();
            all.extend(shard.vnodes.drain().map(|(_, vnode)| vnode));
        }
        all
    }

    pub fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.read().vnodes.len())
            .sum()
    }
}

/// Index of a number among those of its shard; there are `shards` shards.
fn index(ino: InodeNo, shards: usize) -> u64 {
    let run = (ino.0 / RUN) >> shards.trailing_zeros();
    run * RUN + ino.0 % RUN
}

/// True if only the table references this vnode, and need not keep it. No thread can
/// obtain a reference meanwhile, as that takes the shard's lock.
fn is_idle(vnode: &Arc<Vnode>) -> bool {
    let alone = Arc::strong_count(vnode) == 1;
    // The count is read without ordering. The thread that dropped the last other
    // reference may have counted a reference to the number before, which must be visible.
    fence(Ordering::Acquire);
    alone && vnode.is_evictable()
}

/// Keeps the reference count of a vnode that is about to be dropped.
fn park(parked: &mut ParkedCounts, vnode: &Vnode, shards: usize) {
    let held = vnode.refs.load(Ordering::Relaxed);
    if held > 0 {
        parked.set(index(vnode.ino, shards), held);
    }
}

impl Shard {
    /// Examines the vnode that was entered first: it gets a second chance if it was used
    /// or is needed, and is evicted otherwise.
    fn evict_one(&mut self, bound: usize, shards: usize) -> Option<Arc<Vnode>> {
        let (ino, birth) = self.order.pop_front()?;
        let vnode = self.vnodes.get(&ino).filter(|v| v.birth == birth)?;
        let used = vnode.touched.swap(false, Ordering::Relaxed);
        if self.vnodes.len() > bound && !used && is_idle(vnode) {
            park(&mut self.parked, vnode, shards);
            return self.vnodes.remove(&ino);
        }
        self.order.push_back((ino, birth));
        None
    }
}
