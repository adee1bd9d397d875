//! Pins of shippers: log that is being shipped is not overwritten meanwhile
//! (`docs/spec/stream.md`).
//!
//! A shipper reads the segments that were opened under its number or later. Those that
//! become clean are *kept* until it has read them, and so are those that were clean
//! already. A shipper never causes a lack of space: if clean segments run short and some
//! are kept, all shippers lose their pins.

use super::SegmentTable;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Release};

/// The pin of one shipper.
#[derive(Debug)]
struct ShipperPin {
    /// Number of the first opening of a segment that it needs.
    from: u32,
    broken: Arc<AtomicBool>,
}

/// The shippers of a volume, and the segments kept for them.
#[derive(Debug, Default)]
pub(super) struct Shippers {
    by_number: BTreeMap<u64, ShipperPin>,
    taken: u64,
    kept: BTreeSet<u32>,
}

impl Shippers {
    pub fn any(&self) -> bool {
        !self.by_number.is_empty()
    }

    pub fn kept_count(&self) -> u64 {
        self.kept.len() as u64
    }

    fn need(&self, incarnation: u32) -> bool {
        let mut all = self.by_number.values();
        incarnation > 0 && all.any(|shipper| shipper.from <= incarnation)
    }
}

impl SegmentTable {
    /// Pins the segments opened under number `from` and later. The returned flag is set
    /// once they may be overwritten.
    pub fn pin_log(&mut self, from: u32) -> (u64, Arc<AtomicBool>) {
        let broken = Arc::new(AtomicBool::new(false));
        let shipper = ShipperPin {
            from,
            broken: Arc::clone(&broken),
        };
        self.shippers.taken += 1;
        let number = self.shippers.taken;
        self.shippers.by_number.insert(number, shipper);
        let clean: Vec<u32> = self.clean.iter().copied().collect();
        for segment in clean {
            if self.keep_log(segment) {
                self.clean.remove(&segment);
            }
        }
        (number, broken)
    }

    /// Notes that a shipper has read the segments opened before number `from`.
    pub fn advance_log_pin(&mut self, number: u64, from: u32) {
        if let Some(shipper) = self.shippers.by_number.get_mut(&number)
            && shipper.from < from
        {
            shipper.from = from;
            self.free_kept_log();
        }
    }

    /// Removes a shipper.
    pub fn unpin_log(&mut self, number: u64) {
        self.shippers.by_number.remove(&number);
        self.free_kept_log();
    }

    /// Breaks all shippers if segments are kept for them, and returns whether it did.
    pub(super) fn break_shippers(&mut self) -> bool {
        if self.shippers.kept.is_empty() {
            return false;
        }
        for (_, shipper) in std::mem::take(&mut self.shippers.by_number) {
            shipper.broken.store(true, Release);
        }
        self.free_kept_log();
        true
    }

    /// Called for a segment that is clean. Returns true if a shipper needs its contents.
    pub(super) fn keep_log(&mut self, segment: u32) -> bool {
        let keeps = self.shippers.need(self.get(segment).incarnation);
        if keeps {
            self.shippers.kept.insert(segment);
        }
        keeps
    }

    fn free_kept_log(&mut self) {
        for segment in std::mem::take(&mut self.shippers.kept) {
            self.may_be_opened(segment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{LogPosition, UsageEntry};
    use crate::heads::LogEnd;
    use std::sync::atomic::Ordering::Acquire;
    use zerocopy::FromZeros;

    /// Eight segments, all clean, opened before there is a shipper.
    fn table() -> SegmentTable {
        let entries = [UsageEntry::default(); 8];
        let end = LogEnd::from(LogPosition::new_zeroed());
        SegmentTable::load(&entries, 10, 5, &end, None)
    }

    fn fill(table: &mut SegmentTable) -> u32 {
        let segment = table.take(0).unwrap();
        table.enter(segment);
        table.leave(segment);
        segment
    }

    #[test]
    fn what_is_not_read_yet_is_kept() {
        let mut table = table();
        let (read, clean_already, live) = (fill(&mut table), fill(&mut table), fill(&mut table));
        table.release(&[read, clean_already]);
        let clean = table.clean_count();
        let from = table.get(clean_already).incarnation;
        let (number, _) = table.pin_log(from);
        assert_eq!((table.clean_count(), table.kept_count()), (clean - 1, 1));
        table.release(&[live]);
        assert_eq!((table.clean_count(), table.kept_count()), (clean - 1, 2));
        table.advance_log_pin(number, table.get(live).incarnation);
        assert_eq!((table.clean_count(), table.kept_count()), (clean, 1));
        table.unpin_log(number);
        assert_eq!((table.clean_count(), table.kept_count()), (clean + 1, 0));
    }

    #[test]
    fn shippers_go_before_snapshots_and_room_before_both() {
        let mut table = table();
        let used: Vec<u32> = (0..8).map(|_| fill(&mut table)).collect();
        let snapshot = table.pin(1);
        let (_, shipper) = table.pin_log(0);
        table.release(&used[..1]);
        table.take(0).unwrap();
        assert!(shipper.load(Acquire), "its segment was wanted");
        assert!(snapshot.load(Acquire), "it referred to the same one");

        let (_, shipper) = table.pin_log(table.opened() + 1);
        let snapshot = table.pin(2);
        table.break_snapshots();
        assert!(
            !shipper.load(Acquire) && !snapshot.load(Acquire),
            "nothing is kept"
        );
        assert!(table.is_pinned());
    }
}
