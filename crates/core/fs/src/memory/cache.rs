//! Cache of clean blocks, of all files together.
//!
//! Dirty blocks are in their vnode; a block enters the cache when it has been read, or
//! when the group that contains it has been appended.
//!
//! Invariant: an entry equals the layout's block, unless the vnode has the block dirty or
//! as a hole, which is checked first. A vnode's *generation* is part of the key and
//! unique among all vnodes ever loaded, so one new number invalidates a file of any size.
//! It records whether any block ever entered under it: most files that are deleted or
//! read for the first time have none, and no search is made for them.

use crate::caches::{Cache, cache};
use quick_cache::Weighter;
use std::sync::Arc;
use varve_device::Block;
use varve_device::sync::atomic::{AtomicBool, Ordering::Relaxed};

type Key = (u64, u64);

/// The key of a file's blocks in the cache. The file's lock is taken both to look a block
/// up and to enter it.
#[derive(Debug)]
pub(crate) struct Generation {
    number: u64,
    /// A block has entered the cache under this number.
    used: AtomicBool,
}

impl Generation {
    /// A generation with a `number` that no other one ever had.
    pub fn new(number: u64) -> Self {
        Generation {
            number,
            used: AtomicBool::new(false),
        }
    }

    /// The key of a block, if it can be in the cache.
    #[inline]
    fn key(&self, block: u64) -> Option<Key> {
        self.used.load(Relaxed).then_some((self.number, block))
    }
}

#[derive(Clone, Debug)]
struct Weight;

/// Share of the capacity for blocks used more than once. The rest is for blocks just
/// fetched: if it is smaller, blocks that were read ahead are evicted before they are
/// used, and are fetched again.
const HOT: f64 = 0.75;

/// Overhead of an entry, in bytes.
const ENTRY_BYTES: u64 = 96;

impl Weighter<Key, Arc<Block>> for Weight {
    fn weight(&self, _key: &Key, data: &Arc<Block>) -> u64 {
        data.len() as u64 + ENTRY_BYTES
    }
}

/// The cache of clean blocks.
pub(crate) struct BlockCache {
    blocks: Cache<Key, Arc<Block>, Weight>,
}

impl BlockCache {
    pub fn new(capacity_bytes: u64) -> Self {
        let items = usize::try_from(capacity_bytes / 4096)
            .unwrap_or(usize::MAX)
            .max(16);
        BlockCache {
            blocks: cache(items, capacity_bytes, HOT, Weight),
        }
    }

    #[inline]
    pub fn get(&self, generation: &Generation, block: u64) -> Option<Arc<Block>> {
        self.blocks.get(&generation.key(block)?)
    }

    pub fn contains(&self, generation: &Generation, block: u64) -> bool {
        let key = generation.key(block);
        key.is_some_and(|key| self.blocks.contains_key(&key))
    }

    pub fn insert(&self, generation: &Generation, block: u64, data: Arc<Block>) {
        generation.used.store(true, Relaxed);
        self.blocks.insert((generation.number, block), data);
    }

    /// Removes a block, because it is about to change.
    pub fn take(&self, generation: &Generation, block: u64) -> Option<Arc<Block>> {
        let taken = self.blocks.remove(&generation.key(block)?);
        taken.map(|(_, data)| data)
    }

    pub fn clear(&self) {
        self.blocks.clear();
    }

    pub fn capacity_bytes(&self) -> u64 {
        self.blocks.capacity()
    }

    pub fn bytes(&self) -> u64 {
        self.blocks.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_found_under_the_generation_it_entered_by() {
        let cache = BlockCache::new(1 << 20);
        let (one, other) = (Generation::new(1), Generation::new(2));
        assert!(cache.take(&one, 5).is_none());
        let block = Block::from(vec![7]);
        cache.insert(&one, 5, Arc::new(block.clone()));
        assert!(cache.get(&other, 5).is_none() && !cache.contains(&other, 5));
        assert!(cache.contains(&one, 5) && !cache.contains(&one, 6));
        assert_eq!(cache.get(&one, 5).as_deref(), Some(&block));
        assert_eq!(cache.take(&one, 5).as_deref(), Some(&block));
        assert!(cache.get(&one, 5).is_none());
    }
}
