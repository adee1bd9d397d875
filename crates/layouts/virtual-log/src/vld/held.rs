//! The write buffer: the end of the data written, which waits for the map record that
//! is to be stored next to it.
//!
//! On a device without a head a request costs much more than its bytes, so an update of
//! one block and its record ought to be one request, or two in parallel. Short runs of
//! blocks are therefore buffered while each follows the last, and written when the next
//! run does not follow, when there are enough, or with the first record of a commit.
//!
//! The record is stored next to the data, and next to another record if possible.
//! Records die soon and data does not; two adjacent records that are dead leave space
//! for the next data and its record.
//!
//! Invariants:
//! - Bytes reach the medium in the order in which their places were chosen. A function
//!   that writes to the medium has the buffer written before, or together with its own
//!   bytes, except for a record at a place outside of the buffer. A place that was
//!   released and taken again therefore has the newest bytes.
//! - The buffer is empty when a commit flushes.
//! - Reads see the buffered blocks.
//!
//! The price is that a failure of a write is noticed after the write was acknowledged.
//! It is repeated elsewhere, as always. If that fails too, the volume stops, and no
//! later flush succeeds.
//!
//! The buffer is not used on a simulated drive, whose places are chosen for the moment
//! of writing, nor where records are shorter than blocks and are stored in a block of
//! records.

use std::io::IoSlice;
use std::ops::Range;

use varve_device::{AlignedBuffer, Result};

use super::Vld;
use super::state::State;
use crate::eager::{Avoid, Want};
use crate::format::{Entry, Layout, crc32c};
use crate::medium::Medium;

/// Maximum size, in bytes, of a buffered run and of the whole buffer.
pub(super) const HELD_BYTES_MAX: usize = 64 << 10;

/// Adjacent blocks that have their places and are not written yet.
#[derive(Debug, Default)]
pub(super) struct Held {
    first: u32,
    bytes: AlignedBuffer,
}

impl Held {
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns true if the unit at this byte follows the buffered blocks.
    fn is_followed_by(&self, layout: &Layout, at: u64) -> bool {
        !self.is_empty() && self.start(layout) + self.bytes.len() as u64 == at
    }

    /// Returns true if the buffered blocks follow the unit at this byte.
    fn follows(&self, layout: &Layout, at: u64) -> bool {
        !self.is_empty() && at + u64::from(layout.unit_bytes) == self.start(layout)
    }

    fn start(&self, layout: &Layout) -> u64 {
        layout.place_byte(self.first)
    }

    /// Returns true if the unit at this byte is the place of a buffered block, which
    /// must be one that is not needed any more.
    pub fn covers(&self, layout: &Layout, at: u64) -> bool {
        let start = self.start(layout);
        (start..start + self.bytes.len() as u64).contains(&at)
    }

    fn write<M: Medium>(&self, vld: &Vld<M>) -> Result<()> {
        let slices = [IoSlice::new(&self.bytes)];
        vld.medium.write(self.start(&vld.layout), &slices)
    }

    /// Writes the buffer, and a record at byte `at`.
    fn write_with<M: Medium>(&self, vld: &Vld<M>, at: u64, record: &[u8]) -> Result<()> {
        let start = self.start(&vld.layout);
        if self.is_followed_by(&vld.layout, at) {
            let slices = [IoSlice::new(&self.bytes), IoSlice::new(record)];
            return vld.medium.write(start, &slices);
        }
        if self.follows(&vld.layout, at) {
            let slices = [IoSlice::new(record), IoSlice::new(&self.bytes)];
            return vld.medium.write(at, &slices);
        }
        vld.medium.write_many(&[(start, &self.bytes), (at, record)])
    }

    /// Copies `bytes` of the buffer to the buffered block `place`, if there is one.
    /// That block is not needed any more: its place may be free, and its old bytes must
    /// not be written.
    fn replaced(&mut self, place: u32, bytes: Range<usize>, block_bytes: usize) {
        let nth = place.checked_sub(self.first).map(|nth| nth as usize);
        let start = nth.map(|nth| nth * block_bytes);
        if let Some(start) = start.filter(|start| start + block_bytes <= self.bytes.len()) {
            self.bytes.copy_within(bytes, start);
        }
    }

    /// Returns the buffered part of `length` bytes from block `first` on, and the
    /// offset at which it begins.
    fn part_of(&self, layout: &Layout, first: u32, length: usize) -> Option<(usize, &[u8])> {
        let (mine, theirs) = (self.start(layout), layout.place_byte(first));
        let start = mine.max(theirs);
        let end = (mine + self.bytes.len() as u64).min(theirs + length as u64);
        let held = || &self.bytes[(start - mine) as usize..(end - mine) as usize];
        (start < end).then(|| ((start - theirs) as usize, held()))
    }
}

impl State {
    /// Returns the place at which one block is to be buffered, after `first` was taken
    /// for it: the next one if that is free, so that the record of its commit can be
    /// stored between it and a place without data.
    pub fn place_beside_record(&mut self, first: u32) -> u32 {
        let next = first + 1;
        let at = self.layout.place_byte(first);
        let stays = self.held.is_followed_by(&self.layout, at)
            || !self.layout.is_eager(u64::from(first) - 1)
            || self.owners[first as usize - 1] != 0
            || self.free.mask(next) != 0;
        if stays {
            return first;
        }
        self.free.give_block(first);
        self.free.take_block(next);
        next
    }

    /// Takes the place before the buffered blocks, or the one behind them.
    pub fn take_beside_held(&mut self, avoid: Avoid) -> Option<u64> {
        if self.held.is_empty() {
            return None;
        }
        let blocks = self.held.bytes.len() / self.layout.block_bytes as usize;
        let beside = [self.held.first - 1, self.held.first + blocks as u32];
        let block = beside.into_iter().find(|&block| {
            let region = self.free.regions().of(block) as u32;
            self.free.mask(block) == 0 && avoid.region != Some(region)
        })?;
        self.free.take_block(block);
        Some(u64::from(block))
    }

    /// Buffers a run of blocks at a place that was taken for it. An error is one of
    /// earlier buffered blocks, and stops the volume.
    pub fn hold<M: Medium>(&mut self, vld: &Vld<M>, first: u32, run: &[u8]) -> Result<()> {
        debug_assert_eq!(self.layout.units_per_block(), 1, "a place is a block");
        let at = self.layout.place_byte(first);
        let follows = self.held.is_followed_by(&self.layout, at);
        if !follows || self.held.bytes.len() + run.len() > HELD_BYTES_MAX {
            self.release(vld)?;
        }
        if self.held.is_empty() {
            self.held.first = first;
        }
        self.held.bytes.extend_from_slice(run);
        Ok(())
    }

    /// Writes the buffer.
    pub fn release<M: Medium>(&mut self, vld: &Vld<M>) -> Result<()> {
        if !self.held.is_empty() && self.held.write(vld).is_err() {
            self.rehome(vld)?;
        }
        self.held.bytes.clear();
        Ok(())
    }

    /// Writes the buffer and the record of `unit`, in any order. If that fails, the
    /// data is written without the record, and the record is not on the medium.
    pub fn release_with<M: Medium>(
        &mut self,
        vld: &Vld<M>,
        unit: u64,
        record: &[u8],
    ) -> Result<()> {
        let at = self.layout.unit_byte(unit);
        let Err(failed) = self.held.write_with(vld, at, record) else {
            self.held.bytes.clear();
            return Ok(());
        };
        if self.held.write(vld).is_ok() {
            self.held.bytes.clear();
            // The record may be on the medium already. A second copy elsewhere with its
            // number would leave recovery in doubt about which of them the next record
            // names.
            return vld.medium.write(at, &[IoSlice::new(record)]);
        }
        // The record may be on the medium nevertheless, and it names places that are
        // given up now.
        let zeros = vec![0; record.len()];
        if let Err(error) = vld.medium.write(at, &[IoSlice::new(&zeros)]) {
            self.stopped = Some(format!("a record in doubt cannot be removed: {error}"));
            return Err(error);
        }
        self.rehome(vld)?;
        self.held.bytes.clear();
        Err(failed)
    }

    /// Writes the buffered blocks that are still needed one by one, and elsewhere if a
    /// write fails; their old places stay taken until the next opening.
    fn rehome<M: Medium>(&mut self, vld: &Vld<M>) -> Result<()> {
        let mut held = std::mem::take(&mut self.held);
        let block_bytes = self.layout.block_bytes as usize;
        for nth in 0..held.bytes.len() / block_bytes {
            let block = held.first + nth as u32;
            let here = nth * block_bytes..(nth + 1) * block_bytes;
            let owner = self.owners[block as usize];
            let at = self.layout.place_byte(block);
            let bytes = &held.bytes[here.clone()];
            if owner == 0 || vld.medium.write(at, &[IoSlice::new(bytes)]).is_ok() {
                continue;
            }
            self.counts.writes_retried += 1;
            match self.write_elsewhere(vld, bytes) {
                Ok(place) => {
                    let crc = crc32c(bytes);
                    self.remap(owner - 1, Entry { place, crc });
                    self.free.take_block(block);
                    held.replaced(place, here, block_bytes);
                }
                Err(error) => {
                    self.stopped = Some(format!("what was written cannot be stored: {error}"));
                    // The blocks can still be read from memory.
                    self.held = held;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn write_elsewhere<M: Medium>(&mut self, vld: &Vld<M>, bytes: &[u8]) -> Result<u32> {
        let placed = self.place_run_now(vld, bytes, Want::Block, Avoid::default())?;
        let full = || super::state::full(vld, varve_device::Operation::Write, 0, 0);
        placed.map(|(block, _)| block).ok_or_else(full)
    }

    /// Reads whole adjacent blocks from block `first` on. Buffered blocks are not read
    /// from the medium, where they may not be readable.
    pub fn read_blocks<M: Medium>(&self, vld: &Vld<M>, first: u32, into: &mut [u8]) -> Result<()> {
        let at = self.layout.place_byte(first);
        let Some((from, held)) = self.held.part_of(&self.layout, first, into.len()) else {
            return vld.medium.read(at, into);
        };
        let (before, rest) = into.split_at_mut(from);
        let (part, behind) = rest.split_at_mut(held.len());
        part.copy_from_slice(held);
        if !before.is_empty() {
            vld.medium.read(at, before)?;
        }
        if !behind.is_empty() {
            vld.medium.read(at + (from + held.len()) as u64, behind)?;
        }
        Ok(())
    }
}
