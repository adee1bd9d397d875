//! Segments with blocks of open transactions (`docs/design/transactions.md`, "Spilling":
//! rules S1 to S5).
//!
//! No pointer refers to such a block before its transaction is committed, so by pointers
//! its segment may be empty. As long as the spill exists, the segment is neither reused
//! nor cleaned nor plugged, and no usage table states that it is empty.
//!
//! Spills never cause a lack of space: if no other source of space is left, all spills
//! are broken except those that a group is going to place.

use super::{SegmentState, SegmentTable};
use crate::format::ifile::NOT_EMPTY;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Release};
use varve_fs::SpillNo;
use varve_fs::planted::{self, Planted};

/// A spill that is not released.
#[derive(Debug, Default)]
struct SpillSegments {
    segments: BTreeSet<u32>,
    /// A group is going to place it.
    kept: bool,
    broken: Arc<AtomicBool>,
}

/// The spills of a volume, and their segments.
#[derive(Debug, Default)]
pub(super) struct Spilled {
    spills: BTreeMap<u64, SpillSegments>,
    /// Number of spills in each segment.
    segments: BTreeMap<u32, u32>,
}

impl Spilled {
    pub fn is_in(&self, segment: u32) -> bool {
        self.segments.contains_key(&segment) && !planted::is(Planted::SpillReused)
    }

    fn remove(&mut self, spill: u64) -> Option<SpillSegments> {
        let spill = self.spills.remove(&spill)?;
        for segment in &spill.segments {
            self.leave(*segment);
        }
        Some(spill)
    }

    fn leave(&mut self, segment: u32) {
        if let Some(count) = self.segments.get_mut(&segment) {
            assert!(*count > 0, "segment {segment} is left twice");
            *count -= 1;
            if *count == 0 {
                self.segments.remove(&segment);
            }
        }
    }
}

impl SegmentTable {
    /// Adds a spill. The returned flag is set once it is broken.
    pub fn begin_spill(&mut self, spill: u64) -> Arc<AtomicBool> {
        let spill = self.spilled.spills.entry(spill).or_default();
        Arc::clone(&spill.broken)
    }

    /// Notes that blocks of the spill are written into this segment.
    pub fn spilled_into(&mut self, spill: u64, segment: u32) {
        let Spilled { spills, segments } = &mut self.spilled;
        if let Some(spill) = spills.get_mut(&spill)
            && spill.segments.insert(segment)
        {
            *segments.entry(segment).or_default() += 1;
        }
    }

    /// Notes that all blocks of the spill in this segment have been moved elsewhere.
    pub fn spilled_out_of(&mut self, spill: u64, segment: u32) {
        let of = self.spilled.spills.get_mut(&spill);
        if of.is_some_and(|spill| spill.segments.remove(&segment)) {
            self.spilled.leave(segment);
        }
    }

    /// Removes a spill to which nothing refers any more.
    pub fn end_spill(&mut self, spill: u64) {
        self.spilled.remove(spill);
    }

    /// True if the segment has blocks of an open transaction.
    pub fn has_spilled(&self, segment: u32) -> bool {
        self.spilled.is_in(segment)
    }

    /// Ensures that these spills are not broken. Returns false, with nothing changed, if
    /// one was.
    pub fn keep_spills(&mut self, spills: &[SpillNo]) -> bool {
        let held = &mut self.spilled.spills;
        let all = spills.iter().all(|spill| held.contains_key(&spill.0));
        for spill in spills.iter().filter(|_| all) {
            held.entry(spill.0).and_modify(|spill| spill.kept = true);
        }
        all
    }

    /// Breaks all spills that are not kept.
    pub fn break_spills(&mut self) {
        let open = self.spilled.spills.iter().filter(|(_, spill)| !spill.kept);
        let open: Vec<u64> = open.map(|(number, _)| *number).collect();
        for number in open {
            if let Some(spill) = self.spilled.remove(number) {
                spill.broken.store(true, Release);
            }
        }
    }

    /// Notes that partial `serial` makes spilled blocks in the segment part of files: as
    /// if it had written them there.
    pub fn placed(&mut self, segment: u32, serial: u64) {
        self.clean.remove(&segment);
        let entry = self.get_mut(segment);
        entry.last_serial = entry.last_serial.max(serial);
        (entry.vacated, entry.cleaned) = (None, None);
        entry.empty_since = NOT_EMPTY;
        if matches!(entry.state, SegmentState::Clean | SegmentState::Leaving) {
            entry.state = SegmentState::Used;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{LogPosition, UsageEntry};
    use crate::heads::LogEnd;
    use foldhash::HashMap;
    use zerocopy::FromZeros;

    #[test]
    fn a_segment_is_not_empty_while_spilled_blocks_stand_there_nor_where_they_were_placed() {
        let entries = [UsageEntry::default(); 8];
        let end = LogEnd::from(LogPosition::new_zeroed());
        let mut table = SegmentTable::load(&entries, 10, 5, &end, None);
        let segment = table.take(0).unwrap();
        table.enter(segment);
        table.begin_spill(1);
        table.spilled_into(1, segment);
        table.get_mut(segment).last_serial = 3;
        table.leave(segment);
        let since = |table: &SegmentTable, boundary| {
            let (changes, newest) = (HashMap::default(), HashMap::default());
            let image = table.image(6, boundary, &changes, &newest);
            image[segment as usize].empty_since.get()
        };
        assert_eq!(since(&table, 8), NOT_EMPTY);
        assert!(!table.may_vacate(segment) && table.has_spilled(segment));
        table.placed(segment, 9);
        table.end_spill(1);
        assert_eq!(since(&table, 8), NOT_EMPTY, "what was placed is behind it");
        assert_eq!(since(&table, 9), 6);
        assert!(!table.has_spilled(segment));
    }

    #[test]
    fn what_is_kept_is_not_broken_and_what_was_broken_is_not_kept() {
        let mut table = SegmentTable::default();
        let (one, two) = (table.begin_spill(1), table.begin_spill(2));
        assert!(table.keep_spills(&[SpillNo(2)]));
        table.break_spills();
        let broken = |spill: &AtomicBool| spill.load(std::sync::atomic::Ordering::Acquire);
        assert!(broken(&one) && !broken(&two));
        assert!(!table.keep_spills(&[SpillNo(1), SpillNo(2)]));
    }
}
