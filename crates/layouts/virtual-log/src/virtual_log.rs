//! The virtual log in memory: which map records there are, and what hangs on
//! what.
//!
//! Records are threaded backward: each names older ones (its *branches*), and
//! the youngest, the *root*, leads to all. An overwritten record is dead, and
//! its room is wanted again; but older records may be reached through it alone.
//!
//! Invariants:
//! - Every record kept, but for the root, has one parent, a younger record kept
//!   that names it on the medium. So every live record is reached from the root
//!   through records whose room nobody has taken.
//! - A dead record is kept exactly as long as something hangs on it.
//! - Room is given back only by [`VirtualLog::reclaim`], which the caller calls
//!   when everything appended is durable.
//!
//! Wang et al. 1999, §3.2, give a new root two branches, the previous root and
//! the record that followed the overwritten one. That is not enough: write
//! pieces A B C, then B, D, B again, each overwritten record's room being
//! reused. The newest root names D and what followed the second B, either A or
//! C; the other of them is named only by records that are gone. So branches are
//! handed over instead: a new record adopts what hangs on the record it
//! overwrites, and then what hangs on other dead ones. With the previous root
//! and three more branches, next to nothing waits; a dead record that could not
//! be emptied yet is kept until another one is written.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::NO_ROOT;
use crate::format::{BRANCHES, Branch, RecordHeader, TailRecord};

/// One record.
#[derive(Debug, Clone)]
struct Kept {
    unit: u64,
    piece: u32,
    live: bool,
    /// Dead without having been overwritten.
    retired: bool,
    parent: Option<u64>,
    /// Records that hang on this one: at most [`BRANCHES`].
    children: Vec<u64>,
}

/// What a new record must say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Its number.
    pub seq: u64,
    /// Older records that hang on it; a previous root that lives comes first.
    pub branches: [Branch; BRANCHES],
    /// Pieces with a live record, this one included.
    pub live: u32,
    /// Those whose live record is younger than the newer checkpoint.
    pub live_newer: u32,
}

/// What all records of a transaction say of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transaction {
    first: u64,
    count: u32,
    /// The root before it.
    previous: u64,
}

/// The records kept, by number.
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
    /// An empty log whose first record will be `next_seq`. It reaches down to
    /// the older checkpoint, at `floor`; the newer one is at `newer`.
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

    /// Adds a record that recovery found, youngest first. `parent` is the record
    /// through which it was reached; `retired`: see [`VirtualLog::retire`].
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

    /// The youngest record and its unit.
    pub fn root(&self) -> Option<Branch> {
        self.root.map(|seq| self.branch(seq))
    }

    /// The last number given.
    pub fn last_seq(&self) -> u64 {
        self.next_seq - 1
    }

    /// The number of the youngest record there is; a checkpoint's, if the log
    /// is empty. Less than the last one given where recovery discarded some.
    pub fn reached(&self) -> u64 {
        self.root.unwrap_or(self.newer)
    }

    /// Down to which number the log reaches.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// What the newer checkpoint reflects.
    pub fn newer(&self) -> u64 {
        self.newer
    }

    /// Pieces with a live record.
    pub fn live(&self) -> usize {
        self.by_piece.len()
    }

    /// Dead records that are kept because something hangs on them.
    pub fn waiting(&self) -> usize {
        self.dead.len()
    }

    /// The unit of a piece's live record.
    pub fn unit_of(&self, piece: u32) -> Option<u64> {
        let seq = self.by_piece.get(&piece)?;
        Some(self.kept[seq].unit)
    }

    /// The pieces whose live records are in the given units.
    pub fn pieces_in(&self, units: std::ops::Range<u64>) -> Vec<u32> {
        let live = self.by_piece.iter();
        let within = live.filter(|(_, seq)| units.contains(&self.kept[seq].unit));
        within.map(|(&piece, _)| piece).collect()
    }

    /// Every unit that holds a record kept.
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
        // A dead root is not named: what hangs on it is, below, and as the
        // youngest of the dead it comes first.
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
                // Nothing hangs on a dead child without children.
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

    /// What a record leads to: itself, or what lies below it if it is retired
    /// and leads to nothing else. Those between are left without a parent.
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

    /// The records of `pieces` say nothing any more that what is appended from
    /// now on does not: they are dead, and do not count as live in later
    /// records.
    pub fn retire(&mut self, pieces: std::ops::RangeFrom<u32>) {
        for (_, seq) in self.by_piece.split_off(&pieces.start) {
            let kept = self.kept.get_mut(&seq).expect("a live record");
            (kept.live, kept.retired) = (false, true);
            self.dead.insert(seq);
            self.live_newer -= u32::from(seq > self.newer);
        }
    }

    /// The next `count` records are a transaction.
    pub fn begin(&self, count: u32) -> Transaction {
        Transaction {
            first: self.last_seq() + 1,
            count,
            previous: self.reached(),
        }
    }

    /// The header of the record of `piece`, just appended, that is to be written
    /// to `unit`; what seals it adds magic number and checksum.
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

    /// Where the tail is, for when the power goes down; sealed.
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

    /// The record `seq`, just appended, was written to another unit than
    /// foreseen.
    pub fn moved(&mut self, seq: u64, unit: u64) {
        self.kept.get_mut(&seq).expect("just appended").unit = unit;
    }

    /// Forgets the dead records on which nothing hangs any more; returns their
    /// units. To be called only when every record appended is durable.
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

    /// A checkpoint holds what all records say, and the older of the two what
    /// those up to `floor` say: forgets the latter, and returns their units.
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
    /// If one does not hold.
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
