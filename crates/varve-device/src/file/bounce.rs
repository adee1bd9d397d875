//! Aligned buffers kept for callers whose own are not aligned.
//!
//! Invariant: the pool holds at most [`KEPT`] buffers of [`BOUNCE_BYTES`]
//! each; a burst beyond that allocates and frees.

use parking_lot::Mutex;

use crate::aligned::AlignedBuffer;

/// Bytes in a bounce buffer; a longer transfer goes through it in steps.
pub(super) const BOUNCE_BYTES: usize = 1 << 20;
/// Buffers kept.
const KEPT: usize = 4;

/// Bounce buffers ready for use.
#[derive(Debug, Default)]
pub(super) struct BouncePool(Mutex<Vec<AlignedBuffer>>);

impl BouncePool {
    /// Lends a buffer of [`BOUNCE_BYTES`] bytes, whose content is whatever the
    /// last user left there.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut AlignedBuffer) -> T) -> T {
        let kept = self.0.lock().pop();
        let mut buffer = kept.unwrap_or_else(|| AlignedBuffer::zeroed(BOUNCE_BYTES));
        let result = work(&mut buffer);
        let mut pool = self.0.lock();
        if pool.len() < KEPT {
            pool.push(buffer);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused_and_few_are_kept() {
        let pool = BouncePool::default();
        let first = pool.with(|buffer| buffer.as_ptr().addr());
        assert_eq!(pool.with(|buffer| buffer.as_ptr().addr()), first);
        fn nest(pool: &BouncePool, depth: usize) {
            if depth > 0 {
                pool.with(|_| nest(pool, depth - 1));
            }
        }
        nest(&pool, 10);
        assert_eq!(pool.0.lock().len(), KEPT);
    }
}
