//! Giving segments back: what checkpoints have found empty, and what has been vacated
//! ahead of them (`docs/design/reuse.md`).

use crate::checkpoint::Checkpoints;
use crate::error::{Error, Result};
use std::sync::atomic::Ordering::Relaxed;
use varve_fs::planted::{self, Planted};

impl Checkpoints {
    /// Gives back the segments that have been vacated, having made durable what
    /// says so. After a write that failed for good, a checkpoint must come
    /// first, and does.
    ///
    /// # Errors
    /// As a commit.
    pub fn settle_vacated(&self) -> Result<()> {
        if !self.segments.lock().has_vacated() {
            return Ok(());
        }
        let mut end = self.log.lock().end.serial();
        if planted::is(Planted::ReuseUnsettled) {
            end = 0;
        }
        match self.durability.commit(end, &*self.device) {
            Ok(flushed) => self.counters.flushes.fetch_add(flushed.into(), Relaxed),
            Err(Error::Unwritten(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let durable = match planted::is(Planted::ReuseUnsettled) {
            true => u64::MAX,
            false => self.durability.durable(),
        };
        let mut segments = self.segments.lock();
        let hold = self.options.discard && !segments.is_pinned();
        let freed = segments.settle(durable, hold);
        drop(segments);
        self.counters
            .segments_vacated
            .fetch_add(freed.len() as u64, Relaxed);
        self.gained(&freed, hold);
        Ok(())
    }

    /// Segments have become clean, or with `hold` will when they are released.
    pub(super) fn gained(&self, freed: &[u32], hold: bool) {
        self.counters
            .segments_emptied
            .fetch_add(freed.len() as u64, Relaxed);
        if hold {
            // Before anybody can write there again.
            freed.iter().for_each(|segment| self.discard(*segment));
            self.segments.lock().release(freed);
        }
        if !freed.is_empty() {
            self.control.tell_gain();
        }
    }

    fn discard(&self, segment: u32) {
        // Who is about to read what was there finds nothing, and no damage.
        self.reader.opened(segment, u32::MAX);
        let offset = self
            .geometry
            .byte(segment, self.geometry.payload_start(segment));
        let length = u64::from(self.geometry.payload_bytes(segment));
        if let Err(error) = self.device.discard(offset, length) {
            tracing::warn!(%error, segment, "the device refused a discard");
        }
    }
}
