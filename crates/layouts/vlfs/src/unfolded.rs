//! What brief transactions have said, and what the next one is to say.

use crate::format::{Change, Measures};
use std::collections::HashSet;
use varve_fs::Inode;

/// A change and the bytes that it takes in a record.
#[derive(Debug)]
struct Said {
    change: Change,
    bytes: usize,
}

/// See the module's head.
#[derive(Debug)]
pub struct Unfolded {
    measures: Measures,
    /// What the record in the last slot says, if that may be written again.
    slot: Vec<Said>,
    open: bool,
    /// Where the units begin that both lists name.
    units: HashSet<u64>,
    /// Appended since the last transaction.
    pending: Vec<Said>,
    /// The next transaction cannot be brief.
    full: bool,
    /// Blocks reserved since the last fold.
    reserved: u64,
    /// Slots in use since the last fold: the first ones.
    used: u64,
    /// The last record of the last fold.
    folded: u64,
}

impl Unfolded {
    /// Of a log with records of changes in the first `used` slots, all of them
    /// younger than record `folded`.
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

    /// So many blocks were reserved by what those records say.
    pub fn with_reserved(mut self, blocks: u64) -> Self {
        self.reserved = blocks;
        self
    }

    /// Slots in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// The last record of the last fold.
    pub fn folded(&self) -> u64 {
        self.folded
    }

    /// Something has been changed.
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
            // Attributes say everything: only the last ones count.
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

    /// The next transaction takes along what no change can say.
    pub fn only_full(&mut self) {
        self.full = true;
        // What the slot says is never written again either.
        (self.slot, self.pending) = (Vec::new(), Vec::new());
        (self.open, self.units) = (false, HashSet::new());
    }

    /// The tree no longer uses what begins at `unit`.
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

    /// The slot for a brief transaction of everything pending, counted from 0;
    /// `None` if there cannot be one.
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

    /// What the slot's record is to say; true for what is said first.
    pub fn said(&self) -> Vec<(Change, bool)> {
        let of = |list: &[Said], fresh| -> Vec<(Change, bool)> {
            list.iter()
                .map(|said| (said.change.clone(), fresh))
                .collect()
        };
        [of(&self.slot, false), of(&self.pending, true)].concat()
    }

    /// It has been written.
    pub fn sealed(&mut self) {
        self.slot.append(&mut self.pending);
    }

    /// Everything has been written by a full transaction that ends with this
    /// record.
    pub fn fold(&mut self, last: u64) {
        *self = Unfolded::new(&self.measures, 0, last);
    }
}

fn size(list: &[Said]) -> usize {
    list.iter().map(|said| said.bytes).sum()
}
