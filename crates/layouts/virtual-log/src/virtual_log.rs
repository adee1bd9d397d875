//! The virtual log in memory: the map records, and which of them depend on which.
//!
//! Records are linked backward: each names older ones (its *branches*), and all are
//! reached from the youngest, the *root*. An overwritten record is dead, and its space
//! is wanted again; but older records may be reachable only through it.
//!
//! Invariants:
//! - Every record kept, except for the root, has one parent, a younger record kept that
//!   names it on the medium. Every live record is therefore reached from the root
//!   through records whose space is not reused.
//! - A dead record is kept exactly as long as another record depends on it.
//! - Space is released only by [`VirtualLog::reclaim`], which the caller calls when all
//!   records appended are durable.
//!
//! Wang et al. 1999, §3.2, give a new root two branches, the previous root and the
//! record that followed the overwritten one. That is not enough. Write pieces A B C,
//! then B, D, B again, and reuse the space of each overwritten record. The newest root
//! names D and the record that followed the second B, either A or C; the other of them
//! is named only by records that are gone. Branches are therefore handed over: a new
//! record adopts the dependants of the record that it overwrites, and then those of
//! other dead records. With the previous root and three more branches, almost no record
//! has to wait. A dead record that could not be emptied yet is kept until another
//! record is written.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::NO_ROOT;
use crate::format::{BRANCHES, Branch, RecordHeader, TailRecord};

/// A record that is kept.
#[derive(Debug, Clone)]
struct Kept {
    unit: u64,
    piece: u32,
    live: bool,
    /// True if the record is dead without having been overwritten.
    retired: bool,
    parent: Option<u64>,
    /// Records that depend on this one: at most [`BRANCHES`].
    children: Vec<u64>,
}

/// The fields of a new record that follow from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Sequence number of the record.
    pub seq: u64,
    /// Older records that depend on it; a previous root that is live is first.
    pub branches: [Branch; BRANCHES],
    /// Number of pieces with a live record, this one included.
    pub live: u32,
    /// Number of pieces whose live record is younger than the newer checkpoint.
    pub live_newer: u32,
}

/// The fields that all records of a transaction have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transaction {
    first: u64,
    count: u32,
    /// Sequence number of the root before the transaction.
    previous: u64,
}

/// The records that are kept, and their dependencies.
#[derive(Debug, Clone)]
pub struct VirtualLog {
    kept: BTreeMap<u64, Kept>,
    dead: BTreeSet<u64>,
    /// The live record of each piece that has one.
    by_piece: BTreeMap<u32, u64>,
    root: Option<u64>,
    next_seq: u64,
    floor: u64,
    newer: u64,
    live_newer: u32,
}

impl VirtualLog {
    /// Creates an empty log whose first record will be `next_seq`. The log begins
    /// behind `floor`, the number of the older checkpoint; `newer` is the number of the
    /// newer one.
    pub fn new(next_seq: u64, floor: u64, newer: u64) -> Self {
        VirtualLog {
            kept: BTreeMap::new(),
            dead: BTreeSet::new(),
            by_piece: BTreeMap::new(),
            root: None,
            next_seq,
            floor,
            newer,
            live_newer: 0,
        }
    }

    /// Adds a record that recovery found, the youngest first. `parent` is the record
    /// through which it was reached; `retired` is as after [`VirtualLog::retire`].
    pub(crate) fn restore(
        &mut self,
        (seq, unit): (u64, u64),
        piece: u32,
        parent: Option<u64>,
        retired: bool,
    ) {
        let live = !retired && !self.by_piece.contains_key(&piece);
        match parent {
            Some(parent) => {
                let above = self.kept.get_mut(&parent).expect("a parent found before");
                above.children.push(seq);
            }
            None => self.root = Some(seq),
        }
        match live {
            true => {
                self.by_piece.insert(piece, seq);
                self.live_newer += u32::from(seq > self.newer);
            }
            false => _ = self.dead.insert(seq),
        }
        let kept = Kept {
            unit,
            piece,
            live,
            retired,
            parent,
            children: Vec::new(),
        };
        self.kept.insert(seq, kept);
    }

    /// Returns the youngest record and its unit.
    pub fn root(&self) -> Option<Branch> {
        self.root.map(|seq| self.branch(seq))
    }

    /// Returns the last sequence number assigned.
    pub fn last_seq(&self) -> u64 {
        self.next_seq - 1
    }

    /// Returns the number of the youngest record; a checkpoint's, if the log is empty.
    /// It is less than the last number assigned if recovery discarded some records.
    pub fn reached(&self) -> u64 {
        self.root.unwrap_or(self.newer)
    }

    /// Returns the sequence number at which the log begins.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns the last record that the newer checkpoint reflects.
    pub fn newer(&self) -> u64 {
        self.newer
    }

    /// Returns the number of pieces with a live record.
    pub fn live(&self) -> usize {
        self.by_piece.len()
    }

    /// Returns the number of dead records that are kept because others depend on them.
    pub fn waiting(&self) -> usize {
        self.dead.len()
    }

    /// Returns the unit of a piece's live record.
    pub fn unit_of(&self, piece: u32) -> Option<u64> {
        let seq = self.by_piece.get(&piece)?;
        Some(self.kept[seq].unit)
    }

    /// Returns the pieces whose live records are in the given units.
    pub fn pieces_in(&self, units: std::ops::Range<u64>) -> Vec<u32> {
        let live = self.by_piece.iter();
        let within = live.filter(|(_, seq)| units.contains(&self.kept[seq].unit));
        within.map(|(&piece, _)| piece).collect()
    }

    /// Returns the units of all records kept.
    pub fn units(&self) -> impl Iterator<Item = u64> {
        self.kept.values().map(|kept| kept.unit)
    }

    fn branch(&self, seq: u64) -> Branch {
        Branch {
            unit: self.kept[&seq].unit.into(),
            seq: seq.into(),
        }
    }

    /// Appends a record for `piece`, to be written to `unit`, as the new root.
    pub fn append(&mut self, piece: u32, unit: u64) -> Appended {
        let seq = self.next_seq;
        self.next_seq += 1;
        let overwritten = self.by_piece.insert(piece, seq);
        self.live_newer += u32::from(overwritten.is_none_or(|old| old <= self.newer));
        if let Some(overwritten) = overwritten {
            self.kept.get_mut(&overwritten).expect("a live record").live = false;
            self.dead.insert(overwritten);
        }
        let mut children = Vec::with_capacity(BRANCHES);
        // A dead root is not named. Its dependants are adopted below, before those of
        // other dead records, because it is the youngest.
        if let Some(root) = self.root.filter(|root| self.kept[root].live) {
            children.push(root);
        }
        let dead: Vec<u64> = self.dead.iter().rev().copied().collect();
        'full: for dead in dead {
            while let Some(&child) = self.kept[&dead].children.last() {
                if children.len() == BRANCHES {
                    break 'full;
                }
                self.kept.get_mut(&dead).expect("kept").children.pop();
                let child = self.below_retired(child);
                // No record depends on a dead child without children.
                let worth = &self.kept[&child];
                if worth.live || !worth.children.is_empty() {
                    children.push(child);
                } else {
                    self.kept.get_mut(&child).expect("kept").parent = None;
                }
            }
        }
        for child in &children {
            self.kept.get_mut(child).expect("kept").parent = Some(seq);
        }
        let mut branches = [Branch::default(); BRANCHES];
        for (branch, &child) in branches.iter_mut().zip(&children) {
            *branch = self.branch(child);
        }
        let kept = Kept {
            unit,
            piece,
            live: true,
            retired: false,
            parent: None,
            children,
        };
        self.kept.insert(seq, kept);
        self.root = Some(seq);
        Appended {
            seq,
            branches,
            live: self.by_piece.len() as u32,
            live_newer: self.live_newer,
        }
    }

    /// Returns `seq`, or the record below it if `seq` is retired and only one record
    /// depends on it, and so on. The records that are skipped are left without a parent.
    fn below_retired(&mut self, mut seq: u64) -> u64 {
        loop {
            let kept = self.kept.get_mut(&seq).expect("kept");
            if !kept.retired || kept.children.len() != 1 {
                return seq;
            }
            kept.parent = None;
            seq = kept.children.pop().expect("one");
        }
    }

    /// Retires the records of `pieces`: records appended from now on contain all that
    /// these say. They are dead, and later records do not count them as live.
    pub fn retire(&mut self, pieces: std::ops::RangeFrom<u32>) {
        for (_, seq) in self.by_piece.split_off(&pieces.start) {
            let kept = self.kept.get_mut(&seq).expect("a live record");
            (kept.live, kept.retired) = (false, true);
            self.dead.insert(seq);
            self.live_newer -= u32::from(seq > self.newer);
        }
    }

    /// Begins a transaction that consists of the next `count` records.
    pub fn begin(&self, count: u32) -> Transaction {
        Transaction {
            first: self.last_seq() + 1,
            count,
            previous: self.reached(),
        }
    }

    /// Returns the header of the record of `piece`, just appended, that is to be
    /// written to `unit`. Magic number and checksum are added when it is sealed.
    pub fn header(
        &self,
        volume: u64,
        transaction: Transaction,
        (piece, appended): (u32, &Appended),
        unit: u64,
    ) -> RecordHeader {
        RecordHeader {
            crc: 0.into(),
            magic: 0.into(),
            volume: volume.into(),
            seq: appended.seq.into(),
            first: transaction.first.into(),
            count: transaction.count.into(),
            piece: piece.into(),
            live: appended.live.into(),
            live_newer: appended.live_newer.into(),
            unit: unit.into(),
            floor: self.floor.into(),
            newer: self.newer.into(),
            previous: transaction.previous.into(),
            branches: appended.branches,
        }
    }

    /// Returns the sealed tail record with the present root, to be written when the
    /// volume is parked.
    pub fn tail_record(&self, volume: u64) -> TailRecord {
        let record = TailRecord {
            crc: 0.into(),
            magic: 0.into(),
            volume: volume.into(),
            seq: self.reached().into(),
            unit: self.root().map_or(NO_ROOT, |root| root.unit.get()).into(),
        };
        record.seal()
    }

    /// Records that `seq`, just appended, was written to another unit than planned.
    pub fn moved(&mut self, seq: u64, unit: u64) {
        self.kept.get_mut(&seq).expect("just appended").unit = unit;
    }

    /// Removes the dead records on which no record depends any more; returns their
    /// units. It must be called only when every record appended is durable.
    pub fn reclaim(&mut self) -> Vec<u64> {
        let mut units = Vec::new();
        let mut look: Vec<u64> = self.dead.iter().rev().copied().collect();
        while let Some(seq) = look.pop() {
            let Some(kept) = self.kept.get(&seq) else {
                continue;
            };
            if kept.live || !kept.children.is_empty() {
                continue;
            }
            let kept = self.kept.remove(&seq).expect("just seen");
            self.dead.remove(&seq);
            units.push(kept.unit);
            if let Some(above) = kept.parent.and_then(|parent| self.kept.get_mut(&parent)) {
                above.children.retain(|&child| child != seq);
                look.extend(kept.parent);
            }
        }
        units
    }

    /// Truncates the log after a checkpoint, which reflects all records; the older
    /// checkpoint reflects those up to `floor`. Removes the latter records, and returns
    /// their units.
    pub fn truncate(&mut self, floor: u64) -> Vec<u64> {
        (self.newer, self.live_newer) = (self.reached(), 0);
        self.floor = self.floor.max(floor);
        let rest = self.kept.split_off(&(self.floor + 1));
        let gone = std::mem::replace(&mut self.kept, rest);
        self.dead = self.dead.split_off(&(self.floor + 1));
        for (seq, kept) in &gone {
            if self.by_piece.get(&kept.piece) == Some(seq) {
                self.by_piece.remove(&kept.piece);
            }
        }
        for kept in self.kept.values_mut() {
            kept.children.retain(|&child| child > floor);
        }
        self.root = self.root.filter(|root| self.kept.contains_key(root));
        gone.into_values().map(|kept| kept.unit).collect()
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If an invariant is broken.
    pub fn check(&self) {
        for (seq, kept) in &self.kept {
            assert!(kept.children.len() <= BRANCHES);
            for child in &kept.children {
                assert!(child < seq, "{child} hangs on {seq}");
                let below = self.kept.get(child).expect("a child that is kept");
                assert_eq!(below.parent, Some(*seq));
            }
            assert_eq!(kept.live, self.by_piece.get(&kept.piece) == Some(seq));
            if kept.live && self.root != Some(*seq) {
                let parent = kept.parent.expect("a live record that is reached");
                assert!(self.kept[&parent].children.contains(seq));
            }
        }
    }
}

#[cfg(test)]
mod tests;
