//! Telling the device, when asked, which segments are clean.
//!
//! A clean segment may be written over at any moment, so nothing refers to it,
//! neither the tree nor a retained checkpoint record nor the log behind one. It
//! is withheld from the log while the device is told. That could leave the log
//! without a segment to go on in, so as many as the volume's reserve has stay.

use crate::error::Result;
use crate::lfs::Lfs;
use std::ops::Range;

/// The part of `piece` that lies in `range`, as far as whole blocks of
/// `block_bytes` do.
pub(crate) fn part_in(piece: &Range<u64>, range: &Range<u64>, block_bytes: u64) -> Range<u64> {
    let start = piece.start.max(range.start).next_multiple_of(block_bytes);
    let end = piece.end.min(range.end) / block_bytes * block_bytes;
    start..end.max(start)
}

/// # Errors
/// `Invalid` unless a range that begins at `start` can hold any of a volume of
/// so many bytes.
pub(crate) fn must_begin_within(start: u64, volume_bytes: u64) -> varve_fs::Result<()> {
    let problem = "the range begins behind the volume's end";
    match start < volume_bytes {
        true => Ok(()),
        false => Err(varve_fs::Error::Invalid(problem)),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_blocks_of_both() {
        assert_eq!(part_in(&(4096..8192), &(0..u64::MAX), 512), 4096..8192);
        assert_eq!(part_in(&(4096..8192), &(4097..8191), 512), 4608..7680);
        assert!(part_in(&(4096..8192), &(0..4096), 512).is_empty());
        assert!(part_in(&(4096..8192), &(8192..u64::MAX), 512).is_empty());
        assert!(part_in(&(4096..8192), &(5000..5001), 4096).is_empty());
    }
}
