//! The bytes of a block that is to be logged.

use crate::format::Pointer;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;
use varve_device::{Block, PooledBuffer};

/// Shared, whoever has them.
#[derive(Clone)]
pub enum Content {
    /// By themselves.
    Own(Arc<Block>),
    /// Whole sectors of what the cleaner has read and found to have the checksum
    /// of the copy that they are moved from.
    Verified(Arc<PooledBuffer>, Range<usize>),
}

impl Content {
    /// Its checksum, if it is known to be that of the copy at `source`, which it
    /// is moved from: what goes wrong in memory on the way is found then, and not
    /// vouched for.
    pub fn checksum_at(&self, source: &Pointer) -> Option<u32> {
        match self {
            Content::Own(_) => None,
            Content::Verified(..) => Some(source.crc()),
        }
    }
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Content::Own(bytes) => bytes,
            Content::Verified(read, range) => &read[range.clone()],
        }
    }
}

impl From<Arc<Block>> for Content {
    fn from(bytes: Arc<Block>) -> Self {
        Content::Own(bytes)
    }
}

impl From<Block> for Content {
    fn from(bytes: Block) -> Self {
        Content::Own(Arc::new(bytes))
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Block::from(bytes).into()
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({} bytes)", self.len())
    }
}
