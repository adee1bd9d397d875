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
    pub(super) fn in_bounds(&self, pointer: &Pointer) -> bool {
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
        let runs = self.runs_of(blocks);
        let fetched = self.fetch_scattered(cause, &runs);
        for (run, bytes) in runs.into_iter().zip(fetched) {
            match (run, bytes) {
                ([(_, pointer)], Some(bytes)) if crc32c(&bytes) == pointer.crc() => {
                    contents.push(Arc::new(bytes));
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

    /// Cuts blocks where they do not follow each other on the device.
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

    /// Takes the blocks of a run out of its bytes. What is not as its pointer
    /// says is read again by itself, and noted if the bytes are `fresh`: just
    /// read.
    fn take_run(
        &self,
        cause: ReadCause,
        ino: InodeNo,
        run: &[(u64, Pointer)],
        bytes: &[u8],
        fresh: bool,
        contents: &mut Vec<Arc<Vec<u8>>>,
    ) -> Result<()> {
        let first = run[0].1.sector();
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
