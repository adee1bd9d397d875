//! Reading spilled blocks from the layout.

use crate::error::Result;
use crate::layout::Layout;
use crate::memory::body::{Body, Keeper, Spilled};
use crate::memory::store::Store;
use crate::memory::vnode::Dirty;
use crate::statistics::count;
use crate::types::{InodeNo, SpillNo};
use std::sync::Arc;
use varve_device::Block;

impl<L: Layout> Keeper for Store<L> {
    fn let_go(&self, spill: SpillNo) {
        self.layout.release_spill(spill);
    }
}

impl<L: Layout> Store<L> {
    /// Content of a dirty block, in memory or spilled.
    ///
    /// # Errors
    /// `Aborted` if the layout has given it up, `Damaged`, device errors.
    pub fn content_of(&self, ino: InodeNo, block: u64, dirty: &Dirty) -> Result<Arc<Block>> {
        match &dirty.data {
            Body::Memory(data) => Ok(Arc::clone(data)),
            Body::Spilled(spilled) => self.fetch_spilled((ino, block), spilled),
        }
    }

    /// Content of a spilled block.
    ///
    /// # Errors
    /// As [`Store::content_of`].
    pub fn fetch_spilled(&self, first: (InodeNo, u64), spilled: &Spilled) -> Result<Arc<Block>> {
        count(&self.counters.layout_reads, 1);
        let blocks = spilled.index..spilled.index + 1;
        let mut data = self.layout.read_spill(first, spilled.lot.number, blocks)?;
        let mut data = data.pop().expect("one block was asked for");
        let bytes = spilled.bytes();
        if data.len() > bytes {
            Arc::make_mut(&mut data).truncate(bytes);
        }
        Ok(data)
    }
}
