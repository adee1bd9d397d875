//! An image that somebody reads: what it needs is not opened meanwhile.

use super::{Segment, SegmentState, SegmentTable};

/// Instead of a checkpoint that is held: the next one is going to be.
pub(super) const PREPARED: u64 = u64::MAX;

impl SegmentTable {
    /// What has been vacated is kept from now on: the image of the next
    /// checkpoint is going to be held.
    pub fn prepare_hold(&mut self) {
        self.held.get_or_insert(PREPARED);
    }

    /// From now on segments that the image of checkpoint `serial`, the newest,
    /// uses are not opened; unless some have been already, ahead of it.
    pub fn hold(&mut self, serial: u64) {
        self.held = (self.overtaken <= self.folded).then_some(serial);
    }

    /// Blocks that the log up to `serial` has displaced may have been written
    /// over.
    pub fn overtaken(&mut self, serial: u64) {
        self.overtaken = self.overtaken.max(serial);
    }

    /// True if that has been so all the time.
    pub fn holds(&self, serial: u64) -> bool {
        self.held == Some(serial)
    }

    /// Nobody reads that image any more. What was kept for it becomes clean
    /// with the next checkpoint.
    pub fn let_go(&mut self, serial: u64) {
        if self.holds(serial) {
            self.held = None;
        }
    }

    /// As [`SegmentTable::let_go`], if segments are kept that could be opened:
    /// room goes before reading.
    pub fn let_go_of_withheld(&mut self) {
        let Some(held) = self.held else { return };
        // Empty since then: clean now or with the next checkpoint, but for us.
        let withheld = |segment: &Segment| {
            segment.state == SegmentState::Used
                && segment.empty_since > held
                && segment.empty_since <= self.installed
        };
        if !self.vacated.is_empty() || self.segments.iter().any(withheld) {
            self.held = None;
        }
    }
}
