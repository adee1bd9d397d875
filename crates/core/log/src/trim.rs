//! Telling the device, when asked, which segments are clean.
//!
//! A clean segment may be written over at any moment, so nothing refers to it,
//! neither the tree nor a retained checkpoint record nor the log behind one. It
//! is withheld from the log while the device is told. That could leave the log
//! without a segment to go on in, so as many as the volume's reserve has stay.

use crate::error::Result;
use crate::lfs::Lfs;
use std::ops::Range;
use varve_format::range::part_in;

impl Lfs {
    /// See [`varve_fs::Layout::trim`].
    pub(crate) fn trim_clean(&self, range: Range<u64>, bytes_min: u64) -> Result<u64> {
        let geometry = &self.geometry;
        let block_bytes = u64::from(self.device.geometry().logical_block);
        let mut bytes = 0;
        for segment in 0..geometry.segment_count {
            self.durability.check()?;
            let first = geometry.byte(segment, geometry.payload_start(segment));
            let payload = first..first + u64::from(geometry.payload_bytes(segment));
            let part = part_in(&payload, &range, block_bytes);
            let length = part.end - part.start;
            if length == 0 || length < bytes_min {
                continue;
            }
            if !self
                .segments
                .lock()
                .withhold(segment, geometry.reserve_segments)
            {
                continue;
            }
            // Who is about to read what was there finds nothing, and no damage.
            self.reader.opened(segment, u32::MAX);
            let told = self.device.discard(part.start, length);
            self.segments.lock().release(&[segment]);
            told?;
            bytes += length;
        }
        Ok(bytes)
    }
}
