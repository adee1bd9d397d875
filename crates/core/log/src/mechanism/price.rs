//! What reading a segment costs, whole or in parts.
//!
//! The summaries alone say what was written where. If little of a segment
//! lives, they are read by themselves and then what has proved to live, each
//! run of neighbours in one request; otherwise the segment is read whole.
//! *Cheaper* means: every request counts as much as reading
//! [`REQUEST_BYTES`], whole segments as one (though who is slow reads them in
//! portions). In how many runs what lives stands is known only behind the
//! summaries, so it is reckoned from the segments before.

use crate::control::contents::BlockInfo;
use crate::control::spread::REQUEST_BYTES;
use crate::format::SECTOR;
use crate::lfs::Lfs;
use std::sync::atomic::Ordering::Relaxed;

/// Dead bytes between two live blocks that are read along.
const GAP_BYTES: u64 = REQUEST_BYTES;
/// Most bytes of one such request.
const RUN_BYTES: u64 = 1 << 20;

/// The bytes that are read for some blocks, as `(from, to)` on the device, in
/// whole sectors: none holds more than `most`, unless a block does, and
/// [`RUN_BYTES`].
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

impl Lfs {
    /// True if so many bytes that live in a segment, and so many summaries, are no
    /// cheaper to read than all of it.
    pub(super) fn is_read_whole(&self, live_bytes: u64, summaries: u64) -> bool {
        let geometry = &self.geometry;
        let summary_price = REQUEST_BYTES + u64::from(geometry.write_unit);
        let price = self.control.spread.price(live_bytes) + summaries * summary_price;
        price >= u64::from(geometry.segment_bytes) + REQUEST_BYTES
    }

    /// How many partial segments a segment has had on average since the mount:
    /// each costs a request to read its summary alone.
    pub(super) fn usual_partials(&self) -> u64 {
        let partials = self.counters.partials.load(Relaxed);
        partials / self.counters.segments_opened.load(Relaxed).max(1)
    }
}
