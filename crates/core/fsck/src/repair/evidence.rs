//! What the summaries in the log say, when metadata that says it better is
//! lost.
//!
//! Every segment is searched for partial segments that are whole: at its
//! payload start, behind each one found, and behind damage at every write
//! unit. Inside a partial that is whole nothing is searched, so that a file
//! cannot pass its content off as one.
//!
//! Left out are
//! - of a segment, what was there before it was opened last;
//! - partials of a discarded life: a partial with a lower or equal serial was
//!   written by a later mount (mounts are numbered in the order of the log);
//! - groups that were never finished.
//!
//! Blocks that stand in holes outlive the summaries that tell of them; the maps
//! of their segments do, too (`docs/design/holes.md`).
//!
//! Memory: 32 bytes per partial segment, and per page of a map.

use varve_lfs::Geometry;
use varve_lfs::format::summary::summary_flags;
use varve_lfs::format::{Pointer, SECTOR};
use varve_lfs::internal::{ChainItem, MapPage, Reader, Summary, maps_in, read_what_is_readable};

/// Bytes read at once.
const CHUNK: u32 = 1 << 20;

/// One partial segment that is whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partial {
    pub(crate) serial: u64,
    pub(crate) segment: u32,
    pub(crate) offset: u32,
    /// Number of the mount that wrote it.
    pub(crate) incarnation: u32,
    pub(crate) segment_incarnation: u32,
    pub(crate) flags: u16,
    /// The head it belongs to.
    pub(crate) head: u8,
    /// Its group is, for all that is known, complete.
    pub(crate) counts: bool,
}

impl Partial {
    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Its blocks are part of nothing by themselves.
    fn of_a_spill(&self) -> bool {
        self.has(summary_flags::SPILLED)
    }

    /// Written by a checkpoint.
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
    /// The partial that it is part of counts, for all that is known.
    counts: bool,
}

/// All partial segments that count, by serial.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    partials: Vec<Partial>,
    /// By serial, and of one serial by mount.
    pages: Vec<Page>,
    /// Highest number of a mount, whether what it wrote counts or not.
    pub(crate) incarnation: u32,
    /// Highest incarnation of a segment, likewise.
    pub(crate) segments_opened: u32,
}

impl Evidence {
    /// Some of it was written before its transaction was committed.
    pub(crate) fn has_spilled(&self) -> bool {
        self.partials.iter().any(Partial::of_a_spill)
    }

    /// Searches the whole volume. `progress` hears of segments done.
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

    /// A map's own plugs count if its partial does. Where that is gone, its
    /// segment was cleaned; it had been whole if others follow, and of this life
    /// if mounts go on rising with it.
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

    /// Notes the maps of a segment's last opening.
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
        read_what_is_readable(geometry, reader, segment, &mut image);
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

    /// Shows what maps tell of: each block as if its own partial did.
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

    /// Serials rise with the mounts that gave them: what breaks this is of a
    /// life that the next mount discarded.
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

    /// A group without its last partial never counted. Where partials between
    /// are gone, their segment was cleaned, and the group was complete.
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

    /// The partials, by serial.
    pub(crate) fn partials(&self) -> &[Partial] {
        &self.partials
    }

    /// Shows every item of every partial that counts, in the order of the log,
    /// then what the maps of plugged segments tell of.
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

/// A stretch of one segment; what cannot be read is zeros.
#[derive(Default)]
struct Chunk {
    start: u32,
    bytes: Vec<u8>,
}

impl Chunk {
    /// The write unit at `offset` of `segment`.
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
