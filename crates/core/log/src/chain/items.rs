//! What the entries of a summary say, with the places that follow.

use super::{ChainItem, Summary};
use crate::apply::Record;
use crate::format::index::MAX_BLOCK;
use crate::format::node::NodeId;
use crate::format::shape::{Shape, SummaryParts};
use crate::format::summary::{
    BlockEntry, Entries, Entry, MAX_PARTIAL_BYTES, Placed, RecordEntry, entry_flags, entry_kind,
    summary_flags,
};
use crate::format::{Malformed, Pointer, SECTOR};
use crate::geometry::{Geometry, inode_place};
use std::collections::BTreeSet;
use varve_fs::planted::{self, Planted};
use varve_fs::{InodeNo, Version};

impl Summary {
    /// Where the parts of the partial segment stand.
    fn shape(
        &self,
        geometry: &Geometry,
        entries: &[Entry<'_>],
    ) -> std::result::Result<Shape, Malformed> {
        let mut parts = SummaryParts {
            summary: self.header.summary_sectors(),
            ..SummaryParts::default()
        };
        let mut inode_bytes = 0;
        for entry in entries {
            match entry {
                Entry::Block(block) if block.flags & entry_flags::PLUG != 0 => {}
                Entry::Block(block) if geometry.is_full(block.sectors.into()) => {
                    parts.full += u64::from(block.sectors);
                }
                Entry::Block(block) => parts.short += u64::from(block.sectors),
                Entry::Inode(_) => inode_bytes += u64::from(geometry.inode_bytes),
                Entry::File(_) | Entry::Record(_) | Entry::Placed(_) => {}
            }
        }
        parts.inodes = inode_bytes.div_ceil(SECTOR);
        let unit = u64::from(geometry.write_unit) / SECTOR;
        let shape = parts.placed(self.is_aligned().then_some(unit));
        let fits = shape.end <= u64::from(self.header.sectors.get());
        if fits || planted::is(Planted::UncheckedLength) {
            Ok(shape)
        } else {
            let problem = "entries describe more than the partial segment holds";
            Err(Malformed::new("summary", problem))
        }
    }

    fn is_aligned(&self) -> bool {
        self.header.has(summary_flags::ALIGNED)
    }

    /// The entries with their places.
    ///
    /// # Errors
    /// If they do not add up: only a crafted summary with a good checksum.
    pub fn items(&self, geometry: &Geometry) -> std::result::Result<Vec<ChainItem>, Malformed> {
        let bad = |problem: &str| Malformed::new("summary", problem);
        let start = self.header.sector.get();
        let incarnation = self.header.segment_incarnation.get();
        let serial = self.header.serial.get();
        let birth = |stored: u64| if stored == 0 { serial } else { stored };
        if self.header.has(summary_flags::SPILLED) && !geometry.spills {
            return Err(bad("spilled blocks, on a volume without such"));
        }
        let entries: Vec<Entry<'_>> =
            Entries::new(&self.entries).collect::<std::result::Result<_, _>>()?;
        let shape = self.shape(geometry, &entries)?;
        let (mut full, mut short) = (start + shape.full, start + shape.short);
        let mut plugged = BTreeSet::new();
        let mut inodes = 0;
        let mut file = None;
        let mut items = Vec::with_capacity(entries.len());
        for entry in entries {
            if let Entry::File(of) = entry {
                file = Some((InodeNo(of.ino.get()), of.version.get()));
                continue;
            }
            if let Entry::Block(block) = &entry
                && block.kind == entry_kind::MAP
            {
                if let Some(pointer) = self.plug(geometry, block, &mut plugged)? {
                    items.push(map_item(geometry, block, pointer)?);
                }
                continue;
            }
            let (ino, version) = file.ok_or_else(|| bad("an entry before any file"))?;
            items.push(match entry {
                Entry::File(_) => unreachable!("handled above"),
                Entry::Block(block) => {
                    if block.block.get() >= MAX_BLOCK {
                        return Err(bad("a block beyond the largest file"));
                    }
                    if block.flags & entry_flags::PLUG != 0 {
                        if let Some(pointer) = self.plug(geometry, &block, &mut plugged)? {
                            items.push(self.block_item(ino, version, &block, pointer));
                        }
                        continue;
                    }
                    let apart = self.is_aligned() && !geometry.is_full(block.sectors.into());
                    let next = if apart { &mut short } else { &mut full };
                    let place = *next;
                    *next += u64::from(block.sectors);
                    let crc = block.crc.get();
                    let birth = birth(block.birth.get());
                    let pointer = Pointer::new(place, block.sectors, crc, birth, incarnation);
                    self.block_item(ino, version, &block, pointer)
                }
                Entry::Inode(inode) => {
                    let place = inode_place(
                        geometry,
                        start,
                        (shape.inodes * SECTOR) as usize,
                        inodes,
                        birth(inode.birth.get()),
                        inode.crc.get(),
                        incarnation,
                    );
                    inodes += 1;
                    let moved = inode.flags & entry_flags::MOVED != 0;
                    let source = moved.then_some((inode.source.get(), inode.source_slot));
                    ChainItem::Inode {
                        ino,
                        version,
                        place,
                        source,
                    }
                }
                Entry::Placed(placed) => {
                    self.placed(geometry, (ino, version), &placed, &mut items)?;
                    continue;
                }
                Entry::Record(entry) if is_of_larger_life(geometry, &entry) => continue,
                Entry::Record(entry) => {
                    let record = record_of(geometry, &entry, serial)
                        .ok_or_else(|| bad("a record with an impossible range"))?;
                    ChainItem::Record {
                        ino,
                        version,
                        record,
                    }
                }
            });
        }
        Ok(items)
    }

    /// The place of a block that stands in another segment: a whole block on a
    /// write unit, and none of this summary's twice. `None` if it stood beyond the
    /// end that the volume has now.
    fn plug(
        &self,
        geometry: &Geometry,
        block: &BlockEntry,
        plugged: &mut BTreeSet<u64>,
    ) -> std::result::Result<Option<Pointer>, Malformed> {
        let bad = |problem: &str| Err(Malformed::new("summary", problem));
        let sector = block.source.get();
        if !self.is_aligned() || !matches!(block.kind, entry_kind::BLOCK | entry_kind::MAP) {
            return bad("a plug of what cannot be one");
        }
        if block.flags != entry_flags::PLUG || !geometry.is_full(block.sectors.into()) {
            return bad("a plug that is moved, or no whole block");
        }
        let end = geometry.byte(geometry.segment_count, 0) / SECTOR;
        if geometry.shrunk && sector >= end {
            return Ok(None);
        }
        let Some(segment) = geometry
            .segment_of(sector)
            .filter(|_| geometry.within_segment(sector, block.sectors.into()))
        else {
            return bad("a plug outside of the segments");
        };
        let offset = sector * SECTOR - geometry.byte(segment, 0);
        let misplaced = segment == self.segment
            || offset < u64::from(geometry.payload_start(segment))
            || !offset.is_multiple_of(u64::from(geometry.write_unit));
        let sectors = u64::from(block.sectors);
        let near = plugged.range((sector + 1).saturating_sub(sectors)..sector + sectors);
        if misplaced || near.count() > 0 {
            return bad("a plug that covers something else");
        }
        // A writer fills whole segments, until he has as much as a partial holds.
        let bytes = plugged.len() as u64 * u64::from(geometry.block_bytes);
        if bytes > u64::from(geometry.segment_bytes) + u64::from(MAX_PARTIAL_BYTES) {
            return bad("more plugs than a partial segment has");
        }
        plugged.insert(sector);
        let incarnation = block.birth.get() as u32;
        let (crc, serial) = (block.crc.get(), self.header.serial.get());
        let pointer = Pointer::new(sector, block.sectors, crc, serial, incarnation);
        Ok(Some(pointer))
    }
}

/// A page of the map of the segment that it stands in.
fn map_item(
    geometry: &Geometry,
    block: &BlockEntry,
    pointer: Pointer,
) -> std::result::Result<ChainItem, Malformed> {
    let segment = geometry.segment_of(pointer.sector());
    match segment.filter(|segment| u64::from(*segment) == block.block.get()) {
        Some(segment) => Ok(ChainItem::Map { segment, pointer }),
        None => Err(Malformed::new("summary", "a map of another segment")),
    }
}

/// True of what was reserved when the volume had more segments, and has not been
/// there since it has fewer than that takes.
fn is_of_larger_life(geometry: &Geometry, entry: &RecordEntry) -> bool {
    let (from, to) = (entry.from.get(), entry.to.get());
    let reserves = entry.kind == entry_kind::RESERVED && from <= to && to <= MAX_BLOCK;
    geometry.shrunk && reserves && !plausible(geometry, entry.kind, from, to)
}

/// What a record of partial `serial` says, if it is possible.
fn record_of(geometry: &Geometry, entry: &RecordEntry, serial: u64) -> Option<Record> {
    let (from, to) = (entry.from.get(), entry.to.get());
    plausible(geometry, entry.kind, from, to).then_some(match entry.kind {
        entry_kind::FREED => Record::Freed(from as u32),
        entry_kind::TRUNCATED => Record::Truncated(from),
        entry_kind::PUNCHED => Record::Punched(from, to),
        _ => Record::Reserved(from, to, serial),
    })
}

/// A reservation is never larger than the volume, no range beyond the index.
fn plausible(geometry: &Geometry, kind: u8, from: u64, to: u64) -> bool {
    let volume = geometry.volume_bytes();
    match kind {
        entry_kind::PUNCHED => from <= to && to <= MAX_BLOCK,
        entry_kind::RESERVED => {
            from <= to && to <= MAX_BLOCK && to - from <= volume / u64::from(geometry.block_bytes)
        }
        _ => from <= MAX_BLOCK,
    }
}

impl Summary {
    /// Blocks that were spilled earlier in the log: whole ones within a segment.
    fn placed(
        &self,
        geometry: &Geometry,
        (ino, version): (InodeNo, Version),
        placed: &Placed<'_>,
        items: &mut Vec<ChainItem>,
    ) -> std::result::Result<(), Malformed> {
        let bad = |problem: &str| Err(Malformed::new("summary", problem));
        let entry = &placed.entry;
        let (first, sectors) = (entry.sector.get(), u64::from(entry.sectors));
        let (birth, incarnation) = (entry.birth.get(), entry.incarnation.get());
        let count = placed.crcs.len() as u64;
        if !geometry.spills || self.header.has(summary_flags::SPILLED) {
            return bad("placed blocks where there can be none");
        }
        let block = entry.block.get();
        if block.checked_add(count).is_none_or(|end| end > MAX_BLOCK) {
            return bad("a block beyond the largest file");
        }
        if sectors * SECTOR > u64::from(geometry.block_bytes) {
            return bad("a placed block that is longer than one");
        }
        if birth == 0 || birth >= self.header.serial.get() {
            return bad("blocks that were placed before they were spilled");
        }
        let end = geometry.byte(geometry.segment_count, 0) / SECTOR;
        if geometry.shrunk && first >= end {
            return Ok(());
        }
        let segment = geometry
            .segment_of(first)
            .filter(|_| geometry.within_segment(first, sectors * count));
        let stands = segment.is_some_and(|segment| {
            let offset = first * SECTOR - geometry.byte(segment, 0);
            offset >= u64::from(geometry.payload_start(segment))
        });
        if !stands {
            return bad("placed blocks outside of the segments");
        }
        items.extend((0..).zip(placed.crcs).map(|(nth, crc)| {
            let sector = first + nth * sectors;
            ChainItem::Placed {
                ino,
                version,
                block: block + nth,
                pointer: Pointer::new(sector, entry.sectors, crc.get(), birth, incarnation),
                written_ns: entry.written_ns.get(),
            }
        }));
        Ok(())
    }

    fn block_item(
        &self,
        ino: InodeNo,
        version: Version,
        block: &BlockEntry,
        pointer: Pointer,
    ) -> ChainItem {
        let spilled = self.header.has(summary_flags::SPILLED);
        block_item(ino, version, block, (pointer, spilled))
    }
}

fn block_item(
    ino: InodeNo,
    version: Version,
    block: &BlockEntry,
    (pointer, spilled): (Pointer, bool),
) -> ChainItem {
    if block.kind == entry_kind::NODE {
        let id = NodeId {
            ino,
            height: block.height,
            index: block.block.get(),
        };
        return ChainItem::Node {
            id,
            version,
            pointer,
        };
    }
    let moved = block.flags & entry_flags::MOVED != 0;
    ChainItem::Block {
        ino,
        version,
        block: block.block.get(),
        pointer,
        written_ns: block.written_ns.get(),
        source: moved.then_some(block.source.get()),
        kept: moved && block.flags & entry_flags::KEPT != 0,
        xattrs: block.kind == entry_kind::XATTRS,
        spilled,
    }
}
