//! What a dirty block holds: in memory, or spilled to the layout.
//!
//! A block of a transaction that is larger than its share of memory is written to the
//! layout before anybody knows whether it will ever be part of a file
//! (`docs/design/transactions.md`, "Spilling"). It stays dirty; only its content is
//! elsewhere.
//!
//! Invariant: the layout keeps what was spilled at once for as long as a block of it is
//! referred to from here.

use crate::types::SpillNo;
use std::sync::Arc;
use varve_device::Block;

/// A block's content.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// 1 to a block's bytes.
    Memory(Arc<Block>),
    /// In the layout.
    Spilled(Spilled),
}

/// One of the blocks that were spilled at once.
#[derive(Clone, Debug)]
pub(crate) struct Spilled {
    pub lot: Arc<Lot>,
    /// Which of them.
    pub index: u32,
    /// One less than its length: a block of 64 KiB fits as well.
    before_last: u16,
}

impl Spilled {
    /// `bytes` is its length, 1 to 65536.
    pub fn new(lot: Arc<Lot>, index: u32, bytes: usize) -> Self {
        let before_last = bytes.saturating_sub(1) as u16;
        Spilled {
            lot,
            index,
            before_last,
        }
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        usize::from(self.before_last) + 1
    }
}

/// What was spilled at once: it is given back when nothing refers to it.
pub(crate) struct Lot {
    pub number: SpillNo,
    pub keeper: Arc<dyn Keeper>,
}

/// Who keeps what was spilled.
pub(crate) trait Keeper: Send + Sync {
    fn let_go(&self, spill: SpillNo);
}

impl Drop for Lot {
    fn drop(&mut self) {
        self.keeper.let_go(self.number);
    }
}

impl std::fmt::Debug for Lot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lot").field(&self.number).finish()
    }
}

impl Body {
    /// Bytes of content.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Body::Memory(data) => data.len(),
            Body::Spilled(spilled) => spilled.bytes(),
        }
    }

    /// Bytes of that in memory.
    #[inline]
    pub fn resident(&self) -> usize {
        match self {
            Body::Memory(data) => data.len(),
            Body::Spilled(_) => 0,
        }
    }

    /// Content in memory. Directories have no other, and whoever changes a part of a
    /// block has brought it back.
    ///
    /// # Panics
    /// If it is elsewhere.
    pub fn memory(&self) -> &Arc<Block> {
        match self {
            Body::Memory(data) => data,
            Body::Spilled(spilled) => panic!("{spilled:?} was not brought back"),
        }
    }

    /// [`Self::memory`], to be changed.
    ///
    /// # Panics
    /// As [`Self::memory`].
    pub fn memory_mut(&mut self) -> &mut Arc<Block> {
        match self {
            Body::Memory(data) => data,
            Body::Spilled(spilled) => panic!("{spilled:?} was not brought back"),
        }
    }

    /// Where it was spilled to.
    pub fn spilled(&self) -> Option<&Spilled> {
        match self {
            Body::Memory(_) => None,
            Body::Spilled(spilled) => Some(spilled),
        }
    }
}

impl From<Arc<Block>> for Body {
    fn from(data: Arc<Block>) -> Self {
        Body::Memory(data)
    }
}

impl From<Block> for Body {
    fn from(data: Block) -> Self {
        Body::Memory(Arc::new(data))
    }
}

impl From<Vec<u8>> for Body {
    fn from(data: Vec<u8>) -> Self {
        Block::from(data).into()
    }
}

// As much as there is of memory for each dirty block.
const _: () = assert!(size_of::<Body>() == 16);
