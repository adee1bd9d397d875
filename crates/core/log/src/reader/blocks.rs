//! Reading data blocks: one, or a run of neighbours in one request.

use super::Reader;
use super::source::{RUN_BYTES, ReadCause};
use super::windows::WINDOW_BYTES;
use crate::error::{Error, Result};
use crate::format::{Malformed, Pointer, SECTOR, crc32c};
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::{AlignedBuffer, Block};
use varve_fs::InodeNo;

impl Reader {
    pub(super) fn in_bounds(&self, pointer: &Pointer) -> bool {
        self.geometry
            .within_segment(pointer.sector(), u64::from(pointer.sectors()))
    }

    /// The stored sectors of one data block.
    ///
    /// # Errors
    /// `BadBlock` if they do not match the pointer; device errors.
    pub fn block(&self, pointer: &Pointer, ino: InodeNo, block: u64) -> Result<Block> {
        self.block_for(ReadCause::of(ino), pointer, ino, block)
    }

    /// [`Reader::block`], counted under `cause`.
    ///
    /// # Errors
    /// As [`Reader::block`].
    pub fn block_for(
        &self,
        cause: ReadCause,
        pointer: &Pointer,
        ino: InodeNo,
        block: u64,
    ) -> Result<Block> {
        let stored = usize::from(pointer.sectors()) * SECTOR as usize;
        if pointer.is_unwritten() {
            return Ok(vec![0; stored].into());
        }
        let mut bytes = Block::unfilled(stored);
        if !self.in_bounds(pointer) {
            return Err(self.bad_pointer(pointer, ino, block));
        }
        let read = self.read_checked(cause, pointer, &mut bytes);
        if !matches!(read, Ok(Ok(()))) && !self.is_stale(pointer) {
            let byte = pointer.sector() * SECTOR;
            self.counters.failures.attribute(byte, ino, block);
        }
        match read? {
            Ok(()) => Ok(bytes),
            Err(found) => Err(self.bad_block(pointer, ino, block, found)),
        }
    }

    fn bad_pointer(&self, pointer: &Pointer, ino: InodeNo, block: u64) -> Error {
        let problem = format!("{ino}, block {block}: a pointer leads outside of every segment");
        Error::damaged(None, pointer.sector(), Malformed::new("pointer", problem))
    }

    fn bad_block(&self, pointer: &Pointer, ino: InodeNo, block: u64, found: u32) -> Error {
        let sector = pointer.sector();
        let error = Error::BadBlock {
            ino,
            block,
            sector,
            found,
            expected: pointer.crc(),
        };
        if !self.is_stale(pointer) {
            tracing::error!(%error, "stored block is damaged");
        }
        error
    }

    /// Several blocks of one file, neighbours on the device in one request.
    ///
    /// # Errors
    /// As [`Reader::block`].
    pub fn run(&self, ino: InodeNo, blocks: &[(u64, Pointer)]) -> Result<Vec<Arc<Block>>> {
        self.run_for(ReadCause::of(ino), ino, blocks)
    }

    /// [`Reader::run`], counted under `cause`.
    ///
    /// # Errors
    /// As [`Reader::block`].
    pub fn run_for(
        &self,
        cause: ReadCause,
        ino: InodeNo,
        blocks: &[(u64, Pointer)],
    ) -> Result<Vec<Arc<Block>>> {
        let mut contents = Vec::with_capacity(blocks.len());
        let runs = self.runs_of(blocks);
        let fetched = self.fetch_scattered(cause, &runs);
        for (run, bytes) in runs.into_iter().zip(fetched) {
            match (run, bytes) {
                ([one], Some(bytes)) => {
                    contents.push(self.checked(cause, ino, one, bytes, true)?);
                }
                (run, Some(bytes)) => {
                    self.take_run(cause, ino, run, &bytes, true, &mut contents)?
                }
                ([(block, pointer)], None) => {
                    contents.push(Arc::new(self.block_for(cause, pointer, ino, *block)?));
                }
                (run, None) => self.read_run(cause, ino, run, &mut contents)?,
            }
        }
        Ok(contents)
    }

    /// Cuts blocks where they are not adjacent on the device.
    fn runs_of<'b>(&self, blocks: &'b [(u64, Pointer)]) -> Vec<&'b [(u64, Pointer)]> {
        let mut runs = Vec::new();
        let mut rest = blocks;
        while let Some((first, tail)) = rest.split_first() {
            let last = first.1.sector() + RUN_BYTES / SECTOR;
            let alone = first.1.is_unwritten() || !self.in_bounds(&first.1);
            let follows = |(next, before): &(&(u64, Pointer), &(u64, Pointer))| {
                varve_fs::BlockPointer::follows(&next.1, &before.1)
                    && self.in_bounds(&next.1)
                    && next.1.end_sector() <= last
            };
            let more = match alone {
                true => 0,
                false => tail.iter().zip(rest).take_while(follows).count(),
            };
            let (run, behind) = rest.split_at(more + 1);
            runs.push(run);
            rest = behind;
        }
        runs
    }

    fn read_run(
        &self,
        cause: ReadCause,
        ino: InodeNo,
        run: &[(u64, Pointer)],
        contents: &mut Vec<Arc<Block>>,
    ) -> Result<()> {
        let first = run[0].1.sector();
        let sectors = run[run.len() - 1].1.end_sector() - first;
        if self.durability.overlaps(first, sectors) {
            for (block, pointer) in run {
                contents.push(Arc::new(self.block_for(cause, pointer, ino, *block)?));
            }
            return Ok(());
        }
        let (buffer, range);
        let mut small;
        let mut fresh = true;
        let bytes: &[u8] = if sectors * SECTOR >= WINDOW_BYTES {
            if self.lies_aligned(run) {
                return self.read_into_place(cause, ino, run, contents);
            }
            (buffer, range) = self.source.read_aligned(cause, first, sectors)?;
            self.windows.passed(first, sectors);
            &buffer[range]
        } else {
            small = Block::unfilled((sectors * SECTOR) as usize);
            let taken = self.take_from_windows(first, &mut small);
            fresh = taken == 0;
            if taken == small.len() {
                self.counters.window_hits.fetch_add(1, Relaxed);
            } else {
                let behind = first + taken as u64 / SECTOR;
                self.miss(cause, behind, &mut small[taken..])?;
            }
            &small
        };
        self.take_run(cause, ino, run, bytes, fresh, contents)
    }

    /// Extracts the blocks of a run from its bytes; `fresh` if they were just read.
    fn take_run(
        &self,
        cause: ReadCause,
        ino: InodeNo,
        run: &[(u64, Pointer)],
        bytes: &[u8],
        fresh: bool,
        contents: &mut Vec<Arc<Block>>,
    ) -> Result<()> {
        let first = run[0].1.sector();
        for one in run {
            let start = ((one.1.sector() - first) * SECTOR) as usize;
            let stored = &bytes[start..start + one.1.stored_bytes() as usize];
            contents.push(self.checked(cause, ino, one, stored.into(), fresh)?);
        }
        Ok(())
    }

    /// True if each block of a run is aligned so that it can be read to its final buffer.
    fn lies_aligned(&self, run: &[(u64, Pointer)]) -> bool {
        let step = self.source.align / SECTOR;
        run.iter().all(|(_, pointer)| {
            pointer.sector().is_multiple_of(step)
                && u64::from(pointer.sectors()).is_multiple_of(step)
        })
    }

    /// Reads a run, each block to its final buffer.
    fn read_into_place(
        &self,
        cause: ReadCause,
        ino: InodeNo,
        run: &[(u64, Pointer)],
        contents: &mut Vec<Arc<Block>>,
    ) -> Result<()> {
        let (first, last) = (run[0].1.sector(), run[run.len() - 1].1.end_sector());
        let bytes = |(_, pointer): &(u64, Pointer)| pointer.stored_bytes() as usize;
        let mut blocks: Vec<Block> = run.iter().map(|one| Block::unfilled(bytes(one))).collect();
        // Summaries and similar sectors between the blocks, which are read along.
        let wanted: usize = run.iter().map(bytes).sum();
        let mut between = AlignedBuffer::zeroed(((last - first) * SECTOR) as usize - wanted);
        let mut rest = &mut between[..];
        let mut buffers = Vec::with_capacity(run.len() + 8);
        let mut at = first;
        for ((_, pointer), block) in run.iter().zip(&mut blocks) {
            let gap = ((pointer.sector() - at) * SECTOR) as usize;
            if gap > 0 {
                let (these, behind) = rest.split_at_mut(gap);
                buffers.push(IoSliceMut::new(these));
                rest = behind;
            }
            buffers.push(IoSliceMut::new(block));
            at = pointer.end_sector();
        }
        self.source.read_vectored(cause, first, &mut buffers)?;
        drop(buffers);
        self.windows.passed(first, last - first);
        for (one, content) in run.iter().zip(blocks) {
            contents.push(self.checked(cause, ino, one, content, true)?);
        }
        Ok(())
    }

    /// Checks a block that was read with others. If it does not match its pointer, it is
    /// read again by itself, and that is counted if `content` is fresh.
    fn checked(
        &self,
        cause: ReadCause,
        ino: InodeNo,
        (block, pointer): &(u64, Pointer),
        content: Block,
        fresh: bool,
    ) -> Result<Arc<Block>> {
        let (found, want) = (crc32c(&content), pointer.crc());
        if found == want {
            return Ok(Arc::new(content));
        }
        let content = self.block_for(cause, pointer, ino, *block)?;
        if fresh && !self.is_stale(pointer) {
            self.counters.checksum_retries.fetch_add(1, Relaxed);
            let sector = pointer.sector();
            self.tell_mismatch(sector, content.len(), want, found, want);
            let byte = sector * SECTOR;
            self.counters.failures.attribute(byte, ino, *block);
        }
        Ok(Arc::new(content))
    }
}
