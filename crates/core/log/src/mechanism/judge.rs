//! Judging a segment as a whole: what it is, and what lives in it.

use super::calls::Found;
use crate::committed::Committed;
use crate::error::Result;
use crate::lfs::Lfs;
use crate::segments::{Edition, SegmentState};

impl Lfs {
    /// Finds what lives in a segment, and its incarnation. `None` if it is to
    /// be left alone: something in it is damaged, or the log has come back to
    /// it.
    pub(crate) fn judge(
        &self,
        segment: u32,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<(Edition, Found)>> {
        // Both of one moment: what a list of candidates said of an opening that
        // is over says nothing of this one.
        let Some((edition, live_bytes)) = self.settled(segment) else {
            return Ok(None);
        };
        if live_bytes == 0 {
            // Nothing to move: checkpoints will find it empty, or complain.
            return Ok(Some((edition, Found::default())));
        }
        let judged = self
            .understood(segment, edition, live_bytes)
            .and_then(|contents| {
                let all: Vec<usize> = (0..contents.blocks.len()).collect();
                self.bmapv_some(&contents, &all, go_on)
            });
        match judged {
            Ok(found) if found.damaged == 0 => Ok(Some((edition, found))),
            Ok(_) => {
                self.distrust(segment, edition);
                Ok(None)
            }
            Err(error) if !error.is_of_the_medium() => Err(error),
            Err(error) => {
                tracing::error!(%error, segment, "the cleaner leaves a segment alone");
                self.distrust(segment, edition);
                Ok(None)
            }
        }
    }

    /// What a used segment is, all of which has reached the device and can be
    /// judged, and the most bytes that live in it.
    pub(crate) fn settled(&self, segment: u32) -> Option<(Edition, u64)> {
        let log = self.log.lock();
        let landed = self.durability.oldest_in_flight().unwrap_or(u64::MAX);
        let committed = self.committed.read();
        let known = judged_through(&committed);
        let segments = self.segments.lock();
        let entry = segments.get(segment);
        let settled = entry.state == SegmentState::Used
            && entry.last_serial < landed
            && entry.last_serial <= known
            && !log.end.stands_in(segment);
        let live_bytes = i64::from(entry.live_bytes) + committed.added(segment);
        settled.then_some((entry.edition(), live_bytes.max(0) as u64))
    }

    /// Something in a segment was damaged when it was read as this edition: it
    /// is kept.
    pub(crate) fn distrust(&self, segment: u32, edition: Edition) {
        let mut segments = self.segments.lock();
        let entry = segments.get_mut(segment);
        // If it has been written anew meanwhile, what was read is no damage.
        if entry.state == SegmentState::Used && entry.edition() == edition {
            entry.suspect = true;
        }
    }
}

/// Serial of the last partial of which the newest image tells: what a running
/// checkpoint writes looks dead until it is complete.
pub(crate) fn judged_through(committed: &Committed) -> u64 {
    committed
        .frozen
        .as_ref()
        .map_or(u64::MAX, |frozen| frozen.boundary)
}
