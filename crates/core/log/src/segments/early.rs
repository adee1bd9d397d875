//! Segments that become clean ahead of checkpoints (`docs/design/reuse.md`).

use super::{Segment, SegmentState, SegmentTable};
use varve_fs::planted::{self, Planted};

/// The positions from which recovery may roll forward, by serial.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Records {
    /// Position of the newest record. `None` if the log after it has a gap.
    pub(super) newest: Option<u64>,
    /// Position of the one before. `None` if it is unknown, or has a gap likewise.
    pub(super) older: Option<u64>,
}

impl Records {
    /// True if replay from neither record reaches the segment.
    fn lie_behind(&self, segment: &Segment) -> bool {
        let older = self.older.filter(|_| self.newest.is_some());
        older
            .is_some_and(|older| segment.last_serial <= older || planted::is(Planted::ReuseInChain))
    }

    /// True if neither record needs anything in a segment without live data.
    pub(super) fn spare(&self, segment: &Segment) -> bool {
        let recorded = segment.data_only_recorded || planted::is(Planted::ReuseInChain);
        let data_only = segment.data_only && recorded;
        (data_only || planted::is(Planted::ReuseMetadata)) && self.lie_behind(segment)
    }
}

impl SegmentTable {
    /// Notes that an image of a checkpoint has, or will have, metadata in the segment.
    pub fn takes_metadata(&mut self, segment: u32) {
        self.get_mut(segment).data_only = false;
    }

    /// True if the segment may be vacated once it has no live data.
    pub fn may_vacate(&self, segment: u32) -> bool {
        let spilled = self.has_spilled(segment);
        let segment = self.get(segment);
        segment.state == SegmentState::Used
            && !segment.suspect
            && !spilled
            && self.records.spare(segment)
    }

    /// True if the log of both records has passed the segment: it may be vacated, or
    /// could be except for its metadata, which the next checkpoints remove.
    pub fn is_behind(&self, segment: u32) -> bool {
        self.records.lie_behind(self.get(segment))
    }

    /// Notes that by the log up to `serial` a used segment has no live data. If neither
    /// record needs its contents, it is clean once that is durable.
    pub fn vacate(&mut self, segment: u32, serial: u64) {
        if self.may_vacate(segment) && self.get_mut(segment).vacated.replace(serial).is_none() {
            self.vacated.push(segment);
        }
    }

    /// Makes vacated segments clean whose log is durable up to `durable`. Returns those
    /// that became clean, or with `hold` will when they are released.
    pub fn settle(&mut self, durable: u64, hold: bool) -> Vec<u32> {
        if self.held.is_some() {
            return Vec::new();
        }
        let (mut freed, mut overtaken) = (Vec::new(), self.overtaken);
        let segments = &mut self.segments;
        self.vacated.retain(|&number| {
            let entry = &mut segments[number as usize];
            let Some(serial) = entry.vacated else {
                return false; // it has been opened or plugged since
            };
            if serial <= durable {
                entry.vacated = None;
                if entry.live_bytes > 0 {
                    overtaken = overtaken.max(serial);
                }
                freed.push(number);
            }
            serial > durable
        });
        self.overtaken = overtaken;
        freed.retain(|&number| self.get(number).state == SegmentState::Used);
        for &number in &freed {
            // The next table that finds it empty sets the real value.
            self.get_mut(number).empty_since = 0;
        }
        self.leave_for_good(&freed, hold);
        freed
    }

    /// Number of segments that have been vacated and are not clean yet.
    pub fn vacated_count(&self) -> u64 {
        self.vacated.len() as u64
    }

    /// True if there are vacated segments that could become clean.
    pub fn has_vacated(&self) -> bool {
        !self.vacated.is_empty() && self.held.is_none()
    }

    /// Notes that a partial was given up: recovery cannot pass it, and from the present
    /// records it does not reach the log after it.
    pub fn log_is_cut(&mut self) {
        self.records = Records::default();
        for number in std::mem::take(&mut self.vacated) {
            self.get_mut(number).vacated = None;
        }
    }

    /// Segments in which replay may have left no live data, and which could be vacated
    /// then: those from which moves were made, or all.
    pub fn to_look_at(&self, all: bool) -> Vec<u32> {
        let which: Vec<u32> = match all {
            true => self.iter().map(|(number, _)| number).collect(),
            false => self.moved_from.iter().copied().collect(),
        };
        let may = |number: &u32| self.may_vacate(*number) && self.get(*number).cleaned.is_none();
        which.into_iter().filter(may).collect()
    }
}
