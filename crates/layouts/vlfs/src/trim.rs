//! Discards of free blocks, on request.
//!
//! A free block may be overwritten at any moment: a block that the newest checkpoint or
//! a transaction that is not durable still has is not free. The writer's lock is taken
//! while a piece is discarded, so that no append uses it meanwhile.

use crate::Vlfs;
use crate::error::Result;
use std::ops::Range;
use varve_format::range::part_in;

/// Number of blocks that are examined before other threads get the lock.
const PIECE_BLOCKS: u64 = 1024;

impl Vlfs {
    /// Discards free space as [`varve_fs::Layout::trim`] says.
    pub(super) fn trim_free(&self, range: Range<u64>, bytes_min: u64) -> Result<u64> {
        let measures = self.measures();
        let block_bytes = u64::from(measures.block_bytes);
        let blocks = 0..measures.blocks;
        let mut bytes = 0;
        for first in blocks.clone().step_by(PIECE_BLOCKS as usize) {
            let piece = first..blocks.end.min(first + PIECE_BLOCKS);
            let writer = self.writer.lock();
            self.writable()?;
            for run in writer.space.free_runs(piece) {
                let run = run.start * block_bytes..run.end * block_bytes;
                let part = part_in(&run, &range, block_bytes);
                let length = part.end - part.start;
                if length > 0 && length >= bytes_min {
                    self.store.medium.discard(part.start, length)?;
                    bytes += length;
                }
            }
        }
        Ok(bytes)
    }
}
