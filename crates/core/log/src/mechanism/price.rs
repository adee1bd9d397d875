//! The cost of reading a segment, whole or in parts.
//!
//! The summaries alone describe the contents of a segment. If little of a segment is
//! live, they are read by themselves and then the live data, each run of neighbours in
//! one request; otherwise the segment is read whole. *Cheaper* means: every request
//! counts as much as reading [`REQUEST_BYTES`], whole segments as one (although slow
//! devices are read in portions). The number of runs of live data is known only after the
//! summaries are read, so it is estimated from earlier segments.

use crate::control::contents::BlockInfo;
use crate::control::spread::REQUEST_BYTES;
use crate::format::SECTOR;
use crate::mechanism::Mechanism;
use std::sync::atomic::Ordering::Relaxed;

/// Dead bytes between two live blocks that are read along.
const GAP_BYTES: u64 = REQUEST_BYTES;
/// Most bytes of one such request.
const RUN_BYTES: u64 = 1 << 20;

/// The bytes that are read for some blocks, as `(from, to)` on the device, in whole
/// sectors. No run is longer than `most`, unless a block is, nor than [`RUN_BYTES`].
pub(super) fn runs_of<'c>(
    blocks: impl Iterator<Item = &'c BlockInfo>,
    most: u64,
) -> Vec<(u64, u64)> {
    let most = most.min(RUN_BYTES);
    let mut ranges: Vec<(u64, u64)> = blocks
        .map(|info| (info.byte, info.byte + u64::from(info.length)))
        .map(|(from, to)| (from - from % SECTOR, to.next_multiple_of(SECTOR)))
        .collect();
    ranges.sort_unstable();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (from, to) in ranges {
        match runs.last_mut() {
            Some(last) if from <= last.1 + GAP_BYTES && to - last.0 <= most => {
                last.1 = last.1.max(to);
            }
            _ => runs.push((from, to)),
        }
    }
    runs
}

impl Mechanism {
    /// True if the live bytes and summaries of a segment are no cheaper to read by
    /// themselves than all of it.
    pub(super) fn is_read_whole(&self, live_bytes: u64, summaries: u64) -> bool {
        let geometry = &self.geometry;
        let summary_price = REQUEST_BYTES + u64::from(geometry.write_unit);
        let price = self.control.spread.price(live_bytes) + summaries * summary_price;
        price >= u64::from(geometry.segment_bytes) + REQUEST_BYTES
    }

    /// Average number of partial segments in a segment since the mount: reading the
    /// summary of each costs a request.
    pub(super) fn usual_partials(&self) -> u64 {
        let partials = self.counters.partials.load(Relaxed);
        partials / self.counters.segments_opened.load(Relaxed).max(1)
    }
}
