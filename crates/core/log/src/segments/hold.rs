//! An image that is being read: the segments that it needs are not opened meanwhile.

use super::{Segment, SegmentState, SegmentTable};

/// Number that represents the next checkpoint, whose image will be pinned.
pub(super) const PREPARED: u64 = u64::MAX;

impl SegmentTable {
    /// Keeps vacated segments from now on, because the image of the next checkpoint will
    /// be pinned.
    pub fn prepare_hold(&mut self) {
        self.held.get_or_insert(PREPARED);
    }

    /// Pins the image of checkpoint `serial`, the newest: its segments are not opened. It
    /// is not pinned if some were opened already, ahead of it.
    pub fn hold(&mut self, serial: u64) {
        self.held = (self.overtaken <= self.folded).then_some(serial);
    }

    /// Notes that blocks displaced by the log up to `serial` may have been overwritten.
    pub fn overtaken(&mut self, serial: u64) {
        self.overtaken = self.overtaken.max(serial);
    }

    /// True if the image has been pinned without interruption.
    pub fn holds(&self, serial: u64) -> bool {
        self.held == Some(serial)
    }

    /// Unpins the image. Segments kept for it become clean with the next checkpoint.
    pub fn let_go(&mut self, serial: u64) {
        if self.holds(serial) {
            self.held = None;
        }
    }

    /// As [`SegmentTable::let_go`], if segments are kept that could be opened: space has
    /// priority over the reader.
    pub fn let_go_of_withheld(&mut self) {
        let Some(held) = self.held else { return };
        // Empty since then: clean now or with the next checkpoint, except for the pin.
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
