//! Filling the buffers of planned partial segments.
//!
//! There are two passes. The first places blocks and computes their checksums, without
//! any lock that readers need. The second, under the lock of the committed state, writes
//! entries and inodes while applying them, in arrival order.

use super::item::LogItem;
use super::plan::PartialPlan;
use crate::apply::Record;
use crate::bytes::content::Content;
use crate::bytes::partial::PartialBytes;
use crate::format::ifile::InodePlace;
use crate::format::summary::{
    BlockEntry, FileEntry, HEADER_BYTES, InodeEntry, PlacedEntry, RecordEntry, SummaryHeader,
    entry_flags, entry_kind,
};
use crate::format::{Pointer, SECTOR, crc32c};
use crate::geometry::{Geometry, inode_place};
use varve_device::AlignedBuffer;
use varve_fs::{InodeNo, Version};
use zerocopy::IntoBytes;

/// A partial segment being filled.
pub struct PartialBuffer {
    /// Sector address of its summary.
    pub sector: u64,
    /// Serial that it will have.
    pub serial: u64,
    /// Incarnation of its segment.
    pub incarnation: u32,
    /// All bytes of it.
    pub bytes: PartialBytes,
    /// Offset of the next entry, and the end of the entries: readers find the payload
    /// after it.
    entry_at: usize,
    entry_end: usize,
    entries: u32,
    /// Offset of the next block: full ones where these are aligned, and the rest.
    full_at: usize,
    short_at: usize,
    /// Ends of these two.
    full_end: usize,
    short_end: usize,
    /// Full blocks are separate, and are written from their own buffers.
    aligned: bool,
    block_bytes: usize,
    /// Offset of the inodes, and their number so far.
    inode_start: usize,
    inodes: u32,
    file: Option<(InodeNo, Version)>,
    /// Runs of blocks in holes, by first sector, none in two segments.
    pub plugs: Vec<(u64, AlignedBuffer)>,
    /// The next plug begins a run.
    run_ends: bool,
}

impl PartialBuffer {
    /// An empty buffer for `plan`.
    pub fn new(geometry: &Geometry, plan: &PartialPlan, serial: u64, incarnation: u32) -> Self {
        let sector = geometry.byte(plan.segment, plan.offset) / SECTOR;
        let at = |sector: u64| (sector * SECTOR) as usize;
        let shape = plan.size.shape(geometry);
        let blocks = u64::from(plan.size.block_sectors());
        let (full_at, short_at) = (at(shape.full), at(shape.short));
        let short = u64::from(plan.size.short_sectors);
        let (full_end, short_end) = match geometry.aligned {
            true => (at(shape.end), at(shape.short + short)),
            false => (at(shape.full + blocks), short_at),
        };
        // A filler stores its summary only; the rest of the segment is not written.
        let stored = if plan.items.is_empty() {
            geometry.write_unit
        } else {
            plan.bytes
        };
        let stored = stored as usize;
        // Range of full blocks that have buffers of their own.
        let full = match geometry.aligned && !plan.items.is_empty() && full_at < full_end {
            true => full_at..full_end,
            false => stored..stored,
        };
        let buffer = AlignedBuffer::zeroed(stored - full.len());
        PartialBuffer {
            sector,
            serial,
            incarnation,
            bytes: PartialBytes::new(buffer, full.start),
            entry_at: HEADER_BYTES,
            entry_end: HEADER_BYTES + plan.size.entry_bytes as usize,
            entries: 0,
            full_at,
            short_at,
            full_end,
            short_end,
            aligned: geometry.aligned,
            block_bytes: geometry.block_bytes as usize,
            inode_start: at(shape.inodes),
            inodes: 0,
            file: None,
            plugs: Vec::new(),
            run_ends: true,
        }
    }

    /// Ends the present run, because the next plugs are in another segment.
    pub fn end_run(&mut self) {
        self.run_ends = true;
    }

    /// First pass: copies a block for the hole at `sector`, of a segment with this
    /// incarnation, and returns the pointer to it.
    pub fn place_plug(&mut self, content: &[u8], sector: u64, incarnation: u32) -> Pointer {
        let follows = |(first, run): &(u64, AlignedBuffer)| {
            !run.is_empty() && first + run.len() as u64 / SECTOR == sector
        };
        if self.run_ends || !self.plugs.last().is_some_and(follows) {
            self.run_ends = false;
            self.plugs.push((sector, AlignedBuffer::default()));
        }
        let (_, run) = self.plugs.last_mut().expect("one was pushed");
        let at = run.len();
        run.extend_from_slice(content);
        run.resize(at + self.block_bytes);
        let (crc, sectors) = (crc32c(&run[at..]), self.block_bytes as u64 / SECTOR);
        Pointer::new(sector, sectors as u8, crc, self.serial, incarnation)
    }

    /// First pass: places a block's content, which has the checksum `crc` if that is
    /// known, and returns the pointer to it.
    pub fn place_block(
        &mut self,
        content: &Content,
        birth: Option<u64>,
        crc: Option<u32>,
    ) -> Pointer {
        let sectors = content.len().div_ceil(SECTOR as usize);
        let length = sectors * SECTOR as usize;
        let full = length == self.block_bytes;
        let next = match self.aligned && !full {
            true => &mut self.short_at,
            false => &mut self.full_at,
        };
        let at = *next;
        *next += length;
        let stored = if self.aligned && full {
            self.bytes.push(content, length)
        } else {
            let stored = &mut self.bytes.front_mut()[at..at + length];
            stored[..content.len()].copy_from_slice(content);
            stored
        };
        debug_assert!(crc.is_none_or(|crc| crc == crc32c(stored)), "not this copy");
        let crc = crc.unwrap_or_else(|| crc32c(stored));
        let sector = self.sector + at as u64 / SECTOR;
        let birth = birth.unwrap_or(self.serial);
        Pointer::new(sector, sectors as u8, crc, birth, self.incarnation)
    }

    fn put(&mut self, entry: &[u8]) {
        let room = self.entry_at..self.entry_at + entry.len();
        self.bytes.front_mut()[room].copy_from_slice(entry);
        self.entry_at += entry.len();
        self.entries += 1;
    }

    fn set_file(&mut self, file: (InodeNo, Version)) {
        if self.file == Some(file) {
            return;
        }
        self.file = Some(file);
        let entry = FileEntry {
            kind: entry_kind::FILE,
            spare: [0; 3],
            version: file.1.into(),
            ino: file.0.0.into(),
        };
        self.put(entry.as_bytes());
    }

    /// Second pass: writes the entry of a block placed before. Moved blocks that were born up
    /// to serial `kept_through` may be part of a snapshot.
    pub fn put_block(&mut self, item: &LogItem, pointer: &Pointer, kept_through: u64) {
        self.set_file(item.file());
        let (kind, height, block, written_ns, source) = match item {
            LogItem::Block {
                block,
                written,
                source,
                ..
            } => (
                entry_kind::BLOCK,
                0,
                *block,
                written.as_ns(),
                source.map(|source| source.pointer.sector()),
            ),
            LogItem::Xattrs { source, .. } => {
                let source = source.map(|source| source.pointer.sector());
                (entry_kind::XATTRS, 0, 0, 0, source)
            }
            LogItem::Node { id, .. } => (entry_kind::NODE, id.height, id.index, 0, None),
            _ => unreachable!("only blocks, attributes and nodes are placed"),
        };
        let birth = if pointer.birth() == self.serial {
            0
        } else {
            pointer.birth()
        };
        let end = self.sector + self.bytes.bytes() as u64 / SECTOR;
        let moved = match pointer.birth() <= kept_through {
            true => entry_flags::MOVED | entry_flags::KEPT,
            false => entry_flags::MOVED,
        };
        let (flags, source, birth) = match source {
            Some(source) => (moved, source, birth),
            None if (self.sector..end).contains(&pointer.sector()) => (0, 0, birth),
            None => plug_fields(pointer),
        };
        let entry = BlockEntry {
            kind,
            sectors: pointer.sectors(),
            flags,
            height,
            crc: pointer.crc().into(),
            block: block.into(),
            birth: birth.into(),
            written_ns: written_ns.into(),
            source: source.into(),
        };
        self.put(entry.as_bytes());
    }

    /// Second pass: writes the entry of a page of the map of `segment`.
    pub fn put_map(&mut self, segment: u32, pointer: &Pointer) {
        let (flags, source, birth) = plug_fields(pointer);
        let entry = BlockEntry {
            kind: entry_kind::MAP,
            sectors: pointer.sectors(),
            flags,
            height: 0,
            crc: pointer.crc().into(),
            block: u64::from(segment).into(),
            birth: birth.into(),
            written_ns: 0.into(),
            source: source.into(),
        };
        self.put(entry.as_bytes());
    }

    /// Second pass: writes an inode, encoded by `encode` into its place.
    pub fn put_inode(
        &mut self,
        geometry: &Geometry,
        file: (InodeNo, Version),
        source: Option<InodePlace>,
        encode: impl FnOnce(&mut [u8]),
    ) -> InodePlace {
        self.set_file(file);
        let inode_bytes = geometry.inode_bytes as usize;
        let at = self.inode_start + self.inodes as usize * inode_bytes;
        let stored = &mut self.bytes.front_mut()[at..at + inode_bytes];
        encode(stored);
        let crc = crc32c(stored);
        let birth = source.map_or(self.serial, |place| place.birth);
        let place = inode_place(
            geometry,
            self.sector,
            self.inode_start,
            self.inodes,
            birth,
            crc,
            self.incarnation,
        );
        self.inodes += 1;
        let entry = InodeEntry {
            kind: entry_kind::INODE,
            flags: if source.is_some() {
                entry_flags::MOVED
            } else {
                0
            },
            source_slot: source.map_or(0, |p| p.slot),
            spare: 0,
            crc: crc.into(),
            birth: if birth == self.serial { 0 } else { birth }.into(),
            source: source.map_or(0, |p| p.sector).into(),
        };
        self.put(entry.as_bytes());
        place
    }

    /// Second pass: writes a record.
    pub fn put_record(&mut self, file: (InodeNo, Version), record: Record) {
        let (kind, from, to) = match record {
            Record::Freed(next) => (entry_kind::FREED, u64::from(next), 0),
            Record::Truncated(from) => (entry_kind::TRUNCATED, from, 0),
            Record::Punched(from, to) => (entry_kind::PUNCHED, from, to),
            Record::Reserved(from, to, _) => (entry_kind::RESERVED, from, to),
        };
        self.set_file(file);
        let entry = RecordEntry {
            kind,
            spare: [0; 7],
            from: from.into(),
            to: to.into(),
        };
        self.put(entry.as_bytes());
    }

    /// Second pass: writes the entry of blocks that were spilled.
    pub fn put_placed(
        &mut self,
        file: (InodeNo, Version),
        block: u64,
        (first, crcs): (&Pointer, &[u32]),
        written_ns: i64,
    ) {
        self.set_file(file);
        let entry = PlacedEntry {
            kind: entry_kind::PLACED,
            sectors: first.sectors(),
            count: (crcs.len() as u16).into(),
            incarnation: first.incarnation().into(),
            block: block.into(),
            birth: first.birth().into(),
            sector: first.sector().into(),
            written_ns: written_ns.into(),
        };
        let mut bytes = entry.as_bytes().to_vec();
        bytes.extend(crcs.iter().flat_map(|crc| crc.to_le_bytes()));
        self.put(&bytes);
    }

    /// Writes the header; returns the `predecessor` field of the successor.
    pub fn finish(&mut self, mut header: SummaryHeader) -> u32 {
        assert!(
            self.entry_at == self.entry_end,
            "entries differ from the plan"
        );
        assert!(
            (self.full_at, self.short_at) == (self.full_end, self.short_end),
            "blocks differ from the plan"
        );
        header.entry_bytes = ((self.entry_at - HEADER_BYTES) as u32).into();
        header.entry_count = self.entries.into();
        header.crc = header
            .computed_crc(&self.bytes.front()[HEADER_BYTES..self.entry_at])
            .into();
        self.bytes.front_mut()[..HEADER_BYTES].copy_from_slice(header.as_bytes());
        header.chain_crc()
    }
}

/// Flags, `source` and `birth` of an entry of a block in a hole.
fn plug_fields(pointer: &Pointer) -> (u8, u64, u64) {
    let opened = pointer.incarnation();
    (entry_flags::PLUG, pointer.sector(), opened.into())
}
