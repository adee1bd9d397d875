//! `SEEK_DATA` and `SEEK_HOLE`.

use crate::attr::Whence;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::isolation::{Access, Part};
use crate::layout::Layout;
use crate::memory::vnode::{State, Vnode};
use crate::types::InodeNo;

const LOOK_BLOCKS: u64 = 1024;

impl<L: Layout> FileSystem<L> {
    /// The next offset at or after `offset` at which data or a hole begins. Blocks that
    /// exist but were never written count as holes.
    ///
    /// # Errors
    /// `NoData` at or beyond the end of the file, or if only a hole follows; otherwise as
    /// [`Self::read`].
    pub fn seek(&self, ino: InodeNo, offset: u64, whence: Whence) -> Result<u64> {
        let vnode = self.vnode(ino)?;
        vnode.regular()?;
        self.uses(&vnode, Part::Size, Access::Read)?;
        self.uses(&vnode, Part::Content(offset..u64::MAX), Access::Read)?;
        let state = vnode.read();
        state.live()?;
        let size = state.inode.size;
        if offset >= size {
            return Err(Error::NoData);
        }
        if state.is_inline() {
            return Ok(if whence == Whence::Data { offset } else { size });
        }
        let block = offset >> self.store.block_shift;
        let found = match whence {
            Whence::Data => self.next_written(&vnode, &state, block)?,
            Whence::Hole => Some(self.next_hole(&vnode, &state, block)?),
        };
        let found = found.map(|block| (block << self.store.block_shift).max(offset));
        match whence {
            Whence::Data => found.filter(|at| *at < size).ok_or(Error::NoData),
            Whence::Hole => Ok(found.unwrap_or(size).min(size)),
        }
    }

    fn next_written(&self, vnode: &Vnode, state: &State, from: u64) -> Result<Option<u64>> {
        let end = self.store.blocks_of(state.inode.size);
        let mut at = from;
        while let Some(next) = self.store.next_existing(vnode, state, at)? {
            if next >= end {
                break;
            }
            let dirty = state.dirty.range(next..).next().map(|(block, _)| *block);
            let mapped = self
                .store
                .mapped(vnode, state, next, LOOK_BLOCKS.min(end - next))?;
            let written = mapped.iter().find(|m| m.is_written()).map(|m| m.block);
            let looked = next.saturating_add(LOOK_BLOCKS);
            let dirty = dirty.filter(|block| *block < looked);
            if let Some(found) = dirty.into_iter().chain(written).min() {
                return Ok(Some(found));
            }
            at = looked;
        }
        Ok(None)
    }

    fn next_hole(&self, vnode: &Vnode, state: &State, from: u64) -> Result<u64> {
        let end = self.store.blocks_of(state.inode.size);
        let mut at = from;
        while at < end {
            let mapped = self
                .store
                .mapped(vnode, state, at, LOOK_BLOCKS.min(end - at))?;
            let mut mapped = mapped.iter().filter(|m| m.is_written()).peekable();
            let looked = at.saturating_add(LOOK_BLOCKS).min(end);
            while at < looked {
                while mapped.next_if(|m| m.block < at).is_some() {}
                let written = mapped.peek().is_some_and(|m| m.block == at);
                if !written && !state.dirty.contains_key(&at) {
                    return Ok(at);
                }
                at += 1;
            }
        }
        Ok(end)
    }
}
