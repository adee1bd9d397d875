//! Slots of pages in the file, and free slots.
//!
//! Rules of `docs/spec/records.md`:
//! - P1: a slot is free only if no durable checkpoint, no running one, no current map and
//!   no write in flight has it.
//! - P4: a slot that only the old checkpoint has is free when the new one is durable.

use crate::page::PAGE_HEADER;
use crate::planted::{self, Planted};
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

/// Slot and checksum of a block of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapBlock {
    pub slot: u32,
    pub crc: u32,
}

#[derive(Clone, Debug, Default)]
struct Bits(Vec<u64>);

/// A pin on the slots of a checkpoint, which keep their content while it exists.
#[derive(Debug)]
pub(crate) struct SlotHold(#[expect(dead_code, reason = "alive or not is what counts")] Arc<Bits>);

impl Bits {
    fn has(&self, at: u32) -> bool {
        let word = self.0.get(at as usize / 64);
        word.is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    fn set(&mut self, at: u32) {
        let word = at as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (at % 64);
    }

    fn clear(&mut self, at: u32) {
        self.0[at as usize / 64] &= !(1 << (at % 64));
    }

    fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[derive(Debug, Default)]
pub(super) struct Slots {
    map: Vec<u32>,
    blocks: Vec<MapBlock>,
    /// Slots in the current map, the durable checkpoint, a running one, or a write in
    /// flight.
    taken: Bits,
    durable: Bits,
    /// Slots of a running checkpoint.
    next: Option<Bits>,
    /// Slots that are being copied.
    held: Vec<Weak<Bits>>,
    /// Slots in use only because of a checkpoint or a pin.
    pending: Vec<u32>,
    /// Blocks of the map that differ from those of the durable checkpoint.
    changed: BTreeSet<usize>,
    per_block: usize,
    hint: usize,
}

/// A map at the moment of a checkpoint.
#[derive(Debug)]
pub(crate) struct Captured {
    pub pages: usize,
    /// Blocks to be written, with the slots of their pages.
    pub changed: Vec<(usize, Vec<u32>)>,
    pub blocks: Vec<MapBlock>,
}

impl Slots {
    /// Returns the state without pages.
    pub(super) fn new(page_bytes: usize) -> Self {
        let mut slots = Slots {
            per_block: entries(page_bytes),
            ..Slots::default()
        };
        slots.taken.set(0);
        slots
    }

    /// Returns the slots of a durable checkpoint. The error is a slot that two pages
    /// have.
    pub(super) fn adopt(
        map: Vec<u32>,
        blocks: Vec<MapBlock>,
        page_bytes: usize,
    ) -> Result<Self, u64> {
        let mut slots = Slots::new(page_bytes);
        let all = map
            .iter()
            .copied()
            .chain(blocks.iter().map(|block| block.slot));
        for slot in all.filter(|slot| *slot != 0) {
            if slots.taken.has(slot) {
                return Err(slot.into());
            }
            slots.taken.set(slot);
            slots.durable.set(slot);
        }
        (slots.map, slots.blocks) = (map, blocks);
        Ok(slots)
    }

    pub(super) fn slot(&self, page: u32) -> u32 {
        self.map.get(page as usize).copied().unwrap_or(0)
    }

    pub(super) fn counts(&self) -> (usize, usize) {
        let pages = self.map.iter().filter(|slot| **slot != 0).count();
        (pages, self.taken.count())
    }

    /// Returns a free slot for a write.
    pub(super) fn allocate(&mut self) -> u32 {
        let words = self.taken.0.len();
        for step in 0..words {
            let word = (self.hint + step) % words;
            if self.taken.0[word] != u64::MAX {
                self.hint = word;
                let slot = word as u32 * 64 + self.taken.0[word].trailing_ones();
                self.taken.set(slot);
                return slot;
            }
        }
        let slot = words as u32 * 64;
        self.taken.set(slot);
        self.hint = words;
        slot
    }

    /// Frees a slot after a failed write.
    pub(super) fn give_back(&mut self, slot: u32) {
        self.taken.clear(slot);
    }

    /// Records that a page was written to a slot.
    pub(super) fn moved(&mut self, page: u32, slot: u32) {
        let at = page as usize;
        if self.map.len() <= at {
            self.map.resize(at + 1, 0);
        }
        let old = std::mem::replace(&mut self.map[at], slot);
        self.changed.insert(at / self.per_block);
        if old != 0 && old != slot {
            self.displaced(old);
        }
    }

    fn displaced(&mut self, old: u32) {
        let in_next = self.next.as_ref().is_some_and(|next| next.has(old));
        let early = planted::is(Planted::SlotReusedEarly);
        match (self.durable.has(old) || in_next || self.is_held(old)) && !early {
            true => self.pending.push(old),
            false => self.taken.clear(old),
        }
    }

    fn is_held(&self, slot: u32) -> bool {
        let mut held = self.held.iter().filter_map(Weak::upgrade);
        held.any(|held| held.has(slot))
    }

    /// Pins the slots of the durable checkpoint.
    pub(super) fn hold(&mut self) -> SlotHold {
        let hold = Arc::new(self.durable.clone());
        if !planted::is(Planted::SlotsNotHeld) {
            self.held.push(Arc::downgrade(&hold));
        }
        SlotHold(hold)
    }

    /// Frees the slots that were in use only because of a former checkpoint.
    fn give_back_pending(&mut self) {
        self.held.retain(|held| held.strong_count() > 0);
        for slot in std::mem::take(&mut self.pending) {
            match self.durable.has(slot) || self.is_held(slot) {
                true => self.pending.push(slot),
                false => self.taken.clear(slot),
            }
        }
    }

    /// Returns the present map for a checkpoint. Only one may run at a time.
    pub(super) fn capture(&mut self) -> Captured {
        assert!(self.next.is_none(), "one checkpoint at a time");
        let changed = std::mem::take(&mut self.changed);
        let mut next = Bits::default();
        self.map.iter().for_each(|slot| next.set(*slot));
        let count = self.map.len().div_ceil(self.per_block);
        self.blocks.resize(count, MapBlock { slot: 0, crc: 0 });
        for (at, block) in self.blocks.iter().enumerate() {
            if !changed.contains(&at) {
                next.set(block.slot);
            }
        }
        self.next = Some(next);
        let slots_of = |block: usize| {
            let end = self.map.len().min((block + 1) * self.per_block);
            self.map[block * self.per_block..end].to_vec()
        };
        Captured {
            pages: self.map.len(),
            changed: changed
                .into_iter()
                .map(|block| (block, slots_of(block)))
                .collect(),
            blocks: self.blocks.clone(),
        }
    }

    /// Records the slot that was allocated for a block of the captured map.
    pub(super) fn block_written(&mut self, slot: u32) {
        self.next.as_mut().expect("captured").set(slot);
    }

    /// Records that the checkpoint is durable.
    pub(super) fn completed(&mut self, captured: Captured) {
        self.durable = self.next.take().expect("captured");
        for (at, _) in &captured.changed {
            let old = self.blocks[*at].slot;
            if old != 0 {
                self.pending.push(old);
            }
        }
        self.blocks = captured.blocks;
        self.give_back_pending();
    }

    /// Records that the checkpoint has failed; `written` are the slots allocated for its
    /// blocks.
    pub(super) fn failed(&mut self, captured: &Captured, written: &[u32]) {
        self.next = None;
        self.changed
            .extend(captured.changed.iter().map(|(block, _)| *block));
        written.iter().for_each(|slot| self.taken.clear(*slot));
        self.give_back_pending();
    }
}

/// Returns the number of slots in a block of the map.
pub(crate) fn entries(page_bytes: usize) -> usize {
    (page_bytes - PAGE_HEADER) / 4
}
