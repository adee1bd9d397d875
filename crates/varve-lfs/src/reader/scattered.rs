//! Runs of blocks that do not follow each other, as of a file that was
//! overwritten at random: read side by side where the device gains from it.

use super::Reader;
use super::source::{RUN_BYTES, ReadCause};
use crate::format::{Pointer, SECTOR};
use std::ops::Range;

/// Fewer runs are read one by one.
const LEAST: usize = 4;
/// What lies between two runs is read along if it is not more than this: what a
/// device could read in the time that one more request beside others costs.
const GAP_BYTES: u64 = 32 << 10;

/// What one request reads.
struct Span {
    sectors: Range<u64>,
    bytes: Vec<u8>,
}

impl Reader {
    /// The bytes of runs that are neither on their way to the device nor in
    /// memory as part of a window; none of the others.
    pub(super) fn fetch_scattered(
        &self,
        cause: ReadCause,
        runs: &[&[(u64, Pointer)]],
    ) -> Vec<Option<Vec<u8>>> {
        let mut fetched = vec![None; runs.len()];
        if runs.len() < LEAST {
            return fetched;
        }
        let mut wanted: Vec<(Range<u64>, usize)> = (0..)
            .zip(runs)
            .filter_map(|(nth, run)| Some((self.to_fetch(run)?, nth)))
            .collect();
        wanted.sort_unstable_by_key(|(sectors, nth)| (sectors.start, *nth));
        let mut spans = spans(wanted.iter().map(|(sectors, _)| sectors));
        let mut reads: Vec<(u64, &mut [u8])> = spans
            .iter_mut()
            .map(|span| (span.sectors.start, &mut span.bytes[..]))
            .collect();
        // If it fails, whoever reads one by one learns what is wrong with which.
        if reads.len() < LEAST || self.source.read_many(cause, &mut reads).is_err() {
            return fetched;
        }
        let mut spans = spans.iter().peekable();
        for (sectors, nth) in wanted {
            while spans
                .next_if(|span| span.sectors.end <= sectors.start)
                .is_some()
            {}
            let Some(span) = spans.peek() else { break };
            let from = ((sectors.start - span.sectors.start) * SECTOR) as usize;
            let length = ((sectors.end - sectors.start) * SECTOR) as usize;
            fetched[nth] = span.bytes.get(from..from + length).map(<[u8]>::to_vec);
        }
        fetched
    }

    /// The sectors of a run, unless they are to be had otherwise.
    fn to_fetch(&self, run: &[(u64, Pointer)]) -> Option<Range<u64>> {
        let ((_, first), (_, last)) = (run.first()?, run.last()?);
        let sectors = first.sector()..last.end_sector();
        let step = self.source.align / SECTOR;
        let stored = !first.is_unwritten() && self.in_bounds(first);
        let aligned = sectors.start.is_multiple_of(step) && sectors.end.is_multiple_of(step);
        let elsewhere = |length| {
            self.durability.overlaps(sectors.start, length) || self.windows.overlap(&sectors)
        };
        let fetch = stored && aligned && !elsewhere(sectors.end - sectors.start);
        fetch.then_some(sectors)
    }
}

/// Requests for these sectors, which ascend.
fn spans<'s>(wanted: impl Iterator<Item = &'s Range<u64>>) -> Vec<Span> {
    let mut merged: Vec<Range<u64>> = Vec::new();
    for sectors in wanted {
        match merged.last_mut() {
            Some(last)
                if sectors.start <= last.end + GAP_BYTES / SECTOR
                    && sectors.end.max(last.end) - last.start <= RUN_BYTES / SECTOR =>
            {
                last.end = last.end.max(sectors.end);
            }
            _ => merged.push(sectors.clone()),
        }
    }
    let span = |sectors: Range<u64>| Span {
        bytes: vec![0; ((sectors.end - sectors.start) * SECTOR) as usize],
        sectors,
    };
    merged.into_iter().map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_read_together_and_others_alone() {
        let gap = GAP_BYTES / SECTOR;
        let wanted = [
            0..8,
            8 + gap..16 + gap,
            17 + 2 * gap..25 + 2 * gap,
            17 + 2 * gap..25 + 2 * gap,
            1 << 20..(1 << 20) + RUN_BYTES / SECTOR,
            (1 << 20) + RUN_BYTES / SECTOR..(1 << 20) + RUN_BYTES / SECTOR + 8,
        ];
        let spans: Vec<Range<u64>> = spans(wanted.iter())
            .into_iter()
            .map(|s| s.sectors)
            .collect();
        let want = [
            0..16 + gap,
            17 + 2 * gap..25 + 2 * gap,
            wanted[4].clone(),
            wanted[5].clone(),
        ];
        assert_eq!(spans, want);
    }
}
