//! Clean blocks, of all files together.
//!
//! Dirty blocks live in their vnode; a block enters here when it has been
//! read, or when the group that carries it has been appended.
//!
//! Invariant: an entry equals what the layout holds, unless the vnode has the
//! block dirty or as a hole, which is asked first. A vnode's *generation* is
//! part of the key and unique among all vnodes ever loaded, so that one number
//! changed forgets a file of any size. It knows whether any block ever entered
//! under it: most files that are deleted or read for the first time have none,
//! and nothing is searched for them.

use crate::caches::{Cache, cache};
use quick_cache::Weighter;
use std::sync::Arc;
use varve_device::Block;
use varve_device::sync::atomic::{AtomicBool, Ordering::Relaxed};

type Key = (u64, u64);

/// What a file's blocks go by in the cache. Whoever asks holds the file's lock
/// and so did whoever entered a block.
#[derive(Debug)]
pub(crate) struct Generation {
    number: u64,
    /// A block has entered the cache under this number.
    used: AtomicBool,
}

impl Generation {
    /// `number` is one that no generation has had.
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

/// The part that blocks used more than once may take. What has just been fetched has
/// the rest: with less of it, blocks that were read ahead are gone before somebody
/// comes to them, and are fetched again.
const HOT: f64 = 0.75;

/// What an entry costs besides its bytes.
const ENTRY_BYTES: u64 = 96;

impl Weighter<Key, Arc<Block>> for Weight {
    fn weight(&self, _key: &Key, data: &Arc<Block>) -> u64 {
        data.len() as u64 + ENTRY_BYTES
    }
}

/// See the module's head.
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

    /// Takes a block out, because it is about to change.
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
