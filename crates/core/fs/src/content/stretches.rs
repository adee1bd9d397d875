//! The parts of a file in device order, for callers that read all of it in any order.
//!
//! After random updates a file's blocks are where the log was when they were written.
//! Reading in file order seeks for each block; reading in device order fetches neighbours
//! in the log together.

use crate::error::Result;
use crate::file_system::FileSystem;
use crate::isolation::{Access, Part};
use crate::layout::{BlockPointer, Layout};
use crate::memory::vnode::Vnode;
use crate::types::InodeNo;
use std::ops::Range;

/// Most blocks that are mapped at once.
const BLOCKS_AT_ONCE: u64 = 1 << 16;

/// A part of a file that is stored in one piece.
pub(crate) struct Placed {
    /// The place on the device; none of a part in memory.
    pub place: Option<u64>,
    /// The blocks.
    pub blocks: Range<u64>,
}

impl<L: Layout> FileSystem<L> {
    /// The parts of a file within `bytes` that contain data, in device order: those in
    /// memory first, holes and reservations excluded. Each begins and ends at a block
    /// boundary, or at a boundary of `bytes` or the file. The list takes 16 bytes for
    /// each part, at worst one part for each block.
    ///
    /// The file is examined in pieces, and may be written and moved meanwhile. A caller
    /// that reads the parts finds the content of that later time.
    ///
    /// # Errors
    /// `Invalid` unless it is a regular file; errors of reading an index node.
    pub fn stretches(&self, ino: InodeNo, bytes: Range<u64>) -> Result<Vec<Range<u64>>> {
        let vnode = self.vnode(ino)?;
        vnode.regular()?;
        self.uses(&vnode, Part::Size, Access::Read)?;
        self.uses(&vnode, Part::Content(bytes.clone()), Access::Read)?;
        let block_bytes = self.store.block_bytes as u64;
        let mut placed: Vec<Placed> = Vec::new();
        let mut block = Some(bytes.start / block_bytes);
        let mut size = 0;
        while let Some(from) = block {
            (size, block) = self.placed(&vnode, from, bytes.end, &mut placed)?;
        }
        placed.sort_unstable_by_key(|part| (part.place, part.blocks.start));
        let within = |part: Placed| {
            let start = (part.blocks.start * block_bytes).max(bytes.start);
            start..(part.blocks.end * block_bytes).min(bytes.end).min(size)
        };
        let all = placed.into_iter().map(within);
        Ok(all.filter(|part| !part.is_empty()).collect())
    }

    /// Adds the parts of a regular file from `block` on that begin below the byte `end`:
    /// those of [`BLOCKS_AT_ONCE`] blocks. Returns the file's size, and the block at which
    /// the next call continues.
    pub(crate) fn placed(
        &self,
        vnode: &Vnode,
        block: u64,
        end: u64,
        into: &mut Vec<Placed>,
    ) -> Result<(u64, Option<u64>)> {
        let state = vnode.read();
        state.live()?;
        let size = state.inode.size;
        let in_memory = |blocks| Placed {
            place: None,
            blocks,
        };
        if state.is_inline() && size > 0 {
            into.push(in_memory(0..1));
            return Ok((size, None));
        }
        let end = end.min(size).div_ceil(self.store.block_bytes as u64);
        if block >= end {
            return Ok((size, None));
        }
        let next = end.min(block + BLOCKS_AT_ONCE);
        let dirty = state.dirty.range(block..next);
        into.extend(dirty.map(|(&block, _)| in_memory(block..block + 1)));
        let mut last: Option<L::Pointer> = None;
        for mapped in self.store.mapped(vnode, &state, block, next - block)? {
            let written = mapped.pointer().filter(|_| mapped.is_written());
            let Some(pointer) = written.filter(|_| !state.dirty.contains_key(&mapped.block)) else {
                last = None;
                continue;
            };
            match into.last_mut() {
                Some(Placed { blocks, .. })
                    if blocks.end == mapped.block
                        && last.is_some_and(|last| pointer.follows(&last)) =>
                {
                    blocks.end += 1;
                }
                _ => into.push(Placed {
                    place: Some(pointer.place()),
                    blocks: mapped.block..mapped.block + 1,
                }),
            }
            last = Some(pointer);
        }
        Ok((size, Some(next)))
    }
}
