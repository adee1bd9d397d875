//! Snapshots: what they may refer to is not opened anew while they are held.
//!
//! A snapshot refers to nothing that was opened after it was taken, nor to what was
//! clean then. So of the segments that become clean while snapshots are held, those
//! that had been opened before the newest of them are *kept*: they count as used until
//! the snapshots of that moment are gone. Nothing is written into the holes of any
//! segment meanwhile, and none of these is discarded.
//!
//! A snapshot never takes room from anybody: where clean segments run short and some
//! are kept, all snapshots are broken.

use super::SegmentTable;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Release};

/// A snapshot that is held.
#[derive(Debug)]
struct Pin {
    /// Segments had been opened when it was taken.
    opened: u32,
    broken: Arc<AtomicBool>,
}

/// See the module's head.
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

    /// True if a snapshot up to number `newest` may refer to what was opened so.
    fn refer_to(&self, incarnation: u32, newest: u64) -> bool {
        let mut older = self.snapshots.range(..=newest);
        older.any(|(_, pin)| incarnation <= pin.opened)
    }
}

impl SegmentTable {
    /// A snapshot of what lives now. What is set once it is broken.
    pub fn pin(&mut self, snapshot: u64) -> Arc<AtomicBool> {
        let broken = Arc::new(AtomicBool::new(false));
        let pin = Pin {
            opened: self.opened,
            broken: Arc::clone(&broken),
        };
        self.pins.snapshots.insert(snapshot, pin);
        broken
    }

    /// Nobody reads that snapshot any more.
    pub fn unpin(&mut self, snapshot: u64) {
        self.pins.snapshots.remove(&snapshot);
        self.free_kept();
    }

    /// True if any is held, or somebody ships the log.
    pub fn is_pinned(&self) -> bool {
        self.pins.any() || self.shippers.any()
    }

    /// Segments that would be clean but for these.
    pub fn kept_count(&self) -> u64 {
        self.pins.kept.len() as u64 + self.shippers.kept_count()
    }

    /// Breaks all snapshots if segments are kept for them; before these, whoever
    /// ships.
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
        // What both had kept is theirs now.
        self.break_shippers();
    }

    /// A segment has become clean. True if a snapshot may refer to it.
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
