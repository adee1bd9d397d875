//! Room that data astride takes: given back before new blocks need it, and in
//! idle time.
//!
//! Invariant: of all places that are taken no more lie across the border of two
//! blocks than [`Layout::astride_max`](crate::format::Layout::astride_max) says for
//! what is mapped. Each may have broken one block more than data does that begins
//! where a block does, so within that bound an overwrite always finds room.

use std::ops::Range;

use varve_device::{Operation, Result};

use super::Vld;
use super::state::{State, full};
use crate::eager::{Avoid, Want};
use crate::format::Entry;
use crate::medium::Medium;

/// Blocks that are moved at once at most.
const BATCH: usize = 32;

impl State {
    /// Where a block that is written alone may go. Anywhere, if it is the first
    /// since a commit, which as a rule is one whose writer waits: among blocks that
    /// follow each other without a record, gaps would be left that serve nobody. A
    /// logical block that is nowhere yet goes where a block begins, and half of
    /// what may lie astride is left to such blocks, so that they seldom need others
    /// to be moved.
    pub fn want_of(&self, logical: u32) -> Want {
        let waited_for = self.uncommitted() == 0;
        let spare = self.layout.astride_max(self.mapped) / 2;
        let is_new = self.map.get(logical).place == 0;
        match waited_for && !is_new && (self.astride.len() as u64) < spare {
            true => Want::Anywhere,
            false => Want::Block,
        }
    }

    /// Room for logical blocks that are to be written: for those among them that
    /// are nowhere yet, data astride may have to be moved, which commits what was
    /// written before.
    ///
    /// # Errors
    /// There is none, as data astride cannot be read; or a write fails.
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

    /// Commits, moves at most `blocks` blocks that lie astride to where a block
    /// begins, and commits; false if none moved. Together: read in the order of
    /// their places, written in runs where there is room for some.
    ///
    /// # Errors
    /// When a write fails. What cannot be read stays where it is.
    pub fn realign<M: Medium>(&mut self, vld: &Vld<M>, blocks: usize) -> Result<bool> {
        self.commit(vld)?;
        let block_bytes = self.layout.block_bytes as usize;
        // Each counts twice as uncommitted: where it was, and where it is.
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
                // Whoever reads it is told.
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
