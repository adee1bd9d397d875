//! Parts of objects in memory.

use crate::format::{ObjectId, PART};
use quick_cache::sync::Cache;
use std::sync::Arc;

/// Parts that were used last, by object and number. They never change, as objects do not.
pub(crate) type Parts = Cache<(ObjectId, u64), Arc<Vec<u8>>>;

/// A cache of at most so many bytes, and of at least two parts.
pub(crate) fn cache(bytes: u64) -> Parts {
    Cache::new((bytes / PART).max(2) as usize)
}
