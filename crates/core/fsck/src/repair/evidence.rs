//! Evidence: the information of the log's summaries, used where better metadata is lost.
//!
//! Every segment is searched for valid partial segments: at its payload start, behind
//! each partial found, and behind damage at every write unit. The inside of a valid
//! partial is not searched, so that file content cannot pass for a summary.
//!
//! Excluded are
//! - in a segment, partials from before its last opening;
//! - partials of a discarded life: a partial with a lower or equal serial was written by
//!   a later mount (mounts are numbered in the order of the log);
//! - groups that were never finished.
//!
//! A block in a hole can outlive the summary that describes it, but not the map of its
//! segment (`docs/design/holes.md`).
//!
//! Memory: 32 bytes per partial segment, and per page of a map.

use varve_lfs::Geometry;
use varve_lfs::format::summary::summary_flags;
use varve_lfs::format::{Pointer, SECTOR};
use varve_lfs::internal::{ChainItem, MapPage, Reader, Summary, maps_in, read_what_is_readable};

/// Bytes per read.
const CHUNK: u32 = 1 << 20;

/// One valid partial segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partial {
    pub(crate) serial: u64,
    pub(crate) segment: u32,
    pub(crate) offset: u32,
    /// Number of the mount that wrote it.
    pub(crate) incarnation: u32,
    pub(crate) segment_incarnation: u32,
    pub(crate) flags: u16,
    /// Head of the log to which it belongs.
    pub(crate) head: u8,
    /// True if its group is complete as far as can be known.
    pub(crate) counts: bool,
}

impl Partial {
    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Returns true if its blocks were spilled and belong to no file by themselves.
    fn of_a_spill(&self) -> bool {
        self.has(summary_flags::SPILLED)
    }

    /// Returns true if a checkpoint wrote it.
    pub(crate) fn of_checkpoint(&self) -> bool {
        self.has(summary_flags::CHECKPOINT)
    }
}

/// A page of a map.
#[derive(Clone, Copy, Debug)]
struct Page {
    serial: u64,
    /// Number of the mount that wrote it.
    mount: u32,
    segment: u32,
    segment_incarnation: u32,
    offset: u32,
    /// True if its partial is valid as far as can be known.
    counts: bool,
}

/// All valid partial segments, by serial.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    partials: Vec<Partial>,
    /// Pages of maps, by serial, then by mount.
    pages: Vec<Page>,
    /// Highest mount number found, including excluded partials.
    pub(crate) incarnation: u32,
    /// Highest segment incarnation found, including excluded partials.
    pub(crate) segments_opened: u32,
}

impl Evidence {
    /// Returns true if some blocks were written before the commit of their transaction.
    pub(crate) fn has_spilled(&self) -> bool {
        self.partials.iter().any(Partial::of_a_spill)
    }

    /// Searches the whole volume. `progress` receives the number of segments done.
    pub(crate) fn gather(
        reader: &Reader,
        geometry: &Geometry,
        volume_tag: u64,
        progress: &dyn Fn(u64, u64),
    ) -> Self {
        let mut found = Evidence::default();
        for segment in 0..geometry.segment_count {
            if segment % 64 == 0 {
                progress(segment.into(), geometry.segment_count.into());
            }
            found.segment(reader, geometry, volume_tag, segment);
        }
        found.drop_discarded();
        found.mark_unfinished();
        found.judge_pages();
        found
    }

    /// Decides which map pages are valid. A page is valid if its partial is. If the
    /// partial is missing, its segment was cleaned: the partial was complete if later
    /// ones follow, and belongs to this life if the mount numbers around it ascend.
    fn judge_pages(&mut self) {
        self.pages.sort_by_key(|page| (page.serial, page.mount));
        let partials = &self.partials;
        for page in &mut self.pages {
            page.counts = match partials.binary_search_by_key(&page.serial, |p| p.serial) {
                Ok(at) => partials[at].incarnation == page.mount && partials[at].counts,
                Err(at) => {
                    let before = at.checked_sub(1).map(|at| partials[at].incarnation);
                    let behind = partials.get(at).map(|p| p.incarnation);
                    before.is_none_or(|before| before <= page.mount)
                        && behind.is_some_and(|behind| behind >= page.mount)
                }
            };
        }
    }

    fn segment(&mut self, reader: &Reader, geometry: &Geometry, volume_tag: u64, segment: u32) {
        let first = self.partials.len();
        let mut chunk = Chunk::default();
        let mut at = geometry.payload_start(segment);
        while at < geometry.segment_bytes {
            let here = chunk.at(reader, geometry, segment, at);
            let whole = Summary::header(here, geometry, volume_tag, segment, at)
                .ok()
                .and_then(|_| {
                    Summary::read(reader, geometry, volume_tag, segment, at)
                        .ok()?
                        .ok()
                });
            let Some(summary) = whole else {
                at += geometry.write_unit;
                continue;
            };
            let header = &summary.header;
            self.partials.push(Partial {
                serial: header.serial.get(),
                segment,
                offset: at,
                incarnation: header.incarnation.get(),
                segment_incarnation: header.segment_incarnation.get(),
                flags: header.flags.get(),
                head: header.head,
                counts: true,
            });
            at = at.saturating_add(summary.bytes().max(geometry.write_unit));
        }
        let here = &self.partials[first..];
        self.incarnation = here
            .iter()
            .fold(self.incarnation, |max, p| max.max(p.incarnation));
        let newest = here.iter().map(|p| p.segment_incarnation).max();
        self.segments_opened = self.segments_opened.max(newest.unwrap_or(0));
        let mut kept = first;
        for at in first..self.partials.len() {
            if Some(self.partials[at].segment_incarnation) == newest {
                self.partials[kept] = self.partials[at];
                kept += 1;
            }
        }
        self.partials.truncate(kept);
        if let Some(newest) = newest {
            self.maps(reader, geometry, volume_tag, (segment, newest));
        }
    }

    /// Records the maps of a segment's last opening.
    fn maps(
        &mut self,
        reader: &Reader,
        geometry: &Geometry,
        volume_tag: u64,
        (segment, segment_incarnation): (u32, u32),
    ) {
        if !geometry.aligned {
            return;
        }
        let mut image = vec![0; geometry.segment_bytes as usize];
        // Without an answer of the device's service there is no evidence from here.
        if read_what_is_readable(geometry, reader, segment, &mut image).is_err() {
            return;
        }
        let pages = maps_in(&image, geometry, volume_tag, segment, segment_incarnation);
        self.pages.extend(pages.into_iter().map(|page| Page {
            serial: page.serial,
            mount: page.mount,
            segment,
            segment_incarnation,
            offset: page.offset,
            counts: false,
        }));
    }

    /// Visits the blocks that maps describe, each as if its own partial described it.
    fn visit_pages(
        &self,
        reader: &Reader,
        geometry: &Geometry,
        volume_tag: u64,
        see: &mut dyn FnMut(&Partial, &ChainItem),
    ) {
        for page in &self.pages {
            let first = geometry.byte(page.segment, 0) / SECTOR;
            let sector = first + u64::from(page.offset) / SECTOR;
            let mut bytes = vec![0; geometry.block_bytes as usize];
            if reader.read_uncached(sector, &mut bytes).is_err() {
                continue;
            }
            let of = (page.segment, page.segment_incarnation);
            let Some(read) = MapPage::parse(&bytes, geometry, volume_tag, of, page.offset) else {
                continue;
            };
            for item in &read.items {
                let birth = item.pointer().map_or(0, Pointer::birth);
                if birth == page.serial && !page.counts {
                    continue;
                }
                let as_if = Partial {
                    serial: birth,
                    segment: page.segment,
                    offset: page.offset,
                    incarnation: page.mount,
                    segment_incarnation: page.segment_incarnation,
                    flags: 0,
                    head: 0,
                    counts: true,
                };
                see(&as_if, item);
            }
        }
    }

    /// Drops partials of discarded lives: serials must ascend together with mount
    /// numbers, and a partial that breaks this was discarded by the next mount.
    fn drop_discarded(&mut self) {
        self.partials
            .sort_unstable_by_key(|p| (p.serial, std::cmp::Reverse(p.incarnation)));
        let mut latest = 0;
        let mut last_serial = None;
        self.partials.retain(|p| {
            let stands = p.incarnation >= latest && last_serial != Some(p.serial);
            if stands {
                latest = p.incarnation;
                last_serial = Some(p.serial);
            }
            stands
        });
    }

    /// Marks groups without their last partial as unfinished. If partials in the middle
    /// are missing, their segment was cleaned, so the group was complete.
    fn mark_unfinished(&mut self) {
        let mut group = 0..0;
        for at in 0..self.partials.len() {
            let partial = self.partials[at];
            let adjacent = at > 0 && self.partials[at - 1].serial + 1 == partial.serial;
            if partial.has(summary_flags::FIRST) {
                if adjacent {
                    self.discount(group.clone());
                }
                group = at..at + 1;
            } else if !group.is_empty() && adjacent {
                group.end = at + 1;
            } else if adjacent {
                self.discount(at..at + 1);
            } else {
                group = at..at + 1;
            }
            if partial.has(summary_flags::LAST) {
                group = 0..0;
            }
        }
        self.discount(group);
    }

    fn discount(&mut self, range: std::ops::Range<usize>) {
        for partial in &mut self.partials[range] {
            partial.counts = false;
        }
    }

    /// Returns the partials by serial.
    pub(crate) fn partials(&self) -> &[Partial] {
        &self.partials
    }

    /// Visits every item of every valid partial in the order of the log, then the blocks
    /// in the maps of segments with plugs.
    pub(crate) fn visit(
        &self,
        reader: &Reader,
        geometry: &Geometry,
        volume_tag: u64,
        see: &mut dyn FnMut(&Partial, &ChainItem),
    ) {
        for partial in self.partials.iter().filter(|partial| partial.counts) {
            let (segment, offset) = (partial.segment, partial.offset);
            let Ok(Ok(summary)) = Summary::read(reader, geometry, volume_tag, segment, offset)
            else {
                continue;
            };
            for item in summary.items(geometry).unwrap_or_default() {
                see(partial, &item);
            }
        }
        self.visit_pages(reader, geometry, volume_tag, see);
    }
}

/// A part of one segment; unreadable bytes are zeros.
#[derive(Default)]
struct Chunk {
    start: u32,
    bytes: Vec<u8>,
}

impl Chunk {
    /// Returns the write unit at `offset` of `segment`.
    fn at(&mut self, reader: &Reader, geometry: &Geometry, segment: u32, offset: u32) -> &[u8] {
        let unit = geometry.write_unit;
        let end = self.start + self.bytes.len() as u32;
        if offset < self.start || offset + unit > end {
            self.start = offset;
            let length = CHUNK.max(unit).min(geometry.segment_bytes - offset);
            self.bytes.resize(length as usize, 0);
            let sector = geometry.byte(segment, offset) / SECTOR;
            if reader.read_uncached(sector, &mut self.bytes).is_err() {
                for (nth, part) in (0u64..).zip(self.bytes.chunks_mut(unit as usize)) {
                    let sector = sector + nth * u64::from(unit) / SECTOR;
                    if reader.read_uncached(sector, part).is_err() {
                        part.fill(0);
                    }
                }
            }
        }
        let at = (offset - self.start) as usize;
        &self.bytes[at..at + unit as usize]
    }
}
