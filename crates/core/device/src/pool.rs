//! A pool of aligned buffers of one size, which are used again.
//!
//! Fresh memory costs a page fault for every 4 KiB and is zeroed by the host, which is
//! more expensive than the copy that fills it.
//!
//! Invariant: at most `keep` buffers are kept while not in use; buffers beyond that are
//! allocated and freed.

use crate::aligned::AlignedBuffer;
use parking_lot::Mutex;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A pool of buffers of one size.
#[derive(Debug)]
pub struct BufferPool {
    buffer_bytes: usize,
    keep: usize,
    waiting: Mutex<Vec<AlignedBuffer>>,
    lent: AtomicUsize,
}

impl BufferPool {
    /// Creates a pool that keeps at most `keep` buffers of `buffer_bytes` bytes.
    pub fn new(buffer_bytes: usize, keep: usize) -> Arc<Self> {
        Arc::new(BufferPool {
            buffer_bytes,
            keep,
            waiting: Mutex::default(),
            lent: AtomicUsize::new(0),
        })
    }

    /// Returns true if at most as many buffers are lent as the pool keeps. A caller
    /// that keeps one for long then forces no other caller to allocate memory.
    pub fn can_spare(&self) -> bool {
        self.lent.load(Relaxed) <= self.keep
    }

    /// Returns a buffer of `len` bytes, whose content is undefined. A buffer that is
    /// larger than those of the pool, or less than a quarter of their size, is
    /// allocated for this use alone.
    pub fn take(self: &Arc<Self>, len: usize) -> PooledBuffer {
        if len > self.buffer_bytes || len < self.buffer_bytes / 4 {
            return PooledBuffer {
                buffer: AlignedBuffer::zeroed(len),
                len,
                pool: None,
            };
        }
        self.lent.fetch_add(1, Relaxed);
        let waiting = self.waiting.lock().pop();
        PooledBuffer {
            buffer: waiting.unwrap_or_else(|| AlignedBuffer::zeroed(self.buffer_bytes)),
            len,
            pool: Some(Arc::clone(self)),
        }
    }
}

/// A buffer of a pool; it returns to the pool when it is dropped.
#[derive(Debug)]
pub struct PooledBuffer {
    buffer: AlignedBuffer,
    len: usize,
    pool: Option<Arc<BufferPool>>,
}

impl Deref for PooledBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl DerefMut for PooledBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.len]
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let Some(pool) = &self.pool else { return };
        pool.lent.fetch_sub(1, Relaxed);
        let mut waiting = pool.waiting.lock();
        if waiting.len() < pool.keep {
            waiting.push(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused_and_few_are_kept() {
        let pool = BufferPool::new(1 << 16, 4);
        let first = pool.take(1 << 16).as_ptr().addr();
        assert_eq!(pool.take(40_000).as_ptr().addr(), first);
        let few: Vec<_> = (0..4).map(|_| pool.take(1 << 16)).collect();
        assert!(pool.can_spare());
        let many: Vec<_> = (0..6).map(|_| pool.take(1 << 16)).collect();
        assert!(!pool.can_spare());
        drop((few, many));
        assert!(pool.can_spare());
        assert_eq!(pool.waiting.lock().len(), 4);
    }

    #[test]
    fn odd_sizes_are_allocated_for_one_use() {
        let pool = BufferPool::new(1 << 16, 4);
        for len in [0, 1, 1000, 70_000, 1 << 20] {
            assert_eq!(pool.take(len).len(), len);
        }
        assert!(pool.waiting.lock().is_empty() && pool.can_spare());
    }
}
