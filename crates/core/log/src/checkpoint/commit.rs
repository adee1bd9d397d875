//! Making durable what has been appended.

use crate::checkpoint::Checkpoints;
use crate::error::{Error, Result};
use crate::relocate::ROUNDS;
use std::sync::atomic::Ordering::Relaxed;

impl Checkpoints {
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
        Err(self.relocation.give_in())
    }

    /// Has everything appended so far on the device.
    pub(crate) fn commit_all(&self) -> Result<()> {
        let serial = self.log.lock().end.serial();
        let flushed = self.durability.commit_past_holes(serial, &*self.device)?;
        self.counters.flushes.fetch_add(flushed.into(), Relaxed);
        Ok(())
    }

    /// A flush of its own, in line with those of commits.
    pub(crate) fn barrier(&self) -> Result<()> {
        self.durability.barrier(&*self.device)?;
        self.counters.flushes.fetch_add(1, Relaxed);
        Ok(())
    }
}
