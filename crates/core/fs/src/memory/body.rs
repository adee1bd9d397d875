//! Content of a dirty block: in memory, or spilled to the layout.
//!
//! If a transaction exceeds its share of memory, its blocks are written to the layout
//! before it is known whether they will ever be part of a file
//! (`docs/design/transactions.md`, "Spilling"). A spilled block stays dirty; only its
//! content is stored elsewhere.
//!
//! Invariant: the layout keeps a spill for as long as a block of it is referred to from
//! here.

use crate::types::SpillNo;
use std::sync::Arc;
use varve_device::Block;

/// A block's content.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// In memory: 1 to a block's bytes.
    Memory(Arc<Block>),
    /// In the layout.
    Spilled(Spilled),
}

/// One of the blocks that were spilled together.
#[derive(Clone, Debug)]
pub(crate) struct Spilled {
    pub lot: Arc<Lot>,
    /// Index of the block in its spill.
    pub index: u32,
    /// One less than its length in bytes, so that a block of 64 KiB fits as well.
    before_last: u16,
}

impl Spilled {
    /// A reference to block `index` of a spill; `bytes` is its length, 1 to 65536.
    pub fn new(lot: Arc<Lot>, index: u32, bytes: usize) -> Self {
        let before_last = bytes.saturating_sub(1) as u16;
        Spilled {
            lot,
            index,
            before_last,
        }
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        usize::from(self.before_last) + 1
    }
}

/// Blocks that were spilled together. The spill is released when its last reference is
/// dropped.
pub(crate) struct Lot {
    pub number: SpillNo,
    pub keeper: Arc<dyn Keeper>,
}

/// The layout that stores spills, as a [`Lot`] needs it.
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

    /// Bytes of content in memory.
    #[inline]
    pub fn resident(&self) -> usize {
        match self {
            Body::Memory(data) => data.len(),
            Body::Spilled(_) => 0,
        }
    }

    /// Content in memory. Directories are never spilled, and a block is loaded before a
    /// part of it is changed.
    ///
    /// # Panics
    /// If the content is spilled.
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

    /// The spill that contains the block, if it is spilled.
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

// The size matters because each dirty block has one.
const _: () = assert!(size_of::<Body>() == 16);
