//! The parts of a file in device order, for callers that read all of it in any order.
//!
//! After random updates a file's blocks are where the log was when they were written.
//! Reading in file order seeks for each block; reading in device order fetches neighbours
//! in the log together.

use crate::error::Result;
use crate::file_system::FileSystem;
use crate::isolation::{Access, Part};
use crate::layout::{BlockPointer, Layout};
use crate::types::InodeNo;
use std::ops::Range;

/// Most blocks that are mapped at once.
const BLOCKS_AT_ONCE: u64 = 1 << 16;

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
        let mut placed: Vec<(u64, Range<u64>)> = Vec::new();
        let mut in_memory: Vec<Range<u64>> = Vec::new();
        let mut block = bytes.start / block_bytes;
        let size = loop {
            let state = vnode.read();
            state.live()?;
            let size = state.inode.size;
            let end = bytes.end.min(size).div_ceil(block_bytes);
            if state.is_inline() && size > 0 {
                in_memory.push(0..1);
                break size;
            }
            if block >= end {
                break size;
            }
            let next = end.min(block + BLOCKS_AT_ONCE);
            let dirty = state.dirty.range(block..next);
            in_memory.extend(dirty.map(|(&block, _)| block..block + 1));
            let mut last: Option<L::Pointer> = None;
            for mapped in self.store.mapped(&vnode, &state, block, next - block)? {
                let written = mapped.pointer().filter(|_| mapped.is_written());
                let Some(pointer) = written.filter(|_| !state.dirty.contains_key(&mapped.block))
                else {
                    last = None;
                    continue;
                };
                match placed.last_mut() {
                    Some((_, run))
                        if run.end == mapped.block
                            && last.is_some_and(|last| pointer.follows(&last)) =>
                    {
                        run.end += 1;
                    }
                    _ => placed.push((pointer.place(), mapped.block..mapped.block + 1)),
                }
                last = Some(pointer);
            }
            block = next;
        };
        placed.sort_unstable_by_key(|(place, run)| (*place, run.start));
        let all = in_memory
            .into_iter()
            .chain(placed.into_iter().map(|(_, run)| run));
        let within = |run: Range<u64>| {
            let start = (run.start * block_bytes).max(bytes.start);
            start..(run.end * block_bytes).min(bytes.end).min(size)
        };
        Ok(all.map(within).filter(|part| !part.is_empty()).collect())
    }
}
