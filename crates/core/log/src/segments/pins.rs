//! Pins of snapshots: segments to which a snapshot may refer are not opened while it
//! exists.
//!
//! A snapshot refers to no segment that was opened after it was taken, nor to one that
//! was clean then. So of the segments that become clean while there are snapshots, those
//! that had been opened before the newest of them are *kept*: they count as used until
//! the snapshots of that moment are released. Nothing is written into the holes of any
//! segment meanwhile, and no kept segment is discarded.
//!
//! A snapshot never causes a lack of space: if clean segments run short and some are
//! kept, all snapshots are broken.

use super::SegmentTable;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Release};

/// A snapshot that is not released.
#[derive(Debug)]
struct Pin {
    /// Number of segments that had been opened when it was taken.
    opened: u32,
    broken: Arc<AtomicBool>,
}

/// The snapshots of a volume, and the segments kept for them.
#[derive(Debug, Default)]
pub(super) struct Pins {
    snapshots: BTreeMap<u64, Pin>,
    /// Segments that are kept, for the snapshots up to this number.
    kept: BTreeMap<u32, u64>,
}

impl Pins {
    pub fn any(&self) -> bool {
        !self.snapshots.is_empty()
    }

    /// True if a snapshot up to number `newest` may refer to a segment of this
    /// incarnation.
    fn refer_to(&self, incarnation: u32, newest: u64) -> bool {
        let mut older = self.snapshots.range(..=newest);
        older.any(|(_, pin)| incarnation <= pin.opened)
    }
}

impl SegmentTable {
    /// Pins the present state as a snapshot. The returned flag is set once it is broken.
    pub fn pin(&mut self, snapshot: u64) -> Arc<AtomicBool> {
        let broken = Arc::new(AtomicBool::new(false));
        let pin = Pin {
            opened: self.opened,
            broken: Arc::clone(&broken),
        };
        self.pins.snapshots.insert(snapshot, pin);
        broken
    }

    /// Releases a snapshot.
    pub fn unpin(&mut self, snapshot: u64) {
        self.pins.snapshots.remove(&snapshot);
        self.free_kept();
    }

    /// True if there is any snapshot, or the log is being shipped.
    pub fn is_pinned(&self) -> bool {
        self.pins.any() || self.shippers.any()
    }

    /// Number of segments that would be clean except for these.
    pub fn kept_count(&self) -> u64 {
        self.pins.kept.len() as u64 + self.shippers.kept_count()
    }

    /// Breaks all snapshots if segments are kept for them; before that, shippers.
    pub fn break_snapshots(&mut self) {
        if self.break_shippers() && !self.clean.is_empty() {
            return;
        }
        if self.pins.kept.is_empty() {
            return;
        }
        for (_, pin) in std::mem::take(&mut self.pins.snapshots) {
            pin.broken.store(true, Release);
        }
        self.free_kept();
        // Segments that both had kept are still kept for shippers.
        self.break_shippers();
    }

    /// Called for a segment that has become clean. Returns true if a snapshot may refer
    /// to it.
    pub(super) fn keep(&mut self, segment: u32) -> bool {
        let Some((&newest, _)) = self.pins.snapshots.last_key_value() else {
            return false;
        };
        let keeps = self.pins.refer_to(self.get(segment).incarnation, newest);
        if keeps {
            self.pins.kept.insert(segment, newest);
        }
        keeps
    }

    fn free_kept(&mut self) {
        let mut kept = std::mem::take(&mut self.pins.kept);
        kept.retain(|&segment, newest| {
            let keeps = self.pins.refer_to(self.get(segment).incarnation, *newest);
            if !keeps {
                self.may_be_opened(segment);
            }
            keeps
        });
        self.pins.kept.append(&mut kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{LogPosition, UsageEntry};
    use crate::heads::LogEnd;
    use std::sync::atomic::Ordering::Acquire;
    use zerocopy::FromZeros;

    /// Eight segments, all clean.
    fn table() -> SegmentTable {
        let entries = [UsageEntry::default(); 8];
        let end = LogEnd::from(LogPosition::new_zeroed());
        SegmentTable::load(&entries, 10, 5, &end, None)
    }

    /// Opens a segment and fills it.
    fn fill(table: &mut SegmentTable) -> u32 {
        let segment = table.take(0).unwrap();
        table.enter(segment);
        table.leave(segment);
        segment
    }

    #[test]
    fn what_a_snapshot_may_refer_to_is_kept_until_it_is_gone() {
        let mut table = table();
        let before = fill(&mut table);
        table.pin(1);
        let between = fill(&mut table);
        table.pin(2);
        let clean = table.clean_count();
        table.release(&[before, between]);
        assert_eq!((table.clean_count(), table.kept_count()), (clean, 2));
        table.unpin(1);
        assert_eq!(table.kept_count(), 2, "the second may refer to both");
        table.unpin(2);
        assert_eq!((table.clean_count(), table.kept_count()), (clean + 2, 0));
    }

    #[test]
    fn what_was_opened_later_or_freed_before_is_not() {
        let mut table = table();
        let freed = fill(&mut table);
        table.release(&[freed]);
        table.pin(1);
        let clean = table.clean_count();
        let later = fill(&mut table);
        table.release(&[later]);
        assert_eq!((table.clean_count(), table.kept_count()), (clean, 0));
    }

    #[test]
    fn room_goes_before_snapshots() {
        let mut table = table();
        let used: Vec<u32> = (0..8).map(|_| fill(&mut table)).collect();
        let broken = table.pin(1);
        table.break_snapshots();
        assert!(!broken.load(Acquire), "nothing is kept for it");
        table.release(&used[..2]);
        assert_eq!(table.clean_count(), 0);
        table.take(0).unwrap();
        assert!(broken.load(Acquire));
        assert_eq!(table.clean_count(), 1);
    }
}
