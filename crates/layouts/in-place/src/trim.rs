//! Discards of free space, on request.
//!
//! Space that is free in the policy's map is unused in every state that a crash can
//! leave (rules J4 and J5). Appends wait while a run is discarded, because space
//! withheld meanwhile might have been promised; a long run is discarded in parts.

use crate::Ffs;
use crate::allocate::{Extent, push};
use crate::error::Result;
use std::ops::Range;
use varve_format::SECTOR;
use varve_format::range::part_in;

/// Number of bytes discarded at once.
const PART_BYTES: u64 = 64 << 20;

impl Ffs {
    /// Discards free space as [`varve_fs::Layout::trim`] says.
    pub(crate) fn trim_free(&self, range: &Range<u64>, bytes_min: u64) -> Result<u64> {
        let geometry = &self.store.geometry;
        let fragment_bytes = u64::from(geometry.fragment_bytes);
        let byte = |fragment: u64| geometry.fragment_sector(fragment) * SECTOR;
        let runs = {
            let mut writer = self.writer.lock();
            writer.room.close_windows();
            writer.room.free_runs()
        };
        let mut joined = Vec::with_capacity(runs.len());
        // Some runs are separate for the policy although they are adjacent, such as
        // buddies.
        runs.into_iter().for_each(|run| push(&mut joined, 0, run));
        let mut told = 0;
        for run in joined {
            let part = part_in(&(byte(run.start)..byte(run.end())), range, fragment_bytes);
            if part.end - part.start < bytes_min.max(1) {
                continue;
            }
            let mut start = part.start;
            while start < part.end {
                let end = part.end.min(start + PART_BYTES);
                let fragment = |byte: u64| geometry.fragment_of(byte / SECTOR);
                if self.tell((fragment(start)..fragment(end)).into())? {
                    told += end - start;
                }
                start = end;
            }
        }
        Ok(told)
    }

    /// Discards these fragments, if they are still free. Returns true if they were.
    fn tell(&self, extent: Extent) -> Result<bool> {
        self.writable()?;
        let geometry = &self.store.geometry;
        let writer = self.writer.lock();
        if !writer.room.is_free(extent) {
            return Ok(false);
        }
        let offset = geometry.fragment_sector(extent.start) * SECTOR;
        let length = extent.units * u64::from(geometry.fragment_bytes);
        self.store.device.discard(offset, length)?;
        Ok(true)
    }
}
