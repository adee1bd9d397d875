//! What lies beneath a log: flash behind a translation layer, and zones.
//!
//! Both watch one stream of writes, so that many of them see the same log. What
//! a log rewrites in place, its checkpoint records, are two pages in turn, of
//! which one is written for each 64th of the volume that is: with zones, they
//! lie in the first, which is conventional.

use crate::experiments::Row;
use crate::simulator::{Motion, Shape, Transfer};
use varve_device::Zones;
use varve_disk::{Programmed, Translation, TranslationParameters, ZoneModel};

/// Bytes of a page, which is a block.
pub(super) const PAGE: u64 = 4096;
/// Pages that are rewritten in place.
const IN_PLACE: u32 = 2;
/// Of the volume, written between two of those.
const IN_PLACE_SHARE: u64 = 64;

/// What flash is told of what nobody wants any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// What is written again, which every flash sees.
    Nothing,
    /// Segments that have become clean.
    Segments,
    /// Every copy of a block, when it dies. No log can: its last checkpoints
    /// still lead there. A bound.
    Deaths,
}

/// A kind of flash, and how a log uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FlashKind {
    /// An erase block, in eighths of a segment.
    pub eighths: u32,
    /// Of the volume.
    pub spare_percent: u32,
    pub told: Told,
    /// Every head has a stream of its own.
    pub apart: bool,
}

impl FlashKind {
    /// An erase block in segments.
    pub fn ratio(self) -> f64 {
        f64::from(self.eighths) / 8.0
    }

    /// For people, and to be found again.
    pub fn name(self) -> String {
        let told = match self.told {
            Told::Nothing => ", nothing told",
            Told::Segments => "",
            Told::Deaths => ", deaths told",
        };
        let apart = if self.apart { ", streams" } else { "" };
        format!("{} % spare{told}{apart}", self.spare_percent)
    }
}

/// A flash of some kind.
#[derive(Debug)]
pub(super) struct Flash {
    pub kind: FlashKind,
    layer: Translation,
}

impl Flash {
    /// For so many pages, and segments of so many; `None` if so little spare
    /// flash cannot be collected in such blocks.
    pub fn new(kind: FlashKind, pages: u32, segment_pages: u32, heads: usize) -> Option<Self> {
        let parameters = TranslationParameters {
            pages,
            block_pages: (segment_pages * kind.eighths / 8).max(1),
            spare_percent: kind.spare_percent,
            streams: if kind.apart { heads as u32 } else { 1 },
        };
        parameters.is_possible().then(|| Flash {
            kind,
            layer: Translation::new(parameters),
        })
    }

    pub fn write(&mut self, pages: std::ops::Range<u32>, head: u8) {
        let stream = if self.kind.apart { head.into() } else { 0 };
        pages.for_each(|page| self.layer.write(page, stream));
    }

    pub fn discard(&mut self, pages: std::ops::Range<u32>) {
        pages.for_each(|page| self.layer.discard(page));
    }

    pub fn counted(&self) -> Programmed {
        self.layer.counted()
    }

    pub fn reset(&mut self) {
        self.layer.reset();
    }
}

/// Zones, and what they would have refused.
#[derive(Debug)]
pub(super) struct Watched {
    model: ZoneModel,
    /// Writes, and those that are refused.
    pub writes: u64,
    pub refused: u64,
    /// Most zones that were open at a time.
    pub most_open: u32,
}

impl Watched {
    pub fn new(zones: Zones, count: usize, conventional: impl Fn(usize) -> bool) -> Self {
        Watched {
            model: ZoneModel::new(zones, count, conventional),
            writes: 0,
            refused: 0,
            most_open: 0,
        }
    }

    pub fn write(&mut self, offset: u64, length: u64) {
        self.writes += 1;
        self.refused += u64::from(self.model.write(offset, length).is_err());
        self.most_open = self.most_open.max(self.model.open());
    }

    /// Resets the zones that lie wholly within the range.
    pub fn discard(&mut self, offset: u64, length: u64) {
        let zone_bytes = self.zone_bytes();
        let whole = offset.div_ceil(zone_bytes)..(offset + length) / zone_bytes;
        whole.for_each(|zone| self.model.reset(zone as usize));
    }

    pub fn zone_bytes(&self) -> u64 {
        self.model.zones().zone_bytes
    }

    /// The row with what they have been asked for, and what they would have refused.
    pub fn told(&self, row: Row) -> Row {
        row.with("zone_writes", self.writes as f64)
            .with("refused", self.refused as f64)
            .with("resets", self.model.resets() as f64)
    }
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Beneath {
    pub flash: Vec<Flash>,
    pub zones: Watched,
    /// Blocks of the log's own, and records in place, since the last reset.
    written: u64,
    in_place: u64,
    /// Until the next record.
    left: u64,
    between: u64,
}

impl Beneath {
    /// Beneath a simulated log with so many heads. A segment is a zone, and no
    /// more may be open than there are heads.
    pub fn new(shape: Shape, heads: usize, kinds: &[FlashKind]) -> Self {
        let blocks = shape.segments * shape.segment_blocks;
        let flash =
            |kind: &FlashKind| Flash::new(*kind, blocks + IN_PLACE, shape.segment_blocks, heads);
        let zones = Zones {
            zone_bytes: u64::from(shape.segment_blocks) * PAGE,
            max_open: heads as u32,
        };
        let between = (u64::from(blocks) / IN_PLACE_SHARE).max(1);
        Beneath {
            flash: kinds.iter().filter_map(flash).collect(),
            zones: Watched::new(zones, 1 + shape.segments as usize, |zone| zone == 0),
            written: 0,
            in_place: 0,
            left: between,
            between,
        }
    }

    /// Does what a log has done.
    pub fn take(&mut self, transfers: &[Transfer]) {
        for transfer in transfers {
            let first = IN_PLACE + transfer.slot;
            let pages = first..first + transfer.blocks;
            match transfer.motion {
                Motion::Read => {}
                Motion::Write { head } => self.write(transfer, pages, head),
                Motion::Clean => {
                    self.discard(&pages, |told| told != Told::Nothing);
                    let (offset, length) = self.zone_range(transfer);
                    self.zones.discard(offset, length);
                }
                Motion::Death => self.discard(&pages, |told| told == Told::Deaths),
            }
        }
    }

    fn write(&mut self, transfer: &Transfer, pages: std::ops::Range<u32>, head: u8) {
        for flash in &mut self.flash {
            flash.write(pages.clone(), head);
        }
        let (offset, length) = self.zone_range(transfer);
        self.zones.write(offset, length);
        let blocks = u64::from(transfer.blocks);
        self.written += blocks;
        self.left = self.left.saturating_sub(blocks);
        if self.left == 0 {
            self.left = self.between;
            self.write_in_place();
        }
    }

    fn write_in_place(&mut self) {
        self.in_place += 1;
        let page = (self.in_place % u64::from(IN_PLACE)) as u32;
        for flash in &mut self.flash {
            flash.write(page..page + 1, 0);
        }
        self.zones.write(u64::from(page) * PAGE, PAGE);
    }

    fn discard(&mut self, pages: &std::ops::Range<u32>, who: impl Fn(Told) -> bool) {
        for flash in self.flash.iter_mut().filter(|flash| who(flash.kind.told)) {
            flash.discard(pages.clone());
        }
    }

    /// Offset and length behind the conventional zone.
    fn zone_range(&self, transfer: &Transfer) -> (u64, u64) {
        let begin = self.zones.zone_bytes();
        let offset = begin + u64::from(transfer.slot) * PAGE;
        (offset, u64::from(transfer.blocks) * PAGE)
    }

    /// What the log wrote, records in place included.
    pub fn written(&self) -> u64 {
        self.written + self.in_place
    }

    /// Counts writes to flash from zero; what zones refuse counts from the
    /// beginning.
    pub fn reset(&mut self) {
        (self.written, self.in_place) = (0, 0);
        self.flash.iter_mut().for_each(Flash::reset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        blocks: 64,
        segments: 16,
        segment_blocks: 8,
        summaries_in_holes: true,
    };

    fn kind(told: Told) -> FlashKind {
        FlashKind {
            eighths: 8,
            spare_percent: 28,
            told,
            apart: false,
        }
    }

    fn transfer(motion: Motion, slot: u32, blocks: u32) -> Transfer {
        Transfer {
            motion,
            slot,
            blocks,
        }
    }

    #[test]
    fn what_is_told_reaches_the_flash_that_is_told() {
        let kinds = [Told::Nothing, Told::Segments, Told::Deaths].map(kind);
        let mut beneath = Beneath::new(SHAPE, 1, &kinds);
        beneath.take(&[
            transfer(Motion::Write { head: 0 }, 0, 8),
            transfer(Motion::Write { head: 0 }, 8, 8),
            transfer(Motion::Death, 3, 1),
            transfer(Motion::Clean, 8, 8),
            transfer(Motion::Read, 0, 8),
        ]);
        let live: Vec<u64> = beneath.flash.iter().map(|f| f.layer.live_pages()).collect();
        // A record in place after each two blocks' worth of writes: two pages.
        assert_eq!(live, [18, 10, 9]);
        assert_eq!(beneath.written(), 16 + 2);
        assert_eq!(
            (beneath.zones.refused, beneath.zones.model.resets()),
            (0, 1)
        );
    }

    #[test]
    fn writing_into_a_hole_is_refused_and_so_is_a_head_too_many() {
        let mut beneath = Beneath::new(SHAPE, 1, &[]);
        beneath.take(&[
            transfer(Motion::Write { head: 0 }, 0, 8),
            transfer(Motion::Write { head: 0 }, 3, 1),
        ]);
        assert_eq!(beneath.zones.refused, 1);
        beneath.take(&[
            transfer(Motion::Write { head: 0 }, 8, 4),
            transfer(Motion::Write { head: 0 }, 16, 4),
        ]);
        assert_eq!((beneath.zones.refused, beneath.zones.most_open), (2, 1));
    }
}
