//! Reads, writes and discards of logical blocks.

use std::borrow::Cow;
use std::io::{Error, ErrorKind, IoSlice};

use varve_device::{DeviceError, Extent, Operation, Result, gather};

use super::Vld;
use super::held::HELD_BYTES_MAX;
use super::state::{State, TRIES, full};
use crate::eager::{Avoid, Want};
use crate::format::{Entry, crc32c};
use crate::medium::Medium;

/// Maximum number of blocks that one request of the medium transfers.
const RUN_BLOCKS: usize = 256;
/// Maximum number of blocks that one call of [`State::extent`] examines.
const EXTENT_BLOCKS_MAX: u32 = 1 << 18;

impl State {
    /// Fills `buffer` from byte `offset` of the logical disk.
    pub fn read<M: Medium>(&self, vld: &Vld<M>, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let block_bytes = self.layout.block_bytes as usize;
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let (logical, skip) = split(at, block_bytes);
            let run = self.run_of(logical, (skip + rest.len()).div_ceil(block_bytes));
            let length = (run * block_bytes - skip).min(rest.len());
            let (part, tail) = rest.split_at_mut(length);
            if self.map.get(logical).place == 0 {
                part.fill(0);
            } else if skip == 0 && length.is_multiple_of(block_bytes) {
                self.read_run(vld, logical, part)?;
            } else {
                let mut whole = vec![0; run * block_bytes];
                self.read_run(vld, logical, &mut whole)?;
                part.copy_from_slice(&whole[skip..skip + length]);
            }
            (at, rest) = (at + length as u64, tail);
        }
        Ok(())
    }

    /// Returns what the map has for the beginning of a range. It examines a bounded
    /// number of blocks, so that the extent may be shorter than possible.
    pub fn extent(&self, offset: u64, length: u64) -> Extent {
        let block_bytes = self.layout.block_bytes as usize;
        let (first, skip) = split(offset, block_bytes);
        let end = (offset + length).div_ceil(block_bytes as u64) as u32;
        let end = end.min(first.saturating_add(EXTENT_BLOCKS_MAX));
        let hole_at = |logical: u32| self.map.get(logical).place == 0;
        let hole = hole_at(first);
        let differs = (first + 1..end).find(|&logical| hole_at(logical) != hole);
        let blocks = u64::from(differs.unwrap_or(end).max(first + 1) - first);
        Extent {
            length: (blocks * block_bytes as u64 - skip as u64).min(length),
            hole,
        }
    }

    /// Returns the number of logical blocks from `logical` on, at most `most`, that
    /// have adjacent places, or all have none.
    fn run_of(&self, logical: u32, most: usize) -> usize {
        let (first, step) = (self.map.get(logical).place, self.layout.places_per_block());
        let follows = |&nth: &u32| {
            let here = self.map.get(logical + nth).place;
            here == if first == 0 { 0 } else { first + nth * step }
        };
        let most = most.min(RUN_BLOCKS) as u32;
        1 + (1..most).take_while(follows).count()
    }

    /// Reads whole blocks with adjacent places, and verifies their checksums.
    pub fn read_run<M: Medium>(&self, vld: &Vld<M>, logical: u32, into: &mut [u8]) -> Result<()> {
        let block_bytes = self.layout.block_bytes as usize;
        let (first, step) = (self.map.get(logical).place, self.layout.places_per_block());
        self.read_blocks(vld, first, into)?;
        for (nth, bytes) in (0u32..).zip(into.chunks_exact(block_bytes)) {
            let expected = self.map.get(logical + nth).crc;
            let found = crc32c(bytes);
            if found != expected {
                let place = first + nth * step;
                let reason = format!(
                    "place {place} has checksum {found:#010x}, want {expected:#010x}; write \
                     logical block {} anew",
                    logical + nth
                );
                let at = u64::from(logical + nth) * block_bytes as u64;
                let source = Error::new(ErrorKind::InvalidData, reason);
                let length = block_bytes as u64;
                return Err(DeviceError::new(vld, Operation::Read, at, length, source));
            }
        }
        Ok(())
    }

    /// Writes bytes to new places. They are durable after a commit, which happens here
    /// only if too many blocks are uncommitted, or space must be made.
    pub fn write<M: Medium>(
        &mut self,
        vld: &Vld<M>,
        offset: u64,
        buffers: &[IoSlice<'_>],
    ) -> Result<()> {
        let bytes = match buffers {
            [one] => Cow::Borrowed(&one[..]),
            _ => Cow::Owned(gather(buffers)),
        };
        let block_bytes = self.layout.block_bytes as usize;
        let (mut at, mut rest) = (offset, &bytes[..]);
        while !rest.is_empty() {
            if self.uncommitted() >= self.layout.uncommitted_max() {
                self.commit(vld)?;
            }
            let (logical, skip) = split(at, block_bytes);
            let length = if skip == 0 && rest.len() >= block_bytes {
                let room = self.layout.uncommitted_max() - self.uncommitted();
                let most = (rest.len() / block_bytes)
                    .min(room as usize)
                    .min(RUN_BLOCKS);
                self.make_room(vld, logical..logical + most as u32)?;
                self.write_run(vld, logical, &rest[..most * block_bytes])?
            } else {
                self.make_room(vld, logical..logical + 1)?;
                let length = (block_bytes - skip).min(rest.len());
                let mut whole = vec![0; block_bytes];
                if self.map.get(logical).place != 0 {
                    self.counts.blocks_merged += 1;
                    self.read_run(vld, logical, &mut whole)?;
                }
                whole[skip..skip + length].copy_from_slice(&rest[..length]);
                self.write_run(vld, logical, &whole)?;
                length
            };
            (at, rest) = (at + length as u64, &rest[length..]);
        }
        Ok(())
    }

    /// Writes whole blocks, as many as fit from the nearest place on without a gap;
    /// returns the number of bytes written, at least one block.
    fn write_run<M: Medium>(&mut self, vld: &Vld<M>, logical: u32, bytes: &[u8]) -> Result<usize> {
        let block_bytes = self.layout.block_bytes as usize;
        let (offset, length) = (u64::from(logical) * block_bytes as u64, bytes.len() as u64);
        let want = match length == block_bytes as u64 {
            true => self.want_of(logical),
            false => Want::Block,
        };
        let (first, count) = self
            .place_run(vld, bytes, want, Avoid::default())?
            .ok_or_else(|| full(vld, Operation::Write, offset, length))?;
        let written = &bytes[..count * block_bytes];
        let step = self.layout.places_per_block();
        for (nth, block) in (0u32..).zip(written.chunks_exact(block_bytes)) {
            let entry = Entry {
                place: first + nth * step,
                crc: crc32c(block),
            };
            self.remap(logical + nth, entry);
        }
        self.counts.blocks_written += count as u64;
        Ok(written.len())
    }

    /// Writes whole blocks to the nearest place, or buffers them, as many as are free
    /// there. Returns the first place, and their number; `None` if no block is free.
    pub fn place_run<M: Medium>(
        &mut self,
        vld: &Vld<M>,
        bytes: &[u8],
        want: Want,
        avoid: Avoid,
    ) -> Result<Option<(u32, usize)>> {
        if !self.holds || bytes.len() > HELD_BYTES_MAX {
            self.release(vld)?;
            return self.place_run_now(vld, bytes, want, avoid);
        }
        let block_bytes = self.layout.block_bytes as usize;
        let wanted = bytes.len() / block_bytes;
        // The record is to be stored next to the block.
        let single = Avoid {
            single: true,
            ..avoid
        };
        let Some((mut first, count)) = self.take_run(&vld.medium, wanted, want, single) else {
            return Ok(None);
        };
        if wanted == 1 && avoid == Avoid::default() {
            first = self.place_beside_record(first);
        }
        self.hold(vld, first, &bytes[..count * block_bytes])?;
        Ok(Some((first, count)))
    }

    /// Writes whole blocks as [`State::place_run`] does, to a place that takes them. A
    /// block that cannot be written stays taken until the next opening, because it
    /// would be the nearest again.
    pub fn place_run_now<M: Medium>(
        &mut self,
        vld: &Vld<M>,
        bytes: &[u8],
        mut want: Want,
        avoid: Avoid,
    ) -> Result<Option<(u32, usize)>> {
        let block_bytes = self.layout.block_bytes as usize;
        let mut wanted = bytes.len() / block_bytes;
        let mut failed = 0;
        while let Some((first, count)) = self.take_run(&vld.medium, wanted, want, avoid) {
            let at = self.layout.place_byte(first);
            let written = IoSlice::new(&bytes[..count * block_bytes]);
            let Err(error) = vld.medium.write(at, &[written]) else {
                return Ok(Some((first, count)));
            };
            if count > 1 {
                // Writing them one by one shows which of them fails.
                let step = self.layout.places_per_block();
                (0..count as u32).for_each(|nth| self.give_place(first + nth * step));
                wanted = 1;
                continue;
            }
            failed += 1;
            if failed == TRIES {
                return Err(error);
            }
            self.counts.writes_retried += 1;
            // The place stays taken. It is counted as astride, which the next one would
            // not be.
            want = Want::Block;
        }
        Ok(None)
    }

    /// Takes the nearest place for a block, and those behind it that are free in the
    /// same region, at most `wanted`. Returns the first one, and their number.
    pub fn take_run<M: Medium>(
        &mut self,
        medium: &M,
        wanted: usize,
        want: Want,
        avoid: Avoid,
    ) -> Option<(u32, usize)> {
        let unit = self.choose(medium, want, avoid)?;
        let first = self.layout.place_at(unit);
        self.take_place(first);
        let step = self.layout.places_per_block();
        let regions = self.free.regions();
        let end = regions.blocks(regions.of(self.free.place(unit).0)).end * step;
        let mut next = first + step;
        while next + step <= end && (next - first) / step < wanted as u32 && self.is_free(next) {
            self.take_place(next);
            next += step;
        }
        Some((first, ((next - first) / step) as usize))
    }

    /// Discards the logical blocks that are entirely within the range.
    pub fn discard<M: Medium>(&mut self, vld: &Vld<M>, offset: u64, length: u64) -> Result<()> {
        let block_bytes = u64::from(self.layout.block_bytes);
        let blocks = offset.div_ceil(block_bytes)..(offset + length) / block_bytes;
        for logical in blocks {
            if self.uncommitted() >= self.layout.uncommitted_max() {
                self.commit(vld)?;
            }
            if self.map.get(logical as u32).place != 0 {
                self.remap(logical as u32, Entry::default());
            }
        }
        Ok(())
    }
}

/// Returns the logical block of a byte, and the offset of the byte in it.
fn split(at: u64, block_bytes: usize) -> (u32, usize) {
    let block = at / block_bytes as u64;
    (block as u32, (at % block_bytes as u64) as usize)
}
