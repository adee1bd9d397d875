//! Judging a segment as a whole: its edition and its live data.

use super::calls::Found;
use crate::committed::Committed;
use crate::error::Result;
use crate::mechanism::Mechanism;
use crate::segments::{Edition, SegmentState};

impl Mechanism {
    /// Finds the live data of a segment, and its incarnation. `None` if it must not be
    /// touched: it has damage, or the log has returned to it.
    pub(crate) fn judge(
        &self,
        segment: u32,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<(Edition, Found)>> {
        // Both of one moment: a candidate list may describe an earlier opening of the
        // segment.
        let Some((edition, live_bytes)) = self.settled(segment) else {
            return Ok(None);
        };
        if live_bytes == 0 {
            // There is nothing to move: checkpoints will find it empty, or log an error.
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

    /// Edition and upper bound of the live bytes of a used segment that has been written
    /// completely and can be judged.
    pub(crate) fn settled(&self, segment: u32) -> Option<(Edition, u64)> {
        let log = self.log.lock();
        let landed = self.durability.oldest_in_flight().unwrap_or(u64::MAX);
        let committed = self.layers.read();
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

    /// Marks a segment suspect in which damage was found when it was this edition: it is
    /// kept.
    pub(crate) fn distrust(&self, segment: u32, edition: Edition) {
        let mut segments = self.segments.lock();
        let entry = segments.get_mut(segment);
        // If it has been rewritten meanwhile, the bytes read are no damage.
        if entry.state == SegmentState::Used && entry.edition() == edition {
            entry.suspect = true;
        }
    }
}

/// Serial of the last partial included in the newest image: blocks written by a running
/// checkpoint look dead until it is complete.
pub(crate) fn judged_through(committed: &Committed) -> u64 {
    committed
        .frozen
        .as_ref()
        .map_or(u64::MAX, |frozen| frozen.boundary)
}
