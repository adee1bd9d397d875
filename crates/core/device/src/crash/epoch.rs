//! The durable bytes at one moment, and the changes that are not yet durable.
//!
//! Invariants:
//! - `pending` is in trace order; none of its changes is in `durable`.
//! - `touched` has every chunk in which a state of this epoch can differ from
//!   `durable`.
//! - A state's key is the sum of one term for each sector that differs from `durable`:
//!   equal states have equal keys, however they were made.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::Missing;
use crate::memory::{MemoryImage, PreparedWrite};
use crate::random::Random;

/// A change of the medium that no flush covers yet.
#[derive(Debug)]
enum Change {
    Write(PreparedWrite),
    Discard { offset: u64, length: u64 },
}

#[derive(Debug)]
struct Pending {
    /// Index of the event in the trace.
    index: usize,
    change: Change,
    /// Key of the state that contains this change and no other.
    key: u64,
}

impl Change {
    fn apply(&self, image: &mut MemoryImage) {
        match self {
            Change::Write(write) => image.apply(write),
            Change::Discard { offset, length } => image.zero(*offset, *length),
        }
    }

    fn range(&self) -> Range<u64> {
        match self {
            Change::Write(write) => write.offset()..write.offset() + write.bytes().len() as u64,
            Change::Discard { offset, length } => *offset..*offset + *length,
        }
    }
}

/// The durable image and the changes since.
#[derive(Debug)]
pub(super) struct Epoch {
    durable: MemoryImage,
    /// Size of an atomic unit, in bytes.
    unit: u64,
    pending: Vec<Pending>,
    touched: BTreeSet<u64>,
    /// Ranges of the pending changes, start to end, while they are disjoint.
    ranges: BTreeMap<u64, u64>,
    disjoint: bool,
}

impl Epoch {
    pub(super) fn new(durable: MemoryImage, unit: u32) -> Self {
        Epoch {
            durable,
            unit: u64::from(unit),
            pending: Vec::new(),
            touched: BTreeSet::new(),
            ranges: BTreeMap::new(),
            disjoint: true,
        }
    }

    pub(super) fn durable(&self) -> &MemoryImage {
        &self.durable
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Returns the index in the trace of the change at position `at`.
    pub(super) fn index(&self, at: usize) -> usize {
        self.pending[at].index
    }

    /// Returns the indices in the trace of the chosen changes.
    pub(super) fn indices(&self, chosen: &[bool]) -> Vec<usize> {
        let both = self.pending.iter().zip(chosen);
        both.filter_map(|(pending, &chosen)| chosen.then_some(pending.index))
            .collect()
    }

    pub(super) fn write(&mut self, index: usize, offset: u64, data: &Arc<[u8]>) {
        let write = PreparedWrite::new(offset, data.clone());
        self.touched.extend(write.chunk_numbers());
        self.push(index, Change::Write(write));
    }

    pub(super) fn discard(&mut self, index: usize, offset: u64, length: u64) {
        let range = offset..offset + length;
        self.touched.extend(self.durable.present_in(range));
        self.push(index, Change::Discard { offset, length });
    }

    fn push(&mut self, index: usize, change: Change) {
        let range = change.range();
        let below = self.ranges.range(..range.end).next_back();
        if below.is_some_and(|(_, &end)| end > range.start) {
            self.disjoint = false;
        }
        let end = self.ranges.entry(range.start).or_default();
        *end = range.end.max(*end);
        let mut alone = self.durable.clone();
        change.apply(&mut alone);
        let chunks = match &change {
            Change::Write(write) => write.chunk_numbers().collect(),
            Change::Discard { .. } => Vec::from_iter(self.touched.iter().copied()),
        };
        let key = alone.difference(&self.durable, chunks);
        self.pending.push(Pending { index, change, key });
    }

    /// Makes the changes before event `covers` durable.
    pub(super) fn settle(&mut self, covers: usize) {
        let later = self.pending.partition_point(|old| old.index < covers);
        let rest = self.pending.split_off(later);
        for settled in std::mem::take(&mut self.pending) {
            settled.change.apply(&mut self.durable);
        }
        self.touched.clear();
        self.ranges.clear();
        self.disjoint = true;
        // The keys of the changes that the flush did not cover are computed against the
        // new image.
        for Pending { index, change, .. } in rest {
            match &change {
                Change::Write(write) => self.touched.extend(write.chunk_numbers()),
                Change::Discard { .. } => {
                    self.touched.extend(self.durable.present_in(change.range()));
                }
            }
            self.push(index, change);
        }
    }

    /// Returns the key of a subset, if it is the sum of its members' keys.
    pub(super) fn subset_key(&self, chosen: &[bool]) -> Option<u64> {
        let members = || {
            self.pending
                .iter()
                .zip(chosen)
                .filter(|(_, chosen)| **chosen)
        };
        self.disjoint
            .then(|| members().fold(0u64, |sum, (pending, _)| sum.wrapping_add(pending.key)))
    }

    /// Returns the key of any state of this epoch.
    pub(super) fn key(&self, image: &MemoryImage) -> u64 {
        image.difference(&self.durable, self.touched.iter().copied())
    }

    /// Returns the durable image with the chosen changes, in their order.
    pub(super) fn subset(&self, chosen: &[bool]) -> MemoryImage {
        let mut image = self.durable.clone();
        for (pending, _) in self.pending.iter().zip(chosen).filter(|(_, yes)| **yes) {
            pending.change.apply(&mut image);
        }
        image
    }

    /// Returns the positions of the changes that are writes of at least one byte.
    pub(super) fn writes(&self) -> Vec<usize> {
        let is_write = |at: &usize| {
            let change = &self.pending[*at].change;
            matches!(change, Change::Write(_)) && !change.range().is_empty()
        };
        (0..self.pending.len()).filter(is_write).collect()
    }

    /// Returns the number of atomic units that the change at position `at` touches. A
    /// discard counts as one.
    pub(super) fn units(&self, at: usize) -> usize {
        let change = &self.pending[at].change;
        match change {
            Change::Write(_) if change.range().is_empty() => 0,
            Change::Write(_) => {
                let Range { start, end } = change.range();
                (end.div_ceil(self.unit) - start / self.unit) as usize
            }
            Change::Discard { .. } => 1,
        }
    }

    /// Applies the landed units of the change at position `at`, and fills the other
    /// units as `missing` says.
    pub(super) fn tear(
        &self,
        image: &mut MemoryImage,
        at: usize,
        landed: &[bool],
        missing: Missing,
        garbage_seed: u64,
    ) {
        let Change::Write(write) = &self.pending[at].change else {
            if landed == [true] {
                self.pending[at].change.apply(image);
            }
            return;
        };
        let first = write.offset() / self.unit;
        let range = self.pending[at].change.range();
        let size = image.geometry().size;
        for (number, &landed) in (first..).zip(landed) {
            let unit = number * self.unit..((number + 1) * self.unit).min(size);
            match missing {
                _ if landed => {
                    let (start, end) = (unit.start.max(range.start), unit.end.min(range.end));
                    let part = (start - range.start) as usize..(end - range.start) as usize;
                    image.write(start, &write.bytes()[part]);
                }
                Missing::Old => {}
                Missing::Zero => image.zero(unit.start, unit.end - unit.start),
                Missing::Garbage => {
                    let mut bytes = vec![0; (unit.end - unit.start) as usize];
                    Random::stream(garbage_seed, number).fill(&mut bytes);
                    image.write(unit.start, &bytes);
                }
            }
        }
    }
}
