//! The bytes of a block.
//!
//! Full blocks of the usual sizes are stored in memory that devices can read into and
//! write from without a copy, and that is used again (`slabs.rs`). Other blocks have
//! memory of their own.

use crate::slabs::{Piece, Slabs};
use std::ops::{Deref, DerefMut};

/// The slabs, by block size: 4 to 64 KiB.
static SLABS: [Slabs; 5] = [
    Slabs::new(4 << 10),
    Slabs::new(8 << 10),
    Slabs::new(16 << 10),
    Slabs::new(32 << 10),
    Slabs::new(64 << 10),
];

/// A byte buffer with a capacity that is chosen when it is created.
pub struct Block(Memory);

enum Memory {
    Own(Vec<u8>),
    /// A piece of a slab, and how many of its first bytes are in use.
    Piece(Piece, usize),
}

/// Returns the slabs for blocks of `bytes` bytes, if there are any.
fn slabs(bytes: usize) -> Option<&'static Slabs> {
    let nth = bytes.trailing_zeros().checked_sub(12)? as usize;
    SLABS.get(nth).filter(|_| bytes.is_power_of_two())
}

impl Block {
    /// Returns an empty block that can grow to `bytes` bytes without being moved.
    pub fn with_room(bytes: usize) -> Self {
        Block(match slabs(bytes) {
            Some(slabs) => Memory::Piece(slabs.take(), 0),
            None => Memory::Own(Vec::with_capacity(bytes)),
        })
    }

    /// Returns a block of `bytes` bytes whose content is undefined, for a caller that
    /// overwrites all of it.
    pub fn unfilled(bytes: usize) -> Self {
        Block(match slabs(bytes) {
            Some(slabs) => Memory::Piece(slabs.take(), bytes),
            None => Memory::Own(vec![0; bytes]),
        })
    }

    /// Sets the length to `bytes`: truncates the block, or appends zeros.
    pub fn resize(&mut self, bytes: usize) {
        match &mut self.0 {
            Memory::Own(own) => own.resize(bytes, 0),
            Memory::Piece(piece, len) => match piece.bytes_mut().get_mut(*len..bytes) {
                Some(more) => {
                    more.fill(0);
                    *len = bytes;
                }
                None if bytes <= *len => *len = bytes,
                None => {
                    let mut longer = Block::with_room(bytes);
                    longer.extend_from_slice(self);
                    longer.resize(bytes);
                    *self = longer;
                }
            },
        }
    }

    /// Truncates the block to `bytes` bytes. If the rest is less than half of a slab's
    /// block, it is moved to memory of its own, so that the memory used is close to the
    /// length.
    pub fn truncate(&mut self, bytes: usize) {
        if bytes >= self.len() {
            return;
        }
        match &self.0 {
            Memory::Piece(piece, _) if bytes < piece.bytes().len() / 2 => {
                *self = self[..bytes].to_vec().into();
            }
            _ => self.resize(bytes),
        }
    }

    /// Sets the length to zero.
    pub fn clear(&mut self) {
        self.resize(0);
    }

    /// Appends `bytes` to the block.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Memory::Own(own) => own.extend_from_slice(bytes),
            Memory::Piece(piece, len) => {
                let end = *len + bytes.len();
                match piece.bytes_mut().get_mut(*len..end) {
                    Some(room) => {
                        room.copy_from_slice(bytes);
                        *len = end;
                    }
                    None => {
                        let mut longer = Vec::with_capacity(end);
                        longer.extend_from_slice(self);
                        longer.extend_from_slice(bytes);
                        *self = longer.into();
                    }
                }
            }
        }
    }

    /// Converts the block into a vector.
    pub fn into_vec(mut self) -> Vec<u8> {
        std::mem::take(self.as_vec_mut())
    }

    /// Returns the content as a vector, which the caller may change. A block in a slab
    /// is copied first.
    pub fn as_vec_mut(&mut self) -> &mut Vec<u8> {
        if let Memory::Piece(..) = self.0 {
            self.0 = Memory::Own(self.to_vec());
        }
        match &mut self.0 {
            Memory::Own(own) => own,
            Memory::Piece(..) => unreachable!("it has just been replaced"),
        }
    }
}

impl Deref for Block {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Own(own) => own,
            Memory::Piece(piece, len) => &piece.bytes()[..*len],
        }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Own(own) => own,
            Memory::Piece(piece, len) => &mut piece.bytes_mut()[..*len],
        }
    }
}

/// Creates an empty block.
impl Default for Block {
    fn default() -> Self {
        Vec::new().into()
    }
}

/// Copies the bytes into memory of their own.
impl Clone for Block {
    fn clone(&self) -> Self {
        (**self).into()
    }
}

/// Takes over the vector without a copy.
impl From<Vec<u8>> for Block {
    fn from(bytes: Vec<u8>) -> Self {
        Block(Memory::Own(bytes))
    }
}

impl From<&[u8]> for Block {
    fn from(bytes: &[u8]) -> Self {
        let mut block = Block::with_room(bytes.len());
        block.extend_from_slice(bytes);
        block
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Block {}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_changes_as_a_vector_does() {
        let mut random = crate::random::Random::new(7);
        for bytes in [0, 1, 100, 4095, 4096, 5000, 8192, 65536, 100_000] {
            let mut block = Block::with_room(bytes);
            let mut vector = Vec::new();
            for step in 0..200 {
                let some = random.below(9000) as usize;
                match random.below(5) {
                    0 => (block.truncate(some), vector.truncate(some)),
                    1 => (block.resize(some), vector.resize(some, 0)),
                    2 => {
                        let more = vec![step as u8; some % 700];
                        block.extend_from_slice(&more);
                        (vector.extend_from_slice(&more), ())
                    }
                    3 if some.is_multiple_of(40) => (block.clear(), vector.clear()),
                    _ => (block.fill(step as u8), vector.fill(step as u8)),
                };
                assert!(block[..] == vector[..], "{bytes} bytes, step {step}");
            }
            let copy = block.clone();
            assert_eq!(block.as_vec_mut(), &vector);
            assert!(block == copy);
        }
    }

    #[test]
    fn full_blocks_of_the_usual_sizes_are_aligned() {
        for bytes in [4096, 8192, 65536] {
            let block = Block::from(&vec![3; bytes][..]);
            assert_eq!(block.as_ptr().addr() % 4096, 0);
            assert_eq!(Block::unfilled(bytes).as_ptr().addr() % 4096, 0);
        }
    }
}
