//! Data blocks: one, or a run of neighbours in one request.

use super::Reader;
use super::source::{RUN_BYTES, ReadCause};
use super::windows::WINDOW_BYTES;
use crate::error::{Error, Result};
use crate::format::{Malformed, Pointer, SECTOR, crc32c};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_fs::InodeNo;

impl Reader {
    fn in_bounds(&self, pointer: &Pointer) -> bool {
        self.geometry
            .within_segment(pointer.sector(), u64::from(pointer.sectors()))
    }

    /// The stored sectors of one data block.
    ///
    /// # Errors
    /// `BadBlock` if they are not what the pointer says; device errors.
    pub fn block(&self, pointer: &Pointer, ino: InodeNo, block: u64) -> Result<Vec<u8>> {
        self.block_for(ReadCause::of(ino), pointer, ino, block)
    }

    /// The same, counted under its cause.
    ///
    /// # Errors
    /// As [`Reader::block`].
    pub fn block_for(
        &self,
        cause: ReadCause,
        pointer: &Pointer,
        ino: InodeNo,
        block: u64,
    ) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::from(pointer.sectors()) * SECTOR as usize];
        if pointer.is_unwritten() {
            return Ok(bytes);
        }
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
    pub fn run(&self, ino: InodeNo, blocks: &[(u64, Pointer)]) -> Result<Vec<Arc<Vec<u8>>>> {
        self.run_for(ReadCause::of(ino), ino, blocks)
    }

    /// The same, counted under its cause.
    ///
    /// # Errors
    /// As [`Reader::block`].
    pub fn run_for(
        &self,
        cause: ReadCause,
        ino: InodeNo,
        blocks: &[(u64, Pointer)],
    ) -> Result<Vec<Arc<Vec<u8>>>> {
        let mut contents = Vec::with_capacity(blocks.len());
        let mut rest = blocks;
        while let Some((first, tail)) = rest.split_first() {
            let last = first.1.sector() + RUN_BYTES / SECTOR;
            let more = tail
                .iter()
                .zip(rest)
                .take_while(|(next, before)| {
                    varve_fs::BlockPointer::follows(&next.1, &before.1)
                        && self.in_bounds(&next.1)
                        && next.1.end_sector() <= last
                })
                .count();
            if more == 0 || first.1.is_unwritten() || !self.in_bounds(&first.1) {
                contents.push(Arc::new(self.block_for(cause, &first.1, ino, first.0)?));
                rest = tail;
                continue;
            }
            let (run, behind) = rest.split_at(more + 1);
            self.read_run(cause, ino, run, &mut contents)?;
            rest = behind;
        }
        Ok(contents)
    }

    fn read_run(
        &self,
        cause: ReadCause,
        ino: InodeNo,
        run: &[(u64, Pointer)],
        contents: &mut Vec<Arc<Vec<u8>>>,
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
            (buffer, range) = self.source.read_aligned(cause, first, sectors)?;
            self.windows.passed(first, sectors);
            &buffer[range]
        } else {
            small = vec![0; (sectors * SECTOR) as usize];
            if self.take_from_window(first, &mut small) {
                self.counters.window_hits.fetch_add(1, Relaxed);
                fresh = false;
            } else {
                self.miss(cause, first, &mut small)?;
            }
            &small
        };
        for (block, pointer) in run {
            let start = ((pointer.sector() - first) * SECTOR) as usize;
            let stored = &bytes[start..start + pointer.stored_bytes() as usize];
            let found = crc32c(stored);
            if found == pointer.crc() {
                contents.push(Arc::new(stored.to_vec()));
                continue;
            }
            contents.push(Arc::new(self.block_for(cause, pointer, ino, *block)?));
            if fresh && !self.is_stale(pointer) {
                self.counters.checksum_retries.fetch_add(1, Relaxed);
                let (sector, want) = (pointer.sector(), pointer.crc());
                self.tell_mismatch(sector, stored.len(), want, found, want);
                let byte = sector * SECTOR;
                self.counters.failures.attribute(byte, ino, *block);
            }
        }
        Ok(())
    }
}
