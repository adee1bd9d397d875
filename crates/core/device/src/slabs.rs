//! Memory for blocks of one size, aligned for direct I/O, that is used again.
//!
//! The host's allocator takes two pages for each block that must begin on a page. Fresh
//! memory costs a page fault for every 4 KiB, and aligned memory is filled with zeros a
//! second time. A slab is therefore the memory of [`BLOCKS`] blocks in one mapping,
//! which the host populates at once. A slab without a block in use is returned to the
//! host, except for a few.
//!
//! Invariants:
//! - A bit of a slab is set if and only if no [`Piece`] has that part of the slab.
//! - A slab is in `open` if and only if one of its bits is set; `place` is its index.
#![allow(unsafe_code)]

use parking_lot::Mutex;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Number of blocks in a slab.
const BLOCKS: usize = u64::BITS as usize;
/// Memory, in bytes, of slabs without a block in use that is kept for later blocks.
const KEPT_BYTES: usize = 64 << 20;

/// Slabs of blocks of one size.
#[derive(Debug)]
pub(crate) struct Slabs {
    block_bytes: usize,
    free: Mutex<Free>,
}

#[derive(Debug)]
struct Free {
    /// Slabs with a block that is not in use. The last one is used first.
    open: Vec<Arc<Slab>>,
    /// Number of slabs in `open` that have no block in use.
    empty: usize,
}

#[derive(Debug)]
struct Slab {
    slabs: &'static Slabs,
    start: NonNull<u8>,
    /// A bit for each block that is not in use. Written only under the mutex of `free`.
    unused: AtomicU64,
    /// Index of the slab in `open`.
    place: AtomicUsize,
}

// SAFETY: the memory belongs to the slab, and each part of it to one piece at a time.
unsafe impl Send for Slab {}
// SAFETY: nothing reads or writes the memory through a shared slab.
unsafe impl Sync for Slab {}

/// The memory of one block. Its content is undefined until it is written.
#[derive(Debug)]
pub(crate) struct Piece {
    slab: Arc<Slab>,
    nth: usize,
}

impl Slabs {
    /// Creates an empty set of slabs. `block_bytes` must be a multiple of 4096.
    pub const fn new(block_bytes: usize) -> Self {
        Slabs {
            block_bytes,
            free: Mutex::new(Free {
                open: Vec::new(),
                empty: 0,
            }),
        }
    }

    /// Returns the memory of one block.
    ///
    /// # Panics
    /// If memory is exhausted.
    pub fn take(&'static self) -> Piece {
        if let Some(piece) = self.free.lock().take() {
            return piece;
        }
        let slab = Slab::new(self);
        let mut free = self.free.lock();
        free.open(slab);
        free.empty += 1;
        free.take().expect("a slab was added")
    }

    fn kept(&self) -> usize {
        KEPT_BYTES / (BLOCKS * self.block_bytes)
    }
}

impl Free {
    fn take(&mut self) -> Option<Piece> {
        let slab = Arc::clone(self.open.last()?);
        let unused = slab.unused.load(Relaxed);
        let nth = unused.trailing_zeros() as usize;
        let left = unused & (unused - 1);
        slab.unused.store(left, Relaxed);
        if unused == u64::MAX {
            self.empty -= 1;
        }
        if left == 0 {
            self.open.pop();
        }
        Some(Piece { slab, nth })
    }

    fn open(&mut self, slab: Arc<Slab>) {
        slab.place.store(self.open.len(), Relaxed);
        self.open.push(slab);
    }

    /// Removes a slab from `open`.
    fn close(&mut self, slab: &Slab) -> Arc<Slab> {
        let place = slab.place.load(Relaxed);
        let closed = self.open.swap_remove(place);
        if let Some(moved) = self.open.get(place) {
            moved.place.store(place, Relaxed);
        }
        closed
    }
}

impl Slab {
    fn new(slabs: &'static Slabs) -> Arc<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let bytes = BLOCKS * slabs.block_bytes;
        // SAFETY: the mapping replaces no other one, because no address is requested.
        let memory = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, flags) };
        let memory = memory.expect("memory for blocks");
        Arc::new(Slab {
            slabs,
            start: NonNull::new(memory.cast()).expect("a mapping"),
            unused: AtomicU64::new(u64::MAX),
            place: AtomicUsize::new(0),
        })
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        let bytes = BLOCKS * self.slabs.block_bytes;
        // SAFETY: this is the mapping that `new` made, with the same length. Each piece
        // keeps the slab alive, so no piece is left that refers to the mapping.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), bytes) };
    }
}

impl Piece {
    fn start(&self) -> *mut u8 {
        let bytes = self.nth * self.slab.slabs.block_bytes;
        // SAFETY: `nth` is below `BLOCKS`, so this is within the slab's memory.
        unsafe { self.slab.start.add(bytes) }.as_ptr()
    }

    /// Returns the memory of the block.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is initialised; this part belongs to this piece alone
        // until the piece is dropped, and `self` is borrowed meanwhile.
        unsafe { slice::from_raw_parts(self.start(), self.slab.slabs.block_bytes) }
    }

    /// Returns the memory of the block, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `self` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.start(), self.slab.slabs.block_bytes) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let slabs = self.slab.slabs;
        let mut free = slabs.free.lock();
        let before = self.slab.unused.load(Relaxed);
        let unused = before | 1 << self.nth;
        self.slab.unused.store(unused, Relaxed);
        if before == 0 {
            free.open(Arc::clone(&self.slab));
        }
        if unused != u64::MAX {
            return;
        }
        if free.empty < slabs.kept() {
            free.empty += 1;
            return;
        }
        let closed = free.close(&self.slab);
        drop(free);
        drop(closed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn slabs() -> &'static Slabs {
        Box::leak(Box::new(Slabs::new(4096)))
    }

    #[test]
    fn pieces_are_aligned_apart_and_used_again() {
        let slabs = slabs();
        let mut pieces: Vec<Piece> = (0..3 * BLOCKS).map(|_| slabs.take()).collect();
        for (nth, piece) in pieces.iter_mut().enumerate() {
            assert_eq!(piece.bytes().as_ptr().addr() % 4096, 0);
            piece.bytes_mut().fill(nth as u8);
        }
        for (nth, piece) in pieces.iter().enumerate() {
            assert!(piece.bytes().iter().all(|&byte| byte == nth as u8));
        }
        let former = pieces.pop().map(|piece| piece.bytes().as_ptr().addr());
        assert_eq!(Some(slabs.take().bytes().as_ptr().addr()), former);
    }

    #[test]
    fn few_slabs_without_a_block_in_use_are_kept() {
        let slabs = slabs();
        let several = (slabs.kept() + 10) * BLOCKS;
        let pieces: Vec<Piece> = (0..several).map(|_| slabs.take()).collect();
        assert!(slabs.free.lock().open.is_empty());
        drop(pieces);
        let free = slabs.free.lock();
        assert_eq!((free.empty, free.open.len()), (slabs.kept(), slabs.kept()));
    }

    #[test]
    fn threads_that_take_and_give_back_never_share_one() {
        let slabs = slabs();
        thread::scope(|scope| {
            for thread in 1..5_u8 {
                scope.spawn(move || {
                    let mut held = std::collections::VecDeque::new();
                    for round in 0..20_000_u32 {
                        let mut piece = slabs.take();
                        piece.bytes_mut()[..8].fill(thread);
                        held.push_back(piece);
                        // The number of pieces grows and shrinks, so that slabs are
                        // made and returned.
                        while held.len() > (round % 997) as usize {
                            let piece = held.pop_front().expect("not empty");
                            assert!(piece.bytes()[..8].iter().all(|&byte| byte == thread));
                        }
                    }
                });
            }
        });
        let free = slabs.free.lock();
        assert!(free.empty == free.open.len() && free.empty <= slabs.kept());
        for (place, slab) in free.open.iter().enumerate() {
            assert_eq!(slab.place.load(Relaxed), place);
        }
    }
}
