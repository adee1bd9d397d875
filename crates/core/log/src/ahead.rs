//! Writing segments of an image file before the log comes to them.
//!
//! Where an image is sparse, or reserved and not written, the host allocates or converts
//! blocks at the log's first write to them, and each flush waits for the host's journal. If
//! small groups are made durable one after the other, that is most of what a flush takes.
//! So while they are, a thread fills the holes of the next clean segments with zeros: one
//! journal transaction for many flushes.
//!
//! Rules (`docs/design/reuse.md`):
//! - Only holes are written, and what is written is what they read as: no crash can tell
//!   whether it was done, in whole or in part.
//! - A segment is withheld from the log while that is done, as for a discard (`trim.rs`).
//!   So no hole is filled that the log, the cleaner, a trim or a resize uses meanwhile.
//! - At most [`AHEAD_BYTES`] of segments behind each head's next one are looked at. The
//!   image grows by that at most ahead of the log.
//! - Never on a device that does not fill holes slowly, and never again once it has refused
//!   one of these writes.

use crate::error::Result;
use crate::lfs::Lfs;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::AlignedBuffer;
use varve_format::range::part_in;

/// Bytes of segments that are kept written ahead of a head.
const AHEAD_BYTES: u32 = 8 << 20;
/// Fewest and most segments of these.
const AHEAD_SEGMENTS: (u32, u32) = (2, 16);
/// Bytes of zeros in one request.
const REQUEST_BYTES: usize = 1 << 20;

impl Lfs {
    /// Has `summon` called while small groups are made durable, so that a thread calls
    /// [`Lfs::write_ahead`].
    pub fn on_small_commits(&self, summon: Box<dyn Fn() + Send + Sync>) {
        // A second one would be the same.
        let _ = self.ahead.summon.set(summon);
    }

    /// Fills holes of the segments that the log comes to next, if less than half of them
    /// are written. Answers how many bytes it wrote.
    ///
    /// # Errors
    /// If writing has stopped, or the device does not tell what is a hole.
    pub fn write_ahead(&self) -> Result<u64> {
        if !self.ahead.useful.load(Relaxed) {
            return Ok(0);
        }
        let end = self.log.lock().end;
        let (least, most) = AHEAD_SEGMENTS;
        let wanted = (AHEAD_BYTES / self.geometry.segment_bytes).clamp(least, most) as usize;
        let mut bytes = 0;
        for position in end.positions() {
            let after = position.next_segment.get().wrapping_add(1);
            let mut next = self.segments.lock().upcoming(after, 1 + wanted);
            // The log may come to the first before it is written, and would pass it over.
            next.drain(..next.len().min(1));
            let mut unwritten = Vec::new();
            for segment in next {
                if !self.unwritten_in(segment)?.is_empty() {
                    unwritten.push(segment);
                }
            }
            if 2 * unwritten.len() <= wanted {
                continue;
            }
            for segment in unwritten {
                self.durability.check()?;
                bytes += self.zero_unwritten(segment)?;
            }
        }
        Ok(bytes)
    }

    /// What of a segment's payload is a hole: bytes of the device.
    fn unwritten_in(&self, segment: u32) -> Result<Vec<Range<u64>>> {
        let geometry = &self.geometry;
        let first = geometry.byte(segment, geometry.payload_start(segment));
        let payload = first..first + u64::from(geometry.payload_bytes(segment));
        let block_bytes = u64::from(self.device.geometry().logical_block);
        let whole = part_in(&payload, &payload, block_bytes);
        let (mut at, mut holes) = (whole.start, Vec::new());
        while at < whole.end {
            let extent = self.device.extent(at, whole.end - at)?;
            if extent.hole {
                holes.push(at..at + extent.length);
            }
            at += extent.length;
        }
        Ok(holes)
    }

    /// Writes zeros to the holes of a segment, if it is clean and others are.
    fn zero_unwritten(&self, segment: u32) -> Result<u64> {
        let kept = self.geometry.reserve_segments;
        if !self.segments.lock().withhold(segment, kept) {
            return Ok(0);
        }
        // Looked at again: the log may have been there since.
        let holes = self.unwritten_in(segment);
        let written = holes.map(|holes| holes.into_iter().map(|hole| self.zero_out(hole)).sum());
        self.segments.lock().release(&[segment]);
        written
    }

    /// Writes zeros to a hole. Answers how many bytes were written: once the device has
    /// refused one, no others are.
    fn zero_out(&self, hole: Range<u64>) -> u64 {
        let length = (hole.end - hole.start).min(REQUEST_BYTES as u64);
        let zeros = AlignedBuffer::zeroed(length as usize);
        let mut at = hole.start;
        while at < hole.end && self.ahead.useful.load(Relaxed) {
            let step = (hole.end - at).min(length);
            let buffers = [IoSlice::new(&zeros[..step as usize])];
            let counters = &self.counters;
            counters.device_writes.fetch_add(1, Relaxed);
            if let Err(error) = counters.moving(step, || self.device.write(at, &buffers)) {
                tracing::warn!(%error, "segments are no longer written ahead of the log");
                self.ahead.useful.store(false, Relaxed);
                break;
            }
            counters.bytes_written.fetch_add(step, Relaxed);
            counters.ahead_bytes.fetch_add(step, Relaxed);
            at += step;
        }
        at - hole.start
    }
}
