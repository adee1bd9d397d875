//! Clean blocks, of all files together.
//!
//! Dirty blocks live in their vnode; a block enters here when it has been
//! read, or when the group that carries it has been appended.
//!
//! Invariant: an entry equals what the layout holds, unless the vnode has the
//! block dirty or as a hole, which is asked first. A vnode's *generation* is
//! part of the key and unique among all vnodes ever loaded, so that one number
//! changed forgets a file of any size.

use crate::hash::MixBuilder;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::sync::Arc;

type Key = (u64, u64);

#[derive(Clone, Debug)]
struct Weight;

/// What an entry costs besides its bytes.
const ENTRY_BYTES: u64 = 96;

impl Weighter<Key, Arc<Vec<u8>>> for Weight {
    fn weight(&self, _key: &Key, data: &Arc<Vec<u8>>) -> u64 {
        data.len() as u64 + ENTRY_BYTES
    }
}

/// See the module's head.
pub(crate) struct BlockCache {
    blocks: Cache<Key, Arc<Vec<u8>>, Weight, MixBuilder>,
}

impl BlockCache {
    pub fn new(capacity_bytes: u64) -> Self {
        let items = usize::try_from(capacity_bytes / 4096)
            .unwrap_or(usize::MAX)
            .max(16);
        BlockCache {
            blocks: Cache::with(
                items,
                capacity_bytes,
                Weight,
                MixBuilder,
                Default::default(),
            ),
        }
    }

    #[inline]
    pub fn get(&self, generation: u64, block: u64) -> Option<Arc<Vec<u8>>> {
        self.blocks.get(&(generation, block))
    }

    pub fn contains(&self, generation: u64, block: u64) -> bool {
        self.blocks.contains_key(&(generation, block))
    }

    pub fn insert(&self, generation: u64, block: u64, data: Arc<Vec<u8>>) {
        self.blocks.insert((generation, block), data);
    }

    /// Takes a block out, because it is about to change.
    pub fn take(&self, generation: u64, block: u64) -> Option<Arc<Vec<u8>>> {
        self.blocks
            .remove(&(generation, block))
            .map(|(_, data)| data)
    }

    pub fn clear(&self) {
        self.blocks.clear();
    }

    pub fn bytes(&self) -> u64 {
        self.blocks.weight()
    }
}
