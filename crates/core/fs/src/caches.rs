//! Caches that forget the same entries in every run and on every machine.
//!
//! By themselves they hash with a seed drawn at random, and have as many shards as the
//! machine has cores; and what a shard is short of room for depends on both. So one
//! seed gave other times in the laboratory from run to run, wherever a cache was full.

use crate::hash::MixBuilder;
use quick_cache::sync::DefaultLifecycle;
use quick_cache::{OptionsBuilder, UnitWeighter, Weighter};
use std::hash::Hash;

/// See the module's head.
pub type Cache<K, V, W = UnitWeighter> = quick_cache::sync::Cache<K, V, W, MixBuilder>;

/// The part that entries used more than once may take, if nothing else is said.
pub const MOSTLY_HOT: f64 = 0.97;

/// Entries of a shard, about, and most shards.
const SHARD_ENTRIES: usize = 256;
const SHARDS: usize = 64;

/// A cache for about so many entries, of `capacity` in weight, of which those that are
/// used more than once may take the part `hot`.
///
/// # Panics
/// If that is no part of 1.
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

/// The same for so many entries of one weight.
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
