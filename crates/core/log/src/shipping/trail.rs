//! Following the log from serial to serial across its segments.
//!
//! Every segment with log after the present position is represented by its next summary,
//! or as a *tail* if it has none yet. The next partial is the one with the next serial
//! that names the checksum of this one's header. If there are several candidates
//! (leftovers of an earlier mount), the one of the latest mount is taken, as in recovery.

use super::ship::Follower;
use crate::chain::Summary;
use crate::error::Result;
use crate::format::Mark;
use crate::lfs::Lfs;
use crate::segments::SegmentState;
use std::collections::BTreeMap;

/// A segment that may have another summary after its last one.
#[derive(Clone, Copy, Debug)]
struct Tail {
    segment: u32,
    incarnation: u32,
    offset: u32,
    /// The next summary must have a greater serial.
    after: u64,
    /// The log may continue there.
    open: bool,
}

/// The log's segments after a position.
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// The next summary of each segment, by serial and segment.
    ahead: BTreeMap<(u64, u32), Summary>,
    tails: Vec<Tail>,
    /// Segments opened up to this number have been examined.
    opened: u32,
}

impl Trail {
    /// All segments whose log may be after `mark`.
    ///
    /// # Errors
    /// Device errors.
    pub fn behind(lfs: &Lfs, mark: Mark) -> Result<Self> {
        let mut trail = Trail::default();
        // The last segment of each head that begins at the mark or before.
        let mut before: BTreeMap<u8, Summary> = BTreeMap::new();
        for tail in trail.new_segments(lfs) {
            let Some(summary) = peek(lfs, &tail)? else {
                trail.tails.push(tail);
                continue;
            };
            if summary.header.serial.get() > mark.serial {
                trail.put(summary);
                continue;
            }
            let head = summary.header.head;
            let serial = summary.header.serial;
            let older = |known: &Summary| known.header.serial.get() < serial.get();
            if before.get(&head).is_none_or(older) {
                before.insert(head, summary);
            }
        }
        for summary in before.into_values() {
            let mut summary = summary;
            loop {
                let tail = behind(&summary);
                match peek(lfs, &tail)? {
                    Some(next) if next.header.serial.get() > mark.serial => {
                        trail.put(next);
                        break;
                    }
                    Some(next) => summary = next,
                    None => {
                        trail.tails.push(tail);
                        break;
                    }
                }
            }
        }
        Ok(trail)
    }

    /// The partial after `at`, if the log has it.
    ///
    /// # Errors
    /// Device errors.
    pub fn next(&mut self, lfs: &Lfs, at: Mark) -> Result<Option<Summary>> {
        let found = match self.take(at) {
            Some(found) => Some(found),
            None => {
                self.refresh(lfs)?;
                self.take(at)
            }
        };
        if let Some(summary) = &found {
            let tail = behind(summary);
            match peek(lfs, &tail)? {
                Some(next) => self.put(next),
                None => self.tails.push(tail),
            }
        }
        Ok(found)
    }

    /// The state of the log after `mark`, without advancing.
    ///
    /// # Errors
    /// Device errors.
    pub fn follower(&mut self, lfs: &Lfs, mark: Mark) -> Result<Follower> {
        self.refresh(lfs)?;
        if let Some(found) = self.candidate(mark) {
            return Ok(Follower::Whole(self.ahead[&found].clone()));
        }
        let serial = mark.serial + 1;
        let mut others = self.ahead.range((serial, 0)..=(serial, u32::MAX));
        Ok(match others.next() {
            Some(_) => Follower::OfAnother,
            None => Follower::Gone,
        })
    }

    /// Number of the first opening of a segment that is still needed.
    pub fn needed_from(&self) -> u32 {
        let ahead = self.ahead.values();
        let ahead = ahead.map(|summary| summary.header.segment_incarnation.get());
        // An open segment is not reused; the newest may be left at any moment.
        let left = self.tails.iter().filter(|tail| !tail.open);
        let newest = self.tails.iter().map(|tail| tail.incarnation).max();
        let tails = left.map(|tail| tail.incarnation).chain(newest);
        ahead.chain(tails).min().unwrap_or(self.opened)
    }

    fn put(&mut self, summary: Summary) {
        let place = (summary.header.serial.get(), summary.segment);
        self.ahead.insert(place, summary);
    }

    fn candidate(&self, at: Mark) -> Option<(u64, u32)> {
        let serial = at.serial + 1;
        let candidates = self.ahead.range((serial, 0)..=(serial, u32::MAX));
        let follows = candidates.filter(|(_, s)| s.header.predecessor.get() == at.check);
        let newest = follows.max_by_key(|(_, s)| s.header.incarnation.get());
        newest.map(|(place, _)| *place)
    }

    fn take(&mut self, at: Mark) -> Option<Summary> {
        let place = self.candidate(at)?;
        let found = self.ahead.remove(&place);
        self.ahead = self.ahead.split_off(&(place.0 + 1, 0));
        found
    }

    /// Examines segments that were opened since, and tails again.
    fn refresh(&mut self, lfs: &Lfs) -> Result<()> {
        let durable = lfs.durability.durable();
        let mut tails = std::mem::take(&mut self.tails);
        tails.extend(self.new_segments(lfs));
        // Where the log still continues, a leftover may have been taken for the next
        // partial.
        let segments = lfs.segments.lock();
        let is_open = |segment| segments.get(segment).state == SegmentState::Open;
        let again = self
            .ahead
            .extract_if(.., |(_, segment), _| is_open(*segment));
        tails.extend(again.map(|(_, summary)| Tail {
            segment: summary.segment,
            incarnation: summary.header.segment_incarnation.get(),
            offset: summary.offset,
            after: 0,
            open: true,
        }));
        drop(segments);
        for mut tail in tails {
            let (state, incarnation, last_serial) = {
                let segments = lfs.segments.lock();
                let entry = segments.get(tail.segment);
                (entry.state, entry.incarnation, entry.last_serial)
            };
            if incarnation != tail.incarnation {
                continue;
            }
            tail.open = state == SegmentState::Open;
            match peek(lfs, &tail)? {
                Some(summary) => self.put(summary),
                None if tail.open || last_serial > durable => self.tails.push(tail),
                None => {}
            }
        }
        Ok(())
    }

    /// Segments opened since the last call, from their beginning.
    fn new_segments(&mut self, lfs: &Lfs) -> Vec<Tail> {
        let segments = lfs.segments.lock();
        let since = std::mem::replace(&mut self.opened, segments.opened());
        let new = segments.iter().filter(|(_, s)| s.incarnation > since);
        let tail = |(segment, entry): (u32, &crate::segments::Segment)| Tail {
            segment,
            incarnation: entry.incarnation,
            offset: lfs.geometry.payload_start(segment),
            after: 0,
            open: entry.state == SegmentState::Open,
        };
        new.map(tail).collect()
    }
}

/// The place after a partial.
fn behind(summary: &Summary) -> Tail {
    Tail {
        segment: summary.segment,
        incarnation: summary.header.segment_incarnation.get(),
        offset: summary.offset + summary.bytes(),
        after: summary.header.serial.get(),
        open: true,
    }
}

/// The summary at the tail, if it belongs to this opening of the segment.
fn peek(lfs: &Lfs, tail: &Tail) -> Result<Option<Summary>> {
    let geometry = &lfs.geometry;
    if !geometry.partial_fits(tail.offset) {
        return Ok(None);
    }
    let tag = lfs.volume_tag;
    let found = Summary::read(&lfs.reader, geometry, tag, tail.segment, tail.offset)?;
    Ok(found.ok().filter(|summary| {
        let header = &summary.header;
        header.segment_incarnation.get() == tail.incarnation && header.serial.get() > tail.after
    }))
}
