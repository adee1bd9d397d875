//! Growing a mounted volume (`docs/design/resize.md`, "Growing a mounted volume").
//!
//! Device and superblocks are first, as offline; then the tables in memory, while no
//! thread cleans, moves, verifies or takes a checkpoint. The new segments are released
//! last: a thread with a pointer to one got it under a lock that was released after the
//! new geometry had been set.

use super::{commit, plan};
use crate::error::{Error, Result};
use crate::format::Superblock;
use crate::geometry::Geometry;
use crate::lfs::Lfs;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::Operation;

/// The size of a mount after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grown {
    /// Bytes of the volume before.
    pub before: u64,
    /// Bytes of the volume now.
    pub bytes: u64,
    /// Segments of the volume now.
    pub segments: u32,
    /// Bytes of the device.
    pub device_bytes: u64,
}

impl Lfs {
    /// Grows the volume to `bytes`, or a few less; by default to the whole device. An
    /// image file is lengthened if necessary. Reads, writes and syncs continue meanwhile.
    ///
    /// # Errors
    /// `Unfit` for an impossible size, or if the volume is being verified or takes no
    /// writes; device errors, after which it continues with its old size, unless a flush
    /// failed.
    pub fn grow(&self, bytes: Option<u64>) -> Result<Grown> {
        let Some(_verifying) = self.begin_verification() else {
            let problem = "the volume is being verified: wait for that, or end it with varve scrub \
                           --cancel";
            return Err(Error::Unfit(problem.into()));
        };
        let mut cleaning = self.cleaner.lock_cleaning();
        let _moving = self.cleaner.moving();
        let mut schedule = self.checkpoints.schedule();
        if let Some(reason) = self.stopped() {
            return Err(Error::Unfit(reason));
        }
        let before = **self.superblock;
        let size = self.device.set_size(None)?;
        let planned = plan::plan(&before, bytes.unwrap_or(size))?;
        let grown = |superblock: &Superblock| Grown {
            before: before.device_bytes.get(),
            bytes: superblock.device_bytes.get(),
            segments: superblock.segment_count.get(),
            device_bytes: self.device.geometry().size,
        };
        if planned.device_bytes == before.device_bytes {
            return Ok(grown(&before));
        }
        if planned.device_bytes.get() < before.device_bytes.get() {
            let problem = "a mounted volume grows and does not shrink: unmount it first";
            return Err(Error::Unfit(problem.into()));
        }
        if !self.geometry.has_room() {
            let problem = "it has grown as often as a mount can: unmount it first";
            return Err(Error::Unfit(problem.into()));
        }
        if planned.device_bytes.get() > size {
            self.device.set_size(Some(planned.device_bytes.get()))?;
        }
        // Logged changes were counted with the old geometry.
        match self.checkpoints.checkpoint_now(&mut schedule) {
            Ok(()) | Err(Error::OutOfSegments) => {}
            Err(error) => return Err(error),
        }
        let superblock = self.write_grown(&before, &planned)?;
        self.take_in(&superblock);
        // Callers that were refused ask again.
        cleaning.refused = None;
        (cleaning.fruitless_at, cleaning.rested_at) = (None, None);
        tracing::info!(
            segments = superblock.segment_count.get(),
            "the volume has grown"
        );
        Ok(grown(&superblock))
    }

    fn write_grown(&self, before: &Superblock, planned: &Superblock) -> Result<Superblock> {
        let written = commit(&*self.device, before, planned);
        match &written {
            Ok(superblock) => {
                let bytes = super::copy_bytes(superblock);
                self.counters.record_bytes.fetch_add(bytes, Relaxed);
                self.counters.bytes_written.fetch_add(bytes, Relaxed);
                self.counters.flushes.fetch_add(2, Relaxed);
            }
            // Earlier writes of the log may be lost, too.
            Err(Error::Device(error)) if error.operation == Operation::Flush => {
                self.durability.stop(format!("a flush failed: {error}"));
            }
            Err(_) => {}
        }
        written
    }

    /// Applies the new size to the tables in memory.
    fn take_in(&self, superblock: &Superblock) {
        let count = superblock.segment_count.get();
        let new = self.segments.lock().lengthen(count);
        {
            let _log = self.log.lock();
            let mut committed = self.layers.change();
            // Nodes may take a few bytes more than was counted for them.
            committed.live.guessed = true;
            self.superblock.put(*superblock);
            self.reader.grow(Geometry::from(superblock));
        }
        self.segments.lock().release(&new);
        self.control.tell_gain();
    }
}
