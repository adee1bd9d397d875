//! Reading spilled blocks, and loading them into memory again.

use super::read::copy_padded;
use crate::error::Result;
use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::memory::body::Spilled;
use crate::memory::store::Store;
use crate::memory::vnode::State;
use crate::statistics::count;
use std::sync::Arc;

/// Most blocks that are read at once.
const RUN_BLOCKS: u32 = 256;

impl<L: Layout> Store<L> {
    /// Copies spilled blocks from `offset` on, as many as were spilled in a row. Returns
    /// the number of bytes. The caller keeps the state's lock throughout.
    pub fn read_spilled(
        &self,
        state: &State,
        offset: u64,
        end: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let first = offset >> self.block_shift;
        let to = self.blocks_of(end);
        let spilled = |block: u64| {
            state
                .dirty
                .get(&block)
                .and_then(|dirty| dirty.data.spilled())
        };
        let Some(start) = spilled(first) else {
            return Ok(0);
        };
        let follows = |nth: &u32| {
            let block = first + u64::from(*nth);
            block < to
                && spilled(block).is_some_and(|next| {
                    Arc::ptr_eq(&next.lot, &start.lot) && next.index == start.index + nth
                })
        };
        let blocks = (1..RUN_BLOCKS).take_while(follows).count() as u32 + 1;
        count(&self.counters.layout_reads, 1);
        let indices = start.index..start.index + blocks;
        let data = self
            .layout
            .read_spill((state.inode.ino, first), start.lot.number, indices)?;
        let mut at = offset;
        for (block, data) in (first..).zip(&data) {
            let within = (at - (block << self.block_shift)) as usize;
            let chunk = ((self.block_bytes - within) as u64).min(end - at) as usize;
            let bytes = spilled(block).map_or(0, Spilled::bytes);
            let out = (at - offset) as usize;
            let data = &data[..bytes.min(data.len())];
            copy_padded(data, within, &mut buffer[out..out + chunk]);
            at += chunk as u64;
        }
        Ok((at - offset) as usize)
    }
}

impl<L: Layout> FileSystem<L> {
    /// Loads a spilled block into memory, because a part of it is about to change.
    ///
    /// # Errors
    /// As [`Store::content_of`].
    pub(crate) fn bring_back(&self, state: &mut State, block: u64) -> Result<()> {
        let ino = state.inode.ino;
        let Some(dirty) = state.dirty.get_mut(&block) else {
            return Ok(());
        };
        if let Some(spilled) = dirty.data.spilled() {
            let data = self.store.fetch_spilled((ino, block), spilled)?;
            self.waits.block_changed(0, data.len());
            dirty.data = data.into();
        }
        Ok(())
    }

    /// Loads the spilled block in which a file of `size` ends, if the size cuts it.
    ///
    /// # Errors
    /// As [`Store::content_of`].
    pub(crate) fn bring_back_end(&self, state: &mut State, size: u64) -> Result<()> {
        match size & (self.store.block_bytes as u64 - 1) {
            0 => Ok(()),
            _ => self.bring_back(state, size >> self.store.block_shift),
        }
    }
}
