//! The changes of brief transactions since the last fold, and those of the next one.

use crate::format::{Change, Measures};
use std::collections::HashSet;
use varve_fs::Inode;

/// A change, and its length in a record.
#[derive(Debug)]
struct Said {
    change: Change,
    bytes: usize,
}

/// The changes that are not folded yet.
#[derive(Debug)]
pub struct Unfolded {
    measures: Measures,
    /// The changes in the record of the last slot, if that may be rewritten.
    slot: Vec<Said>,
    open: bool,
    /// The first units of the extents that both lists name.
    units: HashSet<u64>,
    /// The changes appended since the last transaction.
    pending: Vec<Said>,
    /// True if the next transaction cannot be brief.
    full: bool,
    /// Number of blocks reserved since the last fold.
    reserved: u64,
    /// Number of slots in use since the last fold, which are the first ones.
    used: u64,
    /// Sequence number of the last record of the last fold.
    folded: u64,
}

impl Unfolded {
    /// Creates the state of a log with records of changes in the first `used` slots,
    /// all of them younger than record `folded`.
    pub fn new(measures: &Measures, used: u64, folded: u64) -> Self {
        Unfolded {
            measures: *measures,
            slot: Vec::new(),
            open: false,
            units: HashSet::new(),
            pending: Vec::new(),
            full: false,
            reserved: 0,
            used,
            folded,
        }
    }

    /// Sets the number of blocks that those records reserve.
    pub fn with_reserved(mut self, blocks: u64) -> Self {
        self.reserved = blocks;
        self
    }

    /// Returns the number of slots in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Returns the sequence number of the last record of the last fold.
    pub fn folded(&self) -> u64 {
        self.folded
    }

    /// Adds a change.
    pub fn note(&mut self, change: Change) {
        if self.full {
            return;
        }
        self.reserved = self.reserved.saturating_add(change.reserved());
        if self.reserved > self.measures.reserved_max() {
            self.only_full();
            return;
        }
        if let Change::Inode(new) = &change {
            // An inode's change is complete in itself: only the last one counts.
            let same = |old: &Inode| (old.ino, old.version) == (new.ino, new.version);
            let older = |said: &Said| matches!(&said.change, Change::Inode(old) if same(old));
            self.pending.retain(|said| !older(said));
            self.slot.retain(|said| !older(said));
        }
        if let Some(place) = change.place() {
            self.units.insert(self.measures.extent_of(place).unit);
        }
        let bytes = change.encode(true).len();
        self.pending.push(Said { change, bytes });
        if size(&self.pending) > self.measures.changes_bytes() {
            self.only_full();
        }
    }

    /// Makes the next transaction a full one, because a record of changes cannot contain
    /// what it commits.
    pub fn only_full(&mut self) {
        self.full = true;
        // The record in the slot is not rewritten any more either.
        (self.slot, self.pending) = (Vec::new(), Vec::new());
        (self.open, self.units) = (false, HashSet::new());
    }

    /// Removes the changes whose data begins at `unit`, because the tree no longer uses
    /// it.
    pub fn give_up(&mut self, unit: u64) {
        if !self.units.remove(&unit) {
            return;
        }
        let measures = self.measures;
        let there = |said: &Said| {
            let place = said.change.place();
            place.is_some_and(|place| measures.extent_of(place).unit == unit)
        };
        self.pending.retain(|said| !there(said));
        self.slot.retain(|said| !there(said));
    }

    /// Returns the slot, counted from 0, for a brief transaction of all pending
    /// changes; `None` if there cannot be one.
    pub fn slot(&mut self) -> Option<u64> {
        if self.full || self.measures.slots == 0 {
            return None;
        }
        if self.open && size(&self.slot) + size(&self.pending) <= self.measures.changes_bytes() {
            return Some(self.used - 1);
        }
        (self.used < self.measures.slots).then(|| {
            self.slot.clear();
            self.open = true;
            self.used += 1;
            self.used - 1
        })
    }

    /// Returns the changes for the slot's record, each with true if it is new.
    pub fn said(&self) -> Vec<(Change, bool)> {
        let of = |list: &[Said], fresh| -> Vec<(Change, bool)> {
            list.iter()
                .map(|said| (said.change.clone(), fresh))
                .collect()
        };
        [of(&self.slot, false), of(&self.pending, true)].concat()
    }

    /// Records that the slot's record has been written.
    pub fn sealed(&mut self) {
        self.slot.append(&mut self.pending);
    }

    /// Records that a full transaction has written everything; `last` is its last
    /// record.
    pub fn fold(&mut self, last: u64) {
        *self = Unfolded::new(&self.measures, 0, last);
    }
}

fn size(list: &[Said]) -> usize {
    list.iter().map(|said| said.bytes).sum()
}
