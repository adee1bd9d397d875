//! A write that failed for good is retried elsewhere in the log.
//!
//! The partial's place follows from its predecessor alone (protocol rule 8),
//! so the partial itself cannot go elsewhere. What lives in it can: the log
//! leaves the segment, everything live in that is moved as the cleaner moves
//! it, and a checkpoint lets recovery start behind the hole. Until then
//! nothing behind the hole counts as durable ([`crate::durability`]).

use crate::error::{Error, Result};
use crate::format::SECTOR;
use crate::lfs::Lfs;
use std::sync::atomic::Ordering::Relaxed;

/// Times that moving what failed may fail itself before the volume stops.
const ROUNDS: u32 = 16;

impl Lfs {
    /// Makes everything up to `serial` durable, around holes if need be.
    pub(crate) fn commit_through(&self, serial: u64) -> Result<()> {
        for _ in 0..ROUNDS {
            match self.durability.commit(serial, &*self.device) {
                Ok(flushed) => {
                    self.counters.flushes.fetch_add(flushed.into(), Relaxed);
                    return Ok(());
                }
                Err(Error::Unwritten(_)) => self.take_checkpoint(false)?,
                Err(error) => return Err(error),
            }
        }
        Err(self.give_in())
    }

    /// Moves what lives in segments where a write has failed. The caller is
    /// about to take a checkpoint.
    ///
    /// # Errors
    /// If writes keep failing; the volume takes no more of them.
    pub(crate) fn relocate_failed(&self) -> Result<()> {
        for _ in 0..ROUNDS {
            let failed = self.durability.failed_partials();
            let Some(first) = failed.first() else {
                return Ok(());
            };
            let segment = self
                .geometry
                .segment_of(first.sector)
                .expect("the log writes into segments");
            self.leave_segment(segment);
            let start = self.geometry.byte(segment, 0) / SECTOR;
            let sectors = start..start + u64::from(self.geometry.segment_bytes) / SECTOR;
            self.durability.settle(sectors.clone());
            let failed = self.durability.failed_partials();
            self.move_live(segment)?;
            for partial in failed.iter().filter(|p| sectors.contains(&p.sector)) {
                self.segments.lock().log_is_cut();
                self.durability.give_up(partial.serial);
                self.counters.relocated_partials.fetch_add(1, Relaxed);
            }
            tracing::warn!(
                segment,
                "what could not be written there is written elsewhere"
            );
        }
        if self.durability.failed_partials().is_empty() {
            return Ok(());
        }
        Err(self.give_in())
    }

    /// Copies everything live in `segment`, of which failed partials are in
    /// memory only.
    fn move_live(&self, segment: u32) -> Result<()> {
        for _ in 0..ROUNDS {
            let contents = self.read_segment(segment)?;
            let found = self.bmapv(&contents)?;
            if self.markv(found)?.is_some() {
                return Ok(());
            }
        }
        Err(self.give_in())
    }

    /// The log goes on in another segment.
    fn leave_segment(&self, segment: u32) {
        self.log.lock().end.leave(segment, &self.geometry);
    }

    pub(crate) fn give_in(&self) -> Error {
        let reason = format!(
            "writes to the log keep failing: {}",
            self.durability.failure()
        );
        self.durability.stop(reason.clone());
        Error::Stopped(reason)
    }
}
