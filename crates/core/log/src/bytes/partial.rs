//! The bytes of a partial segment, gathered from where they lie.
//!
//! Full blocks that stand apart, behind everything else, are written from the memory
//! that files and the cache have them in; nobody changes that while a reference is held
//! here. What else there is has a buffer.

use super::content::Content;
use varve_device::{ALIGNMENT, AlignedBuffer, Block};

/// See the module's head. The blocks' lengths are all the same.
#[derive(Debug)]
pub struct PartialBytes {
    /// What stands before the blocks, and then the padding behind them.
    buffer: AlignedBuffer,
    front: usize,
    blocks: Vec<Content>,
}

impl PartialBytes {
    /// With what stands in front of the blocks, `front` bytes of `buffer`, and behind
    /// them; no blocks yet.
    pub fn new(buffer: AlignedBuffer, front: usize) -> Self {
        PartialBytes {
            buffer,
            front,
            blocks: Vec::new(),
        }
    }

    /// What stands before the blocks.
    pub fn front(&self) -> &[u8] {
        &self.buffer[..self.front]
    }

    /// The same, to be filled.
    pub fn front_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.front]
    }

    /// Adds a block of `bytes` bytes, with zeros where the content is shorter. It is
    /// copied if it is, or lies where no device can write from.
    pub fn push(&mut self, content: &Content, bytes: usize) -> &[u8] {
        let usable = content.len() == bytes && content.as_ptr().addr().is_multiple_of(ALIGNMENT);
        let block = if usable {
            content.clone()
        } else {
            let mut copy = Block::with_room(bytes);
            copy.extend_from_slice(content);
            copy.resize(bytes);
            copy.into()
        };
        self.blocks.push(block);
        &self.blocks[self.blocks.len() - 1]
    }

    /// All bytes.
    pub fn bytes(&self) -> usize {
        let each = self.blocks.first().map_or(0, |block| block.len());
        self.buffer.len() + self.blocks.len() * each
    }

    /// What is written one after the other.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let (front, behind) = self.buffer.split_at(self.front);
        let blocks = self.blocks.iter().map(|block| &block[..]);
        let all = std::iter::once(front).chain(blocks);
        all.chain(std::iter::once(behind).filter(|behind| !behind.is_empty()))
    }
}
