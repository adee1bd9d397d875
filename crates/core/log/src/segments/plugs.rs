//! Segments whose holes are written into (`docs/design/holes.md`).

use super::hold::PREPARED;
use super::{Edition, Holes, SegmentState, SegmentTable};
use crate::format::ifile::NOT_EMPTY;
use std::ops::Range;
use std::sync::Arc;
use varve_fs::planted::{self, Planted};

/// The place of a map, and the bytes of the segment's own summaries.
#[derive(Clone, Debug)]
pub struct Mapped {
    /// Serial of the partial that wrote it.
    pub serial: u64,
    /// Byte offset of each page in the segment.
    pub pages: Vec<u32>,
    /// Bytes of the segment that its summaries take.
    pub summaries: Vec<Range<u32>>,
}

impl SegmentTable {
    /// True if holes of the segment, found when it was this edition, may be written into
    /// (rules P1, P2, P6).
    pub fn may_plug(&self, segment: u32, edition: Edition) -> bool {
        if self.is_pinned() || self.has_spilled(segment) {
            return false;
        }
        let entry = self.get(segment);
        let unclaimed = entry.vacated.is_none() && entry.cleaned.is_none();
        let chained = planted::is(Planted::HolesInChain)
            && entry.state == SegmentState::Used
            && entry.data_only;
        (self.may_vacate(segment) || chained) && unclaimed && entry.edition() == edition
    }

    /// Notes that partial `serial` writes into holes of the segment.
    pub fn plugged(&mut self, segment: u32, serial: u64) {
        self.clean.remove(&segment);
        let entry = self.get_mut(segment);
        (entry.plugged, entry.last_serial) = (true, entry.last_serial.max(serial));
        (entry.vacated, entry.cleaned) = (None, None);
        entry.empty_since = NOT_EMPTY;
        if matches!(entry.state, SegmentState::Clean | SegmentState::Leaving) {
            entry.state = SegmentState::Used;
        }
    }

    /// As [`SegmentTable::plugged`], by this mount, and with a map. A pinned image is
    /// unpinned if it may refer to the overwritten blocks.
    pub fn plug(&mut self, holes: &Holes, pages: Vec<u32>, serial: u64) {
        self.plugged(holes.segment, serial);
        let mapped = Mapped {
            serial,
            pages,
            summaries: holes.summaries.clone(),
        };
        self.get_mut(holes.segment).mapped = Some(Arc::new(mapped));
        self.overtaken(holes.displaced.unwrap_or(0));
        let folded = holes.displaced.is_none_or(|serial| serial <= self.folded);
        if let Some(held) = self.held.filter(|held| *held != PREPARED)
            && !(folded && holes.image <= held && held == self.installed)
        {
            self.held = None;
        }
    }

    /// Drops the map of the segment that this mount has written last.
    pub fn unmapped(&mut self, segment: u32) {
        self.get_mut(segment).mapped = None;
    }

    /// Segments that may be plugged now, and the live bytes of each at the newest
    /// checkpoint.
    pub fn pluggable(&self) -> Vec<(u32, u32)> {
        self.iter()
            .filter(|(number, entry)| self.may_plug(*number, entry.edition()))
            .map(|(number, entry)| (number, entry.live_bytes))
            .collect()
    }
}
