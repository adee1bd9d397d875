//! Verification of every data block, in the order of addresses.
//!
//! For each file, by number, the present pointers are added to a batch, which is sorted
//! by address and read in runs. A block whose checksum is wrong is read again alone, and
//! its pointer is looked up again. If the pointer is unchanged, the block was in use all
//! the time, so the device has damaged it. If it changed, the new block is verified.

use super::report::BadRange;
use super::{Stage, Verifier, is_damage};
use crate::check::{FindingKind, Subject, plain};
use varve_fs::{FileKind, InodeNo};
use varve_lfs::format::{Pointer, SECTOR, crc32c};
use varve_lfs::internal::Lookup;
use varve_lfs::{Error, Result};

/// Number of pointers in a batch: 4 MiB of memory, 256 MiB of data in blocks of 4 KiB.
const BATCH: usize = 1 << 16;
/// Number of blocks looked up at once.
const STEP: u64 = 1 << 13;
/// Largest read in bytes, because a foreground request may have to wait for it.
const RUN_BYTES: u64 = 256 << 10;
/// Largest gap in bytes that is read instead of issuing two requests.
const GAP_BYTES: u64 = 32 << 10;
/// Largest number of times that a block may move while it is verified.
const MOVES: u32 = 16;

/// A block to verify.
#[derive(Clone, Copy)]
struct Queued {
    ino: u64,
    block: u64,
    pointer: Pointer,
}

impl Verifier<'_> {
    fn lookup(&self) -> Lookup<'_> {
        self.lfs.lookup_by(&self.reader)
    }

    /// Verifies the data of every existing file.
    pub(super) fn data(&mut self) {
        let usage = self.lfs.logged_usage();
        self.control
            .enter(Stage::Data, usage.sectors.saturating_mul(SECTOR));
        let mut batch = Vec::new();
        let mut ino = InodeNo::FIRST.0;
        loop {
            let end = self.lfs.next_ino();
            while ino < end {
                if self.control.stopping() {
                    return;
                }
                if let Err(error) = self.file(ino, &mut batch) {
                    self.unreadable(ino, &error);
                }
                ino += 1;
            }
            self.batch(&mut batch);
            if self.lfs.next_ino() <= ino || self.control.stopping() {
                break;
            }
        }
        if self.options.strict && !self.report.files.is_empty() {
            let files = self.report.files.len();
            self.lfs.stop(format!(
                "verification found damaged data in {files} files; unmount and replace them"
            ));
        }
    }

    /// Reports a file whose index or inode cannot be read, unless the image already had
    /// errors, which include or explain it.
    fn unreadable(&mut self, ino: u64, error: &Error) {
        if is_damage(error) && self.report.errors.is_empty() && !self.control.stopping() {
            self.error(FindingKind::Inode, Subject::Inode(ino), plain(error));
        }
    }

    /// Queues the blocks of one file.
    fn file(&mut self, number: u64, batch: &mut Vec<Queued>) -> Result<()> {
        let ino = InodeNo(number);
        let kind = match self.lookup().inode(ino) {
            Ok((image, _)) => image.inode.kind(),
            Err(Error::NoInode(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        // Directories are metadata; other kinds have no blocks.
        if !matches!(kind, FileKind::Regular | FileKind::Symlink) {
            return Ok(());
        }
        let mut from = 0;
        while !self.control.stopping() {
            let next = match self.lookup().next_block(ino, from) {
                Ok(Some(next)) => next,
                Ok(None) | Err(Error::NoInode(_)) => return Ok(()),
                Err(error) => return Err(error),
            };
            let to = next.saturating_add(STEP);
            let blocks = match self.lookup().blocks(ino, next, to) {
                Ok((blocks, _)) => blocks,
                Err(Error::NoInode(_)) => return Ok(()),
                Err(error) => return Err(error),
            };
            for (block, pointer) in blocks {
                if !pointer.is_unwritten() {
                    batch.push(Queued {
                        ino: number,
                        block,
                        pointer,
                    });
                }
            }
            from = to;
            if batch.len() >= BATCH {
                self.batch(batch);
            }
        }
        Ok(())
    }

    /// Reads and verifies the queued blocks.
    fn batch(&mut self, batch: &mut Vec<Queued>) {
        batch.sort_unstable_by_key(|queued| queued.pointer.sector());
        let mut bytes = Vec::new();
        let mut rest = &batch[..];
        while !rest.is_empty() && !self.control.stopping() {
            let run = self.run_length(rest);
            let (run, behind) = rest.split_at(run);
            self.one_run(run, &mut bytes);
            rest = behind;
        }
        batch.clear();
    }

    /// Returns the number of blocks, at least one, that are read at once.
    fn run_length(&self, blocks: &[Queued]) -> usize {
        let first = blocks[0].pointer.sector();
        let segment = self.lfs.geometry_of_volume().segment_of(first);
        let mut behind = blocks[0].pointer.end_sector();
        1 + blocks[1..]
            .iter()
            .take_while(|queued| {
                let pointer = &queued.pointer;
                let end = pointer.end_sector();
                let near = pointer.sector().saturating_sub(behind) * SECTOR <= GAP_BYTES;
                let fits = (end.max(behind) - first) * SECTOR <= RUN_BYTES;
                let joins = near
                    && fits
                    && self.lfs.geometry_of_volume().segment_of(pointer.sector()) == segment;
                behind = behind.max(end);
                joins
            })
            .count()
    }

    fn one_run(&mut self, run: &[Queued], bytes: &mut Vec<u8>) {
        let first = run[0].pointer.sector();
        let end = run.iter().map(|queued| queued.pointer.end_sector()).max();
        let sectors = end.unwrap_or(first) - first;
        bytes.resize((sectors * SECTOR) as usize, 0);
        // If the run cannot be read at once, or is outside of a segment, its blocks are
        // read one by one.
        let inside = self.lfs.geometry_of_volume().within_segment(first, sectors);
        let whole = inside && self.reader.read_uncached(first, bytes).is_ok();
        let mut verified = 0;
        for queued in run {
            let pointer = &queued.pointer;
            let start = ((pointer.sector() - first) * SECTOR) as usize;
            let length = pointer.stored_bytes() as usize;
            let sound = whole && crc32c(&bytes[start..start + length]) == pointer.crc();
            if !sound {
                self.doubt(*queued);
            }
            verified += length as u64;
        }
        let elapsed_ns = self
            .lfs
            .clock()
            .monotonic_ns()
            .saturating_sub(self.started_ns);
        self.control.update(|p| {
            p.done += verified;
            p.data_bytes += verified;
            p.elapsed_ns = elapsed_ns;
        });
    }

    /// Examines a block again whose checksum did not match.
    fn doubt(&mut self, queued: Queued) {
        let Queued { ino, block, .. } = queued;
        let mut pointer = queued.pointer;
        for _ in 0..MOVES {
            let read = self.reader.block(&pointer, InodeNo(ino), block);
            let Err(error) = read else { return };
            let now = self.lookup().blocks(InodeNo(ino), block, block + 1);
            match now {
                Ok((blocks, _)) => match blocks.first() {
                    None => return,
                    Some((_, now)) if now.is_unwritten() => return,
                    Some((_, now)) if *now == pointer => {
                        return self.bad(ino, block, &pointer, &error);
                    }
                    Some((_, now)) => pointer = *now,
                },
                Err(Error::NoInode(_)) => return,
                Err(error) => return self.unreadable(ino, &error),
            }
        }
        // The block is rewritten all the time, and each write computes its checksum anew.
    }

    fn bad(&mut self, ino: u64, block: u64, pointer: &Pointer, error: &Error) {
        if self.control.stopping() {
            return;
        }
        let unit = u64::from(self.lfs.geometry_of_volume().block_bytes);
        let offset = block.saturating_mul(unit);
        let size = self
            .lookup()
            .inode(InodeNo(ino))
            .map(|(image, _)| image.inode.size);
        // Blocks behind the end are waiting to be freed.
        let length = size.map_or(unit, |size| size.saturating_sub(offset).min(unit));
        let problem = plain(error);
        tracing::error!(
            inode = ino,
            block,
            sector = pointer.sector(),
            problem,
            "scrub: bad data"
        );
        self.control.update(|p| p.errors += 1);
        let bad = BadRange {
            offset,
            length: length.max(1),
            sector: pointer.sector(),
            problem,
        };
        self.report.keep_bad(ino, bad);
    }
}
