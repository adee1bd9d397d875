//! Vnodes in memory, by number.
//!
//! Invariants:
//! - At most one vnode per number is in the table, and a vnode that is dirty,
//!   held without a name, or freed but not yet logged is never dropped from
//!   it: what the layout says of such a number is out of date.
//! - How often a number is held is known of every number: by its vnode, or by
//!   what that left behind when it was dropped. It passes from one to the
//!   other under the shard's lock.
//! - A number whose file ended without a vnode (`names/alone.rs`) is known as ended
//!   until that is logged; no vnode is made of what the layout says of it.
//! - An inode is read from the layout under its loading lock, so that no stale
//!   image can enter behind a change that came and went meanwhile.

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

/// Shards of the mounted tree's table.
pub(crate) const SHARDS: usize = 64;
/// Those of a private tree's.
pub(crate) const SHARDS_PRIVATE: usize = 2;
/// So many numbers in a row lie in one shard: files that were made together are
/// used together, so threads at work in different places seldom meet.
const RUN: u64 = 64;
/// Candidates looked at per insertion beyond the bound.
const EVICT_TRIES: usize = 4;

/// Aligned, so that shards share no line of memory.
#[derive(Default)]
#[repr(align(128))]
struct Shard {
    vnodes: HashMap<u64, Arc<Vnode>, MixBuilder>,
    /// Numbers and births in order of arrival; some are gone.
    order: VecDeque<(u64, u64)>,
    parked: ParkedCounts,
    ended: HashSet<u64, MixBuilder>,
}

/// See the module's head.
pub(crate) struct VnodeTable {
    shards: Box<[RwLock<Shard>]>,
    loading: Box<[Mutex<()>]>,
    shard_bound: usize,
    level: Level,
}

/// What [`VnodeTable`] knows of a number.
pub(crate) enum Known {
    /// Its file is in memory.
    Vnode(Arc<Vnode>),
    /// It is not, and somebody holds it.
    Held,
    /// Its file has ended, which is not logged yet.
    Ended,
    /// What the layout says of it is all there is.
    Nothing,
}

impl VnodeTable {
    /// A table of so many shards, a power of two, that keeps about `bound` vnodes that
    /// nobody needs.
    pub fn new(bound: usize, shards: usize, level: Level) -> Self {
        assert!(shards.is_power_of_two());
        VnodeTable {
            shards: (0..shards).map(|_| RwLock::default()).collect(),
            loading: (0..shards).map(|_| Mutex::default()).collect(),
            shard_bound: bound.div_ceil(shards),
            level,
        }
    }

    /// How many vnodes that nobody needs it keeps.
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

    /// Held while an inode is read and entered. Neighbours are read side by side.
    pub fn loading(&self, ino: InodeNo) -> Ranked<MutexGuard<'_, ()>> {
        let lock = &self.loading[ino.0 as usize & (self.loading.len() - 1)];
        Ranked::take(self.level.rank(Lock::Load), || lock.lock())
    }

    /// Enters a vnode, replacing one of an earlier life of the number, and
    /// makes room if there are many.
    pub fn insert(&self, vnode: Arc<Vnode>) {
        // Shards that nothing enters any more have vnodes to give up as well.
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

    /// Looks at a few vnodes of a shard that has many.
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

    /// Gives back references to a number whose vnode is not in memory; the
    /// vnode if it is.
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

    /// What is known of a number whose loading lock is held.
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

    /// The file of a number without a vnode has ended. The loading lock is held.
    pub fn end(&self, ino: InodeNo) {
        let mut shard = self.shards[self.shard(ino)].write();
        shard.ended.insert(ino.0);
    }

    /// The ends of these files have been logged.
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

    /// Forgets every vnode that can be read again.
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

    /// Every vnode.
    pub fn all(&self) -> Vec<Arc<Vnode>> {
        let shards = self.shards.iter();
        shards
            .flat_map(|shard| shard.read().vnodes.values().cloned().collect::<Vec<_>>())
            .collect()
    }

    /// Takes every vnode out.
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

/// A number's place among those of its shard, of so many.
fn index(ino: InodeNo, shards: usize) -> u64 {
    let run = (ino.0 / RUN) >> shards.trailing_zeros();
    run * RUN + ino.0 % RUN
}

/// True if the table alone has this vnode, and need not keep it. Nobody can
/// take it up meanwhile: that takes the shard's lock.
fn is_idle(vnode: &Arc<Vnode>) -> bool {
    let alone = Arc::strong_count(vnode) == 1;
    // The count is read without order. Whoever held the vnode last may have
    // counted a reference to its number before, which must be seen.
    fence(Ordering::Acquire);
    alone && vnode.is_evictable()
}

/// Keeps the count of a vnode that is about to be dropped.
fn park(parked: &mut ParkedCounts, vnode: &Vnode, shards: usize) {
    let held = vnode.refs.load(Ordering::Relaxed);
    if held > 0 {
        parked.set(index(vnode.ino, shards), held);
    }
}

impl Shard {
    /// Looks at the vnode that has been here longest: a second chance if it
    /// was used or is needed, out with it otherwise.
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
