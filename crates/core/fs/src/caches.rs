//! Caches that evict the same entries in every run and on every machine.
//!
//! By default the library hashes with a random seed and makes as many shards as the
//! machine has cores, and the entries that a full shard evicts depend on both. If this is
//! omitted, one seed of the laboratory gives different times from run to run wherever a
//! cache is full.

use crate::hash::MixBuilder;
use quick_cache::sync::DefaultLifecycle;
use quick_cache::{OptionsBuilder, UnitWeighter, Weighter};
use std::hash::Hash;

/// A cache with fixed hashing and a fixed number of shards.
pub type Cache<K, V, W = UnitWeighter> = quick_cache::sync::Cache<K, V, W, MixBuilder>;

/// Default share of the capacity for entries used more than once.
pub const MOSTLY_HOT: f64 = 0.97;

/// Approximate number of entries in a shard, and most shards.
const SHARD_ENTRIES: usize = 256;
const SHARDS: usize = 64;

/// A cache for about `entries` entries with a total weight of `capacity`. Entries used
/// more than once may take the share `hot` of it.
///
/// # Panics
/// If `hot` is not between 0 and 1.
pub fn cache<K, V, W>(entries: usize, capacity: u64, hot: f64, weighter: W) -> Cache<K, V, W>
where
    K: Eq + Hash,
    V: Clone,
    W: Weighter<K, V> + Clone,
{
    let options = OptionsBuilder::new()
        .estimated_items_capacity(entries)
        .weight_capacity(capacity)
        .hot_allocation(hot)
        .shards((entries / SHARD_ENTRIES).clamp(1, SHARDS))
        .build()
        .expect("both capacities are given");
    Cache::with_options(options, weighter, MixBuilder, DefaultLifecycle::default())
}

/// A cache for `entries` entries of equal weight.
pub fn cache_of<K: Eq + Hash, V: Clone>(entries: usize) -> Cache<K, V> {
    cache(entries, entries as u64, MOSTLY_HOT, UnitWeighter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_the_same_each_time() {
        let left = || {
            let cache: Cache<u64, u64> = cache_of(1000);
            for step in 0..5000u64 {
                let key = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 3000;
                if cache.get(&key).is_none() {
                    cache.insert(key, step);
                }
            }
            (0..3000)
                .filter(|key| cache.contains_key(key))
                .collect::<Vec<u64>>()
        };
        let first = left();
        assert!((500..=1000).contains(&first.len()));
        assert_eq!(first, left());
    }
}
