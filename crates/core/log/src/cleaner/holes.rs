//! Finding holes ahead of a group that could use them (`docs/design/holes.md`).
//!
//! What lives in a segment is found as the cleaner finds it, under no lock of the
//! layout. What is found stays true until somebody writes into the segment, which
//! the stock's [`Edition`](crate::segments::Edition) tells.

use crate::base::Base;
use crate::chain::{ChainItem, map_entry};
use crate::cleaner::Cleaner;
use crate::control::contents::{BlockInfo, SegmentContents};
use crate::delta::Answer;
use crate::error::{Error, Result};
use crate::format::SECTOR;
use crate::kept::{attributes, data_block};
use crate::log::{LogItem, goes_into_holes};
use crate::segments::{Edition, Holes};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use varve_fs::planted::{self, Planted};

/// Blocks of a group that are worth looking for holes.
const LEAST_BLOCKS: usize = 16;
/// Most segments looked into for one group.
const MOST_SEGMENTS: usize = 256;
/// Most of them whose maps are read at once.
const MOST_AT_ONCE: usize = 64;

/// Somebody looks for holes as long as this lives.
struct Finding<'l>(&'l AtomicBool);

impl Drop for Finding<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

impl Cleaner {
    /// Finds holes for the blocks of a group, if clean segments are short and it
    /// has enough of them.
    ///
    /// # Errors
    /// Device errors; a segment that is damaged is left alone, and is no error.
    pub(crate) fn stock_holes(&self, items: &[LogItem]) -> Result<()> {
        // A device that changes more than a write unit would tear its neighbours.
        let whole = self.device.geometry().physical_block <= self.geometry.write_unit;
        if !self.geometry.aligned || !self.options.holes || !whole {
            return Ok(());
        }
        let goes = |item: &&LogItem| goes_into_holes(&self.geometry, item);
        let few = items.iter().filter(goes).take(LEAST_BLOCKS).count() < LEAST_BLOCKS;
        if few && !self.control.plugs.is_expected() || !self.is_short() {
            return Ok(());
        }
        if few {
            // What small groups need, clean segments must have, if it is more
            // than the head stands in anyway.
            let sectors = items.iter().map(|item| item.stored_sectors(&self.geometry));
            let bytes = sectors.map(u64::from).sum::<u64>() * SECTOR;
            let most = u64::from(self.geometry.segment_bytes);
            self.control.plugs.passed(bytes, most);
            return Ok(());
        }
        let blocks = items.iter().filter(goes).count();
        if self.finding_holes.swap(true, Acquire) {
            return Ok(()); // somebody else is about it
        }
        let _finding = Finding(&self.finding_holes);
        let stocked = self.find_holes(blocks);
        let enough = stocked.is_ok() && 4 * self.lacking(blocks) <= blocks;
        self.control.plugs.looked(enough);
        stocked
    }

    /// True if clean segments are about to need the cleaner.
    pub(super) fn is_short(&self) -> bool {
        let pace = self.control.shared().settings.pace;
        let (.., high) = self.space.cleaning_marks(&pace);
        self.space.clean_segments_now() < high + self.space.batch_segments()
    }

    fn find_holes(&self, blocks: usize) -> Result<()> {
        let mut lacking = self.lacking(blocks);
        if lacking == 0 {
            return Ok(());
        }
        let mut found = self.look_into(self.worth_plugging(&[]), lacking)?;
        lacking = lacking.saturating_sub(self.room_of(&found));
        if lacking > 0 && self.logged_since_checkpoint() >= self.plugging_interval() {
            if self.checkpoints.checkpoint_fits() {
                self.checkpoints.take_checkpoint(false)?;
            }
            let more = self.worth_plugging(&found);
            found.extend(self.look_into(more, lacking)?);
        }
        if found.is_empty() {
            return Ok(());
        }
        // What displaced the blocks that stood there must be durable (rule P1):
        // everything up to now, as it was found out before.
        let end = self.log.lock().end.serial();
        for holes in &mut found {
            holes.displaced = holes.displaced.map(|_| end);
        }
        let needed = match planted::is(Planted::HolesUndurable) {
            true => 0,
            false => end,
        };
        match self.durability.commit(needed, &*self.device) {
            Ok(flushed) => self.counters.flushes.fetch_add(flushed.into(), Relaxed),
            Err(Error::Unwritten(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.log.lock().holes.extend(found);
        Ok(())
    }

    fn room_of(&self, holes: &[Holes]) -> usize {
        holes.iter().map(|holes| holes.room(&self.geometry)).sum()
    }

    /// How many of these blocks the stock has no room for.
    fn lacking(&self, blocks: usize) -> usize {
        let mut log = self.log.lock();
        let segments = self.segments.lock();
        log.holes
            .retain(|holes| segments.may_plug(holes.segment, holes.edition));
        blocks.saturating_sub(self.room_of(&log.holes))
    }

    /// Bytes of log between two checkpoints of a volume that is plugged. A
    /// segment is plugged again behind the second, with what has died in it
    /// until then: a quarter of all there is to gain makes a segment worth it, and
    /// nodes cheap beside it.
    pub(super) fn plugging_interval(&self) -> u64 {
        let (live, used) = {
            let segments = self.segments.lock();
            let clean = u64::from(segments.clean_count());
            let all = u64::from(self.geometry.segment_count);
            (segments.live_bytes(), all.saturating_sub(clean))
        };
        let dead = (used * u64::from(self.geometry.segment_bytes)).saturating_sub(live);
        let volume = self.geometry.volume_bytes();
        (dead / 4).clamp(volume / 64, volume / 8)
    }

    /// Segments to look into, emptiest first. One that is less than half full
    /// gives the cleaner more than it costs, and may empty by itself.
    /// None of them twice: a map tells of one partial's plugs.
    pub(super) fn worth_plugging(&self, found: &[Holes]) -> Vec<(u32, u32)> {
        let log = self.log.lock();
        let known = log.holes.iter().chain(found);
        let known: Vec<u32> = known.map(|holes| holes.segment).collect();
        drop(log);
        let mut segments = self.segments.lock().pluggable();
        let room = u64::from(self.geometry.usable_bytes());
        segments.retain(|(segment, live)| 2 * u64::from(*live) > room && !known.contains(segment));
        segments.sort_by_key(|(_, live)| *live);
        segments.truncate(MOST_SEGMENTS);
        segments
    }

    /// Looks into segments until there is room for so many blocks, into as many
    /// at a time as are likely to have it.
    fn look_into(&self, segments: Vec<(u32, u32)>, blocks: usize) -> Result<Vec<Holes>> {
        let (mut found, mut room) = (Vec::new(), 0);
        let mut poor = 0;
        let mut rest = &segments[..];
        while room < blocks && poor <= MOST_SEGMENTS / 16 && !rest.is_empty() {
            let (these, behind) = rest.split_at(self.likely(rest, blocks - room));
            let holes = self.holes_in(these)?;
            poor += these.len() - holes.len();
            room += self.room_of(&holes);
            found.extend(holes);
            rest = behind;
        }
        Ok(found)
    }

    /// How many of these segments, with the bytes that live in each, are likely
    /// to have room for so many blocks.
    pub(super) fn likely(&self, segments: &[(u32, u32)], blocks: usize) -> usize {
        let mut room = 0;
        let short = |(_, live): &&(u32, u32)| {
            let wanting = room < blocks;
            let dead = self.geometry.usable_bytes().saturating_sub(*live);
            room += (dead / self.geometry.block_bytes) as usize;
            wanting
        };
        segments.iter().take(MOST_AT_ONCE).take_while(short).count()
    }

    /// The holes of these segments, but of those where they are too few to pay
    /// for a map, or it is not certain what lives there.
    fn holes_in(&self, segments: &[(u32, u32)]) -> Result<Vec<Holes>> {
        // In this order: that the records lie behind this edition means that the
        // image, which is as new, tells of all that is in it.
        let settled =
            |(segment, _): &(u32, u32)| Some((*segment, self.mechanism.settled(*segment)?.0));
        let mut editions: Vec<(u32, Edition)> = segments.iter().filter_map(settled).collect();
        editions.retain(|(segment, edition)| self.segments.lock().may_plug(*segment, *edition));
        let known: Vec<_> = editions
            .iter()
            .map(|(segment, _)| self.mechanism.recorded(*segment))
            .collect();
        let contents = self.read_for_holes(&editions)?;
        let mut found = Vec::new();
        for (contents, known) in contents.into_iter().zip(known) {
            let Some(contents) = contents.filter(|contents| contents.complete) else {
                continue;
            };
            match self.holes_among(&contents, known) {
                Err(error) if error.is_of_the_medium() => {}
                holes => found.extend(holes?),
            }
        }
        Ok(found)
    }

    fn holes_among(
        &self,
        contents: &SegmentContents,
        known: (Arc<Base>, u64),
    ) -> Result<Option<Holes>> {
        let SegmentContents {
            segment, edition, ..
        } = *contents;
        let Some(led_to) = self.mechanism.led_to(contents, &known)? else {
            return Ok(None);
        };
        let still = |info: &&BlockInfo| self.still_lives(info);
        let lives: Vec<&BlockInfo> = led_to.iter().copied().filter(still).collect();
        let displaced = (lives.len() < led_to.len()).then_some(u64::MAX);
        let mapped = self.segments.lock().get(segment).mapped.clone();
        let mapped = mapped.map(|mapped| mapped.serial);
        let free = self.free_blocks(contents, &lives, mapped);
        let first = self.geometry.byte(segment, 0) / SECTOR;
        let holes = Holes {
            segment,
            edition,
            free,
            summaries: contents.summaries.clone(),
            lives: lives
                .iter()
                .filter_map(|info| map_entry(&info.item, first))
                .collect(),
            image: known.0.serial,
            displaced,
        };
        let room = holes.room(&self.geometry);
        let pays = room >= 3 * (holes.free.len() - room).max(1);
        Ok(pays.then_some(holes))
    }

    /// True unless something logged since the image was made has displaced it, and no
    /// snapshot keeps it.
    /// What is about to become part of the image passes for living.
    pub(super) fn still_lives(&self, info: &BlockInfo) -> bool {
        let ChainItem::Block {
            ino,
            version,
            block,
            pointer,
            xattrs,
            ..
        } = info.item
        else {
            return true;
        };
        let committed = self.layers.read();
        let (lives, identity) = match xattrs {
            true => (
                committed.delta_xattrs(ino) == Some(None),
                attributes(ino, version),
            ),
            false => (
                committed.delta_answer(ino, version, block) == Answer::Pass,
                data_block(ino, version, block),
            ),
        };
        lives || committed.is_kept_at(identity, &pointer)
    }

    /// Places of whole blocks, on write units, in which nothing lives and no
    /// summary stands, nor a page of a map that is needed: the newest, if this
    /// mount has written one, or any.
    fn free_blocks(
        &self,
        contents: &SegmentContents,
        lives: &[&BlockInfo],
        mapped: Option<u64>,
    ) -> Vec<u64> {
        let geometry = &self.geometry;
        let first = geometry.byte(contents.segment, 0);
        let (unit, block) = (
            u64::from(geometry.write_unit),
            u64::from(geometry.block_bytes),
        );
        let units = u64::from(geometry.segment_bytes) / unit;
        let mut taken = vec![false; units as usize];
        let mut take = |from: u64, to: u64| {
            let to = to.div_ceil(unit).min(units);
            taken[(from / unit).min(to) as usize..to as usize].fill(true);
        };
        take(0, geometry.payload_start(contents.segment).into());
        for range in &contents.summaries {
            take(range.start.into(), range.end.into());
        }
        for (serial, offset) in &contents.maps {
            if mapped.is_none_or(|mapped| mapped == *serial) {
                take(u64::from(*offset), u64::from(*offset) + block);
            }
        }
        for info in lives {
            let from = info.byte - first;
            take(from, from + u64::from(info.length));
        }
        let (mut free, mut at) = (Vec::new(), 0);
        let wide = block / unit;
        while at + wide <= units {
            let here = &taken[at as usize..(at + wide) as usize];
            match here.iter().rposition(|taken| *taken) {
                Some(last) => at += last as u64 + 1,
                None => {
                    free.push((first + at * unit) / SECTOR);
                    at += wide;
                }
            }
        }
        free
    }
}
