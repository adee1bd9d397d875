//! Reading the contents of a segment, as a whole or in parts.

use super::price::runs_of;
use crate::chain::{ChainItem, Summary, maps_in, summaries_while};
use crate::control::contents::{BlockInfo, SegmentContents};
use crate::durability::InFlight;
use crate::error::{Error, Result};
use crate::format::{Malformed, SECTOR, crc32c};
use crate::log::Content;
use crate::mechanism::Mechanism;
use crate::reader::ReadCause;
use crate::segments::Edition;
use std::ops::Range;
use std::sync::Arc;
use varve_device::{ALIGNMENT, PooledBuffer};

/// Stored bytes of some blocks of a segment.
pub(crate) struct Extents {
    bytes: Arc<PooledBuffer>,
    /// First byte of each run on the device, and its range in `bytes`.
    runs: Vec<(u64, Range<usize>)>,
    /// A reference to one block keeps the whole buffer: at least half of it is wanted,
    /// and the next segment finds a buffer all the same.
    may_be_kept: bool,
}

impl Extents {
    /// Range of the stored bytes of a block; empty if they were not fetched.
    fn range_of(&self, info: &BlockInfo) -> Range<usize> {
        let after = self.runs.partition_point(|(byte, _)| *byte <= info.byte);
        let Some((start, run)) = after.checked_sub(1).and_then(|at| self.runs.get(at)) else {
            return 0..0;
        };
        let from = run.start + (info.byte - start) as usize;
        let range = from..from + info.length as usize;
        match range.end <= run.end {
            true => range,
            false => 0..0,
        }
    }

    /// The stored bytes of a block; empty if they were not fetched.
    pub fn of(&self, info: &BlockInfo) -> &[u8] {
        &self.bytes[self.range_of(info)]
    }

    /// The stored bytes of a verified block, to be kept.
    pub fn verified(&self, info: &BlockInfo) -> Content {
        match self.may_be_kept {
            true => Content::Verified(Arc::clone(&self.bytes), self.range_of(info)),
            false => self.of(info).to_vec().into(),
        }
    }
}

impl Mechanism {
    /// Reads a segment and lists the blocks that its summaries describe.
    ///
    /// # Errors
    /// Device errors.
    pub fn read_segment(&self, segment: u32) -> Result<SegmentContents> {
        let edition = self.segments.lock().get(segment).edition();
        self.read_whole(segment, edition)
    }

    /// [`Mechanism::read_segment`] of a segment that was this edition before and has not been
    /// plugged. Only its summaries are read if they, and at most `live_bytes` in it, are
    /// cheaper to read than all of it.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn survey(
        &self,
        segment: u32,
        edition: Edition,
        live_bytes: u64,
    ) -> Result<SegmentContents> {
        if self.is_read_whole(live_bytes, self.usual_partials()) {
            return self.read_whole(segment, edition);
        }
        let geometry = &self.geometry;
        let (mut read, mut dear) = (0, false);
        let walked = summaries_while(geometry, segment, edition.incarnation, |offset| {
            read += 1;
            if self.is_read_whole(live_bytes, read) {
                dear = true;
                return Ok(None);
            }
            let tag = self.volume_tag;
            let cause = ReadCause::Cleaner;
            let read = || Summary::read_for(cause, &self.reader, geometry, tag, segment, offset);
            // A summary that is refused is read a second time before the refusal is
            // accepted.
            let summary = match read()? {
                Err(_) => read()?,
                whole => whole,
            };
            Ok(summary.ok())
        })?;
        if dear {
            return self.read_whole(segment, edition);
        }
        self.list(segment, edition, walked)
    }

    /// As [`Mechanism::survey`]. A plugged segment is read a second time if its summaries and
    /// maps do not describe all live data.
    ///
    /// # Errors
    /// Device errors; `Damaged` if they still do not.
    pub(crate) fn understood(
        &self,
        segment: u32,
        edition: Edition,
        live_bytes: u64,
    ) -> Result<SegmentContents> {
        if !self.segments.lock().get(segment).plugged {
            return self.survey(segment, edition, live_bytes);
        }
        for _ in 0..2 {
            let known = self.recorded(segment);
            let contents = self.read_whole(segment, edition)?;
            if self.led_to(&contents, &known)?.is_some() {
                return Ok(contents);
            }
        }
        let problem = "does not tell of all that lives there";
        let sector = self.geometry.byte(segment, 0) / SECTOR;
        Err(Error::damaged(
            None,
            sector,
            Malformed::new("map of a segment", problem),
        ))
    }

    pub(crate) fn read_whole(&self, segment: u32, edition: Edition) -> Result<SegmentContents> {
        let geometry = &self.geometry;
        let mut image = self.control.buffers.take(geometry.segment_bytes as usize);
        self.read_for_cleaning(geometry.byte(segment, 0), &mut image)?;
        self.control.tap.pass(segment, edition.incarnation, &image);
        let tag = self.volume_tag;
        let walked = summaries_while(geometry, segment, edition.incarnation, |offset| {
            Ok(Summary::parse(&image, geometry, tag, segment, offset).ok())
        })?;
        let mut contents = self.list(segment, edition, walked)?;
        if self.segments.lock().get(segment).plugged {
            let maps = maps_in(&image, geometry, tag, segment, edition.incarnation);
            contents.add_maps(geometry, maps);
        }
        contents.image = Some(Arc::new(image));
        Ok(contents)
    }

    /// Number of blocks and nodes that the summaries of a segment describe and that fail
    /// their checksums in `image`, the segment's content. Blocks that were written over by
    /// later ones, in holes, fail as well.
    ///
    /// # Errors
    /// None of the device.
    pub fn damaged_in(&self, segment: u32, incarnation: u32, image: &[u8]) -> Result<u64> {
        let (geometry, tag) = (&self.geometry, self.volume_tag);
        let walked = summaries_while(geometry, segment, incarnation, |offset| {
            Ok(Summary::parse(image, geometry, tag, segment, offset).ok())
        })?;
        let edition = Edition {
            incarnation,
            last_serial: 0,
        };
        let first = geometry.byte(segment, 0);
        let contents = self.list(segment, edition, walked)?;
        let is_damaged = |info: &&BlockInfo| {
            let from = (info.byte - first) as usize;
            let stored = image.get(from..from + info.length as usize);
            let (ChainItem::Block { pointer, .. } | ChainItem::Node { pointer, .. }) = info.item
            else {
                return false;
            };
            stored.is_none_or(|stored| crc32c(stored) != pointer.crc())
        };
        Ok(contents.blocks.iter().filter(is_damaged).count() as u64)
    }

    /// The plugs of a partial in flight, which is at its head in `segment`.
    ///
    /// # Errors
    /// If its own summary is not sound.
    pub(crate) fn plugs_of(&self, partial: &InFlight, segment: u32) -> Result<SegmentContents> {
        let geometry = &self.geometry;
        let first = geometry.byte(segment, 0) / SECTOR;
        let offset = ((partial.sector - first) * SECTOR) as u32;
        let tag = self.volume_tag;
        let summary = Summary::begins(partial.bytes.front(), geometry, tag, segment, offset)?;
        let items = summary.items(geometry)?.into_iter();
        Ok(SegmentContents {
            segment,
            blocks: items
                .filter(|item| summary.is_elsewhere(item))
                .filter_map(|item| BlockInfo::of(geometry, item))
                .collect(),
            complete: true,
            ..SegmentContents::default()
        })
    }

    fn list(
        &self,
        segment: u32,
        edition: Edition,
        (summaries, complete): (Vec<Summary>, bool),
    ) -> Result<SegmentContents> {
        let geometry = &self.geometry;
        let mut blocks = Vec::new();
        let mut summed = Vec::new();
        for summary in &summaries {
            summed.push(summary.offset..summary.offset + summary.summary_bytes());
            let items = summary.items(geometry)?.into_iter();
            let here = items.filter(|item| !summary.is_elsewhere(item));
            blocks.reserve(here.size_hint().1.unwrap_or(0));
            blocks.extend(here.filter_map(|item| BlockInfo::of(geometry, item)));
        }
        Ok(SegmentContents {
            segment,
            edition,
            blocks,
            complete,
            summaries: summed,
            maps: Vec::new(),
            image: None,
        })
    }

    /// The stored bytes of these blocks of a segment.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn fetch<'c>(
        &self,
        contents: &SegmentContents,
        wanted: impl Iterator<Item = &'c BlockInfo> + Clone,
    ) -> Result<Extents> {
        let wanted_bytes: u64 = wanted.clone().map(|info| u64::from(info.length)).sum();
        let may_be_kept =
            |bytes: usize| 2 * wanted_bytes >= bytes as u64 && self.control.buffers.can_spare();
        let runs = runs_of(wanted.clone(), u64::MAX);
        self.control.spread.learn(wanted_bytes, &runs);
        if let Some(image) = &contents.image {
            let first = self.geometry.byte(contents.segment, 0);
            return Ok(Extents {
                runs: vec![(first, 0..image.len())],
                may_be_kept: may_be_kept(image.len()),
                bytes: Arc::clone(image),
            });
        }
        let portion = self.counters.speed.portion_bytes();
        let mut end = 0;
        let runs: Vec<(u64, Range<usize>)> = runs_of(wanted, portion)
            .into_iter()
            .map(|(from, to)| {
                let run = end..end + (to - from) as usize;
                end = run.end.next_multiple_of(ALIGNMENT);
                (from, run)
            })
            .collect();
        let mut bytes = self.control.buffers.take(end);
        let mut reads = Vec::with_capacity(runs.len());
        let mut rest = &mut bytes[..];
        for (from, run) in &runs {
            let (now, then) = rest.split_at_mut(run.len().next_multiple_of(ALIGNMENT));
            reads.push((from / SECTOR, &mut now[..run.len()]));
            rest = then;
        }
        let mut at = 0;
        while at < reads.len() {
            // In parallel, but no more than a portion.
            let mut asked = 0;
            let fits = |(_, into): &&(u64, &mut [u8])| {
                asked += into.len() as u64;
                asked <= portion
            };
            let count = reads[at..].iter().take_while(fits).count().max(1);
            self.give_way();
            self.read_several(&mut reads[at..at + count])?;
            at += count;
        }
        Ok(Extents {
            may_be_kept: may_be_kept(bytes.len()),
            bytes: Arc::new(bytes),
            runs,
        })
    }

    /// Reads from the device; bytes that the device has refused to write are taken from
    /// memory.
    ///
    /// It reads one portion after the other, so that a user's request waits for one
    /// portion at most.
    fn read_for_cleaning(&self, byte: u64, into: &mut [u8]) -> Result<()> {
        let mut rest = &mut into[..];
        let mut at = byte;
        while !rest.is_empty() {
            let portion = self.counters.speed.portion_bytes() as usize;
            let (now, then) = rest.split_at_mut(portion.min(rest.len()));
            self.give_way();
            self.reader.read_for(ReadCause::Cleaner, at / SECTOR, now)?;
            at += now.len() as u64;
            rest = then;
        }
        self.overlay_failed(byte, into);
        Ok(())
    }

    /// Reads several places at once, each given with its first sector. The error is the
    /// first one's; the others have been read.
    pub(crate) fn read_several(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        let read = self.reader.read_many_for(ReadCause::Cleaner, reads);
        for (sector, bytes) in reads {
            self.overlay_failed(*sector * SECTOR, bytes);
        }
        read
    }

    fn overlay_failed(&self, byte: u64, into: &mut [u8]) {
        for partial in self.durability.failed_partials() {
            partial.overlay(byte / SECTOR, into);
        }
    }
}
