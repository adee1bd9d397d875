//! Telling the device, when asked, which blocks are free.
//!
//! A free block may be written over at any moment: what the newest checkpoint
//! or a transaction that is not durable still has, is not free. The writer's
//! lock is held while the device is told of a piece, so that nobody takes it.

use crate::Vlfs;
use crate::error::Result;
use std::ops::Range;
use varve_format::range::part_in;

/// Blocks that are looked at before others get the lock.
const PIECE_BLOCKS: u64 = 1024;

impl Vlfs {
    /// See [`varve_fs::Layout::trim`].
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
