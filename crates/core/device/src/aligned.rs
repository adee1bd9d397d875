//! A byte buffer that starts on a page, for direct I/O.
//!
//! Invariants:
//! - The first byte's address is a multiple of [`ALIGNMENT`], also after the
//!   buffer has grown: the memory is a vector of page-sized units that the
//!   allocator itself aligns, viewed as bytes.
//! - Bytes added by growing are zero, even where the memory was used before.

use std::ops::{Deref, DerefMut};

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Alignment, in bytes, of the address of every [`AlignedBuffer`]. No device in
/// use requires a larger one.
pub const ALIGNMENT: usize = 4096;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(4096))]
pub(crate) struct Unit([u8; ALIGNMENT]);
const _: () = assert!(size_of::<Unit>() == ALIGNMENT && align_of::<Unit>() == ALIGNMENT);

/// A byte buffer whose address is a multiple of [`ALIGNMENT`] (4096).
#[derive(Clone, Default)]
pub struct AlignedBuffer {
    units: Vec<Unit>,
    len: usize,
}

impl AlignedBuffer {
    /// Returns a buffer of `len` zero bytes.
    ///
    /// # Panics
    /// If memory is exhausted.
    pub fn zeroed(len: usize) -> Self {
        let units = Unit::new_vec_zeroed(len.div_ceil(ALIGNMENT)).expect("memory for a buffer");
        AlignedBuffer { units, len }
    }

    /// Returns an empty buffer that can grow to `capacity` bytes without moving.
    pub fn with_capacity(capacity: usize) -> Self {
        AlignedBuffer {
            units: Vec::with_capacity(capacity.div_ceil(ALIGNMENT)),
            len: 0,
        }
    }

    /// Returns the length of the buffer's contents, in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the length is zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bytes that the buffer can contain without moving.
    pub fn capacity(&self) -> usize {
        self.units.capacity() * ALIGNMENT
    }

    /// Returns the contents as a slice.
    pub fn as_slice(&self) -> &[u8] {
        &self.units.as_slice().as_bytes()[..self.len]
    }

    /// Returns the contents as a mutable slice.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.units.as_mut_slice().as_mut_bytes()[..self.len]
    }

    /// Sets the length to `len` bytes: truncates the contents, or appends zeros.
    /// A buffer that shrinks keeps its memory.
    pub fn resize(&mut self, len: usize) {
        let old = std::mem::replace(&mut self.len, len);
        let held = self.units.len() * ALIGNMENT;
        if len > old {
            self.units.as_mut_slice().as_mut_bytes()[old..len.min(held)].fill(0);
        }
        if len > held {
            self.units
                .resize_with(len.div_ceil(ALIGNMENT), Unit::new_zeroed);
        }
    }

    /// Sets the length to zero and keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends `bytes` to the contents.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let start = self.len;
        self.resize(start + bytes.len());
        self.as_mut_slice()[start..].copy_from_slice(bytes);
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }
}

impl std::fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlignedBuffer")
            .field("len", &self.len)
            .field("capacity", &self.capacity())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_aligned_while_growing() {
        let mut buffer = AlignedBuffer::default();
        for len in [1, 511, 4096, 4097, 100_000, 3_000_000] {
            buffer.resize(len);
            assert_eq!(buffer.as_slice().as_ptr().addr() % ALIGNMENT, 0);
            assert_eq!(buffer.len(), len);
            assert!(buffer.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn regrown_bytes_are_zero() {
        let mut buffer = AlignedBuffer::zeroed(9000);
        buffer.fill(0xff);
        buffer.resize(10);
        buffer.resize(9000);
        assert!(buffer[..10].iter().all(|&byte| byte == 0xff));
        assert!(buffer[10..].iter().all(|&byte| byte == 0));
        buffer.fill(0xff);
        buffer.clear();
        assert!(buffer.is_empty());
        buffer.resize(20_000);
        assert!(buffer.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn capacity_is_kept_and_enough() {
        let mut buffer = AlignedBuffer::with_capacity(5000);
        let before = buffer.units.as_ptr();
        buffer.extend_from_slice(&[7; 5000]);
        assert_eq!(buffer.units.as_ptr(), before);
        assert_eq!(&buffer[..], &[7; 5000]);
        buffer.clear();
        assert!(buffer.capacity() >= 5000);
    }
}
