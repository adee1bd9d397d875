//! Moving data that is astride two blocks, before new blocks need the space, and in
//! idle time.
//!
//! Invariant: the number of places in use that extend over two blocks is at most
//! [`Layout::astride_max`](crate::format::Layout::astride_max) of the number of mapped
//! blocks. Each of them may have broken one block more than aligned data, so within
//! that bound an overwrite always finds space.

use std::ops::Range;

use varve_device::{Operation, Result};

use super::Vld;
use super::state::{State, full};
use crate::eager::{Avoid, Want};
use crate::format::Entry;
use crate::medium::Medium;

/// Maximum number of blocks that are moved at once.
const BATCH: usize = 32;

impl State {
    /// Returns the kind of place for a block that is written alone. It may begin
    /// anywhere if it is the first since a commit, because its writer then usually
    /// waits for it; among blocks that follow each other without a record, unusable
    /// gaps would be left. A logical block without a place is aligned, and half of the
    /// bound is reserved for such blocks, so that they seldom need other blocks to be
    /// moved.
    pub fn want_of(&self, logical: u32) -> Want {
        let waited_for = self.uncommitted() == 0;
        let spare = self.layout.astride_max(self.mapped) / 2;
        let is_new = self.map.get(logical).place == 0;
        match waited_for && !is_new && (self.astride.len() as u64) < spare {
            true => Want::Anywhere,
            false => Want::Block,
        }
    }

    /// Makes space for logical blocks that are to be written. Those without a place may
    /// need data astride to be moved, which commits the earlier writes.
    ///
    /// # Errors
    /// If the space does not suffice because data astride cannot be read, or if a write
    /// fails.
    pub fn make_room<M: Medium>(&mut self, vld: &Vld<M>, logical: Range<u32>) -> Result<()> {
        if self.astride.is_empty() {
            return Ok(());
        }
        let is_new = |logical: &u32| self.map.get(*logical).place == 0;
        let new = logical.clone().filter(is_new).count() as u64;
        let most = self.layout.astride_max(self.mapped + new);
        while new > 0 && self.astride.len() as u64 > most {
            let before = self.astride.len();
            self.realign(vld, BATCH)?;
            if self.astride.len() >= before {
                let each = u64::from(self.layout.block_bytes);
                let (offset, length) = (u64::from(logical.start) * each, new * each);
                return Err(full(vld, Operation::Write, offset, length));
            }
        }
        Ok(())
    }

    /// Commits, moves at most `blocks` blocks that are astride to aligned places, and
    /// commits; returns false if none was moved. The blocks are read in the order of
    /// their places, and written in runs where there is space for several.
    ///
    /// # Errors
    /// If a write fails. A block that cannot be read stays at its place.
    pub fn realign<M: Medium>(&mut self, vld: &Vld<M>, blocks: usize) -> Result<bool> {
        self.commit(vld)?;
        let block_bytes = self.layout.block_bytes as usize;
        // Each counts twice as uncommitted: its old place, and its new one.
        let most = BATCH.min(self.layout.uncommitted_max() as usize / 2);
        let (mut moving, mut bytes) = (Vec::new(), Vec::new());
        let astride: Vec<u32> = (self.astride.iter().copied())
            .filter(|place| self.is_owned(*place) && !self.unreadable.contains(place))
            .take(blocks.min(most))
            .collect();
        for place in astride {
            let logical = self.owners[place as usize] - 1;
            let from = bytes.len();
            bytes.resize(from + block_bytes, 0);
            if self.read_run(vld, logical, &mut bytes[from..]).is_err() {
                // A reader of this block gets the error.
                bytes.truncate(from);
                self.unreadable.insert(place);
                continue;
            }
            moving.push(logical);
        }
        let avoid = Avoid {
            region: self.compacting.map(|target| target.region),
            empty: true,
            ..Avoid::default()
        };
        let (mut done, step) = (0, self.layout.places_per_block());
        while done < moving.len() {
            let rest = &bytes[done * block_bytes..];
            let Some((first, count)) = self.place_run(vld, rest, Want::Block, avoid)? else {
                break;
            };
            for (nth, &logical) in (0..).zip(&moving[done..done + count]) {
                let (place, crc) = (first + nth * step, self.map.get(logical).crc);
                self.remap(logical, Entry { place, crc });
            }
            done += count;
        }
        self.counts.blocks_realigned += done as u64;
        self.commit(vld)?;
        Ok(done > 0)
    }
}
