//! Runs of blocks that are not adjacent, as of a file that was overwritten at random:
//! read in parallel where the device gains from it.

use super::Reader;
use super::source::{RUN_BYTES, ReadCause};
use crate::format::{Pointer, SECTOR};
use std::ops::Range;
use varve_device::Block;

/// Number of runs below which they are read one by one.
const LEAST: usize = 4;
/// Largest gap between two runs that is read along: as much as a device could read in the
/// time that one more parallel request costs.
const GAP_BYTES: u64 = 32 << 10;

/// Most bytes that are read at once, gaps included, except for a single request.
const BATCH_BYTES: u64 = 4 << 20;

impl Reader {
    /// The bytes of those runs that are neither being written nor in a window. It has
    /// none of the other runs, nor of those where reading failed: the caller reads these
    /// one by one, and so finds the failing one.
    pub(super) fn fetch_scattered(
        &self,
        cause: ReadCause,
        runs: &[&[(u64, Pointer)]],
    ) -> Vec<Option<Block>> {
        let mut fetched = vec![None; runs.len()];
        if runs.len() < LEAST {
            return fetched;
        }
        let mut wanted: Vec<(Range<u64>, usize)> = (0..)
            .zip(runs)
            .filter_map(|(nth, run)| Some((self.to_fetch(run)?, nth)))
            .collect();
        wanted.sort_unstable_by_key(|(sectors, nth)| (sectors.start, *nth));
        let spans = spans(wanted.iter().map(|(sectors, _)| sectors));
        if spans.len() < LEAST {
            return fetched;
        }
        let mut wanted = &wanted[..];
        for batch in batches(&spans) {
            let end = batch.last().map_or(0, |span| span.end);
            let (these, behind) =
                wanted.split_at(wanted.partition_point(|(sectors, _)| sectors.start < end));
            wanted = behind;
            let mut bytes: Vec<Block> = batch
                .iter()
                .map(|span| Block::unfilled(length(span)))
                .collect();
            let buffers = bytes.iter_mut().map(|bytes| &mut bytes[..]);
            let mut reads: Vec<(u64, &mut [u8])> =
                batch.iter().map(|span| span.start).zip(buffers).collect();
            if self.source.read_many(cause, &mut reads).is_err() {
                continue;
            }
            for (sectors, nth) in these {
                let which = batch.partition_point(|span| span.end <= sectors.start);
                let (Some(span), Some(bytes)) = (batch.get(which), bytes.get(which)) else {
                    continue;
                };
                let from = length(&(span.start..sectors.start));
                let stored = bytes.get(from..from + length(sectors));
                fetched[*nth] = stored.map(Block::from);
            }
        }
        fetched
    }

    /// The sectors of a run, unless they are available elsewhere.
    fn to_fetch(&self, run: &[(u64, Pointer)]) -> Option<Range<u64>> {
        let ((_, first), (_, last)) = (run.first()?, run.last()?);
        let sectors = first.sector()..last.end_sector();
        let step = self.source.align / SECTOR;
        let stored = !first.is_unwritten() && self.in_bounds(first);
        let aligned = sectors.start.is_multiple_of(step) && sectors.end.is_multiple_of(step);
        let elsewhere = |length| {
            self.durability.overlaps(sectors.start, length) || self.windows.overlap(&sectors)
        };
        let fetch = stored && aligned && !sectors.is_empty();
        (fetch && !elsewhere(sectors.end - sectors.start)).then_some(sectors)
    }
}

fn length(sectors: &Range<u64>) -> usize {
    ((sectors.end - sectors.start) * SECTOR) as usize
}

/// Requests for these sectors, which ascend.
fn spans<'s>(wanted: impl Iterator<Item = &'s Range<u64>>) -> Vec<Range<u64>> {
    let mut spans: Vec<Range<u64>> = Vec::new();
    for sectors in wanted {
        match spans.last_mut() {
            Some(last)
                if sectors.start <= last.end + GAP_BYTES / SECTOR
                    && sectors.end.max(last.end) - last.start <= RUN_BYTES / SECTOR =>
            {
                last.end = last.end.max(sectors.end);
            }
            _ => spans.push(sectors.clone()),
        }
    }
    spans
}

/// Cuts requests into batches that are read at once.
fn batches(spans: &[Range<u64>]) -> Vec<&[Range<u64>]> {
    let mut batches = Vec::new();
    let mut rest = spans;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |span: &&Range<u64>| {
            bytes += length(span) as u64;
            bytes <= BATCH_BYTES
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (batch, behind) = rest.split_at(count);
        batches.push(batch);
        rest = behind;
    }
    batches
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
        let spans = spans(wanted.iter());
        let want = [
            0..16 + gap,
            17 + 2 * gap..25 + 2 * gap,
            wanted[4].clone(),
            wanted[5].clone(),
        ];
        assert_eq!(spans, want);
    }

    #[test]
    fn a_batch_is_bounded_and_none_is_empty() {
        let long = 3 * BATCH_BYTES / SECTOR;
        let spans = [0..8, 8..8 + BATCH_BYTES / SECTOR, 0..long, 0..8, 0..8];
        let batches = batches(&spans);
        let lengths: Vec<usize> = batches.iter().map(|batch| batch.len()).collect();
        assert_eq!(lengths, [1, 1, 1, 2]);
        assert!(super::batches(&[]).is_empty());
    }
}
