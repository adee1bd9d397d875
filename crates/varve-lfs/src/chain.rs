//! Reading partial segments back: one parser for recovery, cleaner and fsck.

mod walk;

use crate::apply::Record;
use crate::base::MAX_BLOCK;
use crate::error::Result;
use crate::format::ifile::InodePlace;
use crate::format::node::NodeId;
use crate::format::summary::{
    BlockEntry, Entries, Entry, HEADER_BYTES, RecordEntry, entry_flags, entry_kind,
};
use crate::format::{LogPosition, Malformed, Pointer, SECTOR, SummaryHeader, crc32c};
use crate::geometry::Geometry;
use crate::log::inode_place;
use crate::reader::{ReadCause, Reader};
use varve_fs::planted::{self, Planted};
use varve_fs::{InodeNo, Version};
pub use walk::{summaries_of, summaries_while};

/// A summary that has proved to be whole, and where it stands.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The fixed part.
    pub header: SummaryHeader,
    /// The entries' bytes.
    pub entries: Vec<u8>,
    /// Its segment.
    pub segment: u32,
    /// Byte offset within it.
    pub offset: u32,
}

/// One entry with everything that follows from its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainItem {
    /// A record.
    Record {
        /// Whose.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// What.
        record: Record,
    },
    /// A data block, or with `xattrs` the extended attributes.
    Block {
        /// Whose.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// Logical block number.
        block: u64,
        /// Where.
        pointer: Pointer,
        /// Nanoseconds since 1970 of the last user write.
        written_ns: i64,
        /// Former sector address, if the cleaner moved it.
        source: Option<u64>,
        /// It holds the extended attributes.
        xattrs: bool,
    },
    /// An index node.
    Node {
        /// Which.
        id: NodeId,
        /// The file's version.
        version: Version,
        /// Where.
        pointer: Pointer,
    },
    /// An inode.
    Inode {
        /// Which.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// Where.
        place: InodePlace,
        /// Former place, if the cleaner moved it.
        source: Option<(u64, u8)>,
    },
}

impl ChainItem {
    /// The file it belongs to.
    pub fn ino(&self) -> InodeNo {
        match self {
            ChainItem::Record { ino, .. }
            | ChainItem::Block { ino, .. }
            | ChainItem::Inode { ino, .. } => *ino,
            ChainItem::Node { id, .. } => id.ino,
        }
    }

    /// Where the cleaner moved it from, if it did.
    pub fn source_sector(&self) -> Option<u64> {
        match self {
            ChainItem::Block { source, .. } => *source,
            ChainItem::Inode { source, .. } => source.map(|(sector, _)| sector),
            ChainItem::Record { .. } | ChainItem::Node { .. } => None,
        }
    }
}

impl Summary {
    /// Bytes of the whole partial segment.
    pub fn bytes(&self) -> u32 {
        self.header.sectors.get() * SECTOR as u32
    }

    /// Bytes of the header and the entries.
    pub fn summary_bytes(&self) -> u32 {
        (HEADER_BYTES + self.entries.len()) as u32
    }

    /// Reads and validates the summary at `offset` of `segment`.
    ///
    /// # Errors
    /// Device errors. `Ok(Err(..))` says why there is no summary.
    pub fn read(
        reader: &Reader,
        geometry: &Geometry,
        volume_tag: u64,
        segment: u32,
        offset: u32,
    ) -> Result<std::result::Result<Summary, Malformed>> {
        let cause = ReadCause::Recovery;
        Self::read_for(cause, reader, geometry, volume_tag, segment, offset)
    }

    /// As [`Summary::read`], counted under its cause.
    ///
    /// # Errors
    /// As there.
    pub fn read_for(
        cause: ReadCause,
        reader: &Reader,
        geometry: &Geometry,
        volume_tag: u64,
        segment: u32,
        offset: u32,
    ) -> Result<std::result::Result<Summary, Malformed>> {
        let unit = geometry.write_unit as usize;
        let sector = geometry.byte(segment, offset) / SECTOR;
        let mut bytes = vec![0; unit];
        reader.read_for(cause, sector, &mut bytes)?;
        let header = match Self::header(&bytes, geometry, volume_tag, segment, offset) {
            Ok(header) => header,
            Err(malformed) => return Ok(Err(malformed)),
        };
        let end = HEADER_BYTES + header.entry_bytes.get() as usize;
        if end > unit {
            bytes.resize(end.next_multiple_of(unit), 0);
            reader.read_for(cause, sector, &mut bytes)?;
        }
        Ok(Self::finish(header, &bytes, segment, offset))
    }

    /// As [`Summary::read`], from the bytes of the whole segment.
    ///
    /// # Errors
    /// Says why there is no summary.
    pub fn parse(
        image: &[u8],
        geometry: &Geometry,
        volume_tag: u64,
        segment: u32,
        offset: u32,
    ) -> std::result::Result<Summary, Malformed> {
        let bytes = image.get(offset as usize..).unwrap_or(&[]);
        let header = Self::header(bytes, geometry, volume_tag, segment, offset)?;
        Self::finish(header, bytes, segment, offset)
    }

    /// The fixed part alone, from `bytes` that begin at its place. It lies in
    /// one sector, which the power does not tear: while these bytes stand,
    /// everything behind them may still change.
    ///
    /// # Errors
    /// Says why there is none.
    pub fn header(
        bytes: &[u8],
        geometry: &Geometry,
        volume_tag: u64,
        segment: u32,
        offset: u32,
    ) -> std::result::Result<SummaryHeader, Malformed> {
        let sector = geometry.byte(segment, offset) / SECTOR;
        let header = SummaryHeader::parse(bytes, volume_tag, sector)?;
        let length = u64::from(header.sectors.get()) * SECTOR;
        let room = u64::from(geometry.segment_bytes.saturating_sub(offset));
        if length > room || !length.is_multiple_of(u64::from(geometry.write_unit)) {
            return Err(Malformed::new(
                "summary",
                format!("length {length} of {room} bytes"),
            ));
        }
        if header.next_segment.get() >= geometry.segment_count {
            return Err(Malformed::new(
                "summary",
                "names a segment beyond the volume",
            ));
        }
        Ok(header)
    }

    fn finish(
        header: SummaryHeader,
        bytes: &[u8],
        segment: u32,
        offset: u32,
    ) -> std::result::Result<Summary, Malformed> {
        let end = HEADER_BYTES + header.entry_bytes.get() as usize;
        let entries = bytes
            .get(HEADER_BYTES..end)
            .ok_or_else(|| Malformed::new("summary", "entries beyond the segment"))?;
        header.verify_entries(entries)?;
        Ok(Summary {
            header,
            entries: entries.to_vec(),
            segment,
            offset,
        })
    }

    /// Where the inodes begin, in sectors of the partial segment.
    fn inode_sector(
        &self,
        geometry: &Geometry,
        entries: &[Entry],
    ) -> std::result::Result<u64, Malformed> {
        let (mut block_sectors, mut inode_bytes) = (0, 0);
        for entry in entries {
            match entry {
                Entry::Block(block) => block_sectors += u64::from(block.sectors),
                Entry::Inode(_) => inode_bytes += u64::from(geometry.inode_bytes),
                Entry::File(_) | Entry::Record(_) => {}
            }
        }
        let first = self.header.summary_sectors() + block_sectors;
        let fits = first + inode_bytes.div_ceil(SECTOR) <= u64::from(self.header.sectors.get());
        if fits || planted::is(Planted::UncheckedLength) {
            Ok(first)
        } else {
            let problem = "entries describe more than the partial segment holds";
            Err(Malformed::new("summary", problem))
        }
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
        let entries: Vec<Entry> =
            Entries::new(&self.entries).collect::<std::result::Result<_, _>>()?;
        let inode_sector = self.inode_sector(geometry, &entries)?;
        let mut sector = start + self.header.summary_sectors();
        let mut inodes = 0;
        let mut file = None;
        let mut items = Vec::with_capacity(entries.len());
        for entry in entries {
            if let Entry::File(of) = entry {
                file = Some((InodeNo(of.ino.get()), of.version.get()));
                continue;
            }
            let (ino, version) = file.ok_or_else(|| bad("an entry before any file"))?;
            items.push(match entry {
                Entry::File(_) => unreachable!("handled above"),
                Entry::Block(block) => {
                    if block.block.get() >= MAX_BLOCK {
                        return Err(bad("a block beyond the largest file"));
                    }
                    let place = sector;
                    sector += u64::from(block.sectors);
                    let crc = block.crc.get();
                    let birth = birth(block.birth.get());
                    let pointer = Pointer::new(place, block.sectors, crc, birth, incarnation);
                    block_item(ino, version, &block, pointer)
                }
                Entry::Inode(inode) => {
                    let place = inode_place(
                        geometry,
                        start,
                        (inode_sector * SECTOR) as usize,
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

    /// The stored bytes of an item within `partial`, the whole partial segment.
    pub fn stored<'b>(&self, geometry: &Geometry, item: &ChainItem, partial: &'b [u8]) -> &'b [u8] {
        let start = self.header.sector.get();
        match item {
            ChainItem::Record { .. } => &[],
            ChainItem::Block { pointer, .. } | ChainItem::Node { pointer, .. } => {
                let at = ((pointer.sector() - start) * SECTOR) as usize;
                &partial[at..at + usize::from(pointer.sectors()) * SECTOR as usize]
            }
            ChainItem::Inode { place, .. } => {
                let inode_bytes = geometry.inode_bytes as usize;
                let at = ((place.sector - start) * SECTOR) as usize
                    + usize::from(place.slot) * inode_bytes;
                &partial[at..at + inode_bytes]
            }
        }
    }

    /// Checks every block and inode of the payload against its checksum.
    ///
    /// # Errors
    /// Names the first that differs.
    pub fn verify(
        &self,
        geometry: &Geometry,
        items: &[ChainItem],
        partial: &[u8],
    ) -> std::result::Result<(), Malformed> {
        if planted::is(Planted::UncheckedPayload) {
            return Ok(());
        }
        for item in items {
            let expected = match item {
                ChainItem::Record { .. } => continue,
                ChainItem::Block { pointer, .. } | ChainItem::Node { pointer, .. } => pointer.crc(),
                ChainItem::Inode { place, .. } => place.crc,
            };
            let found = crc32c(self.stored(geometry, item, partial));
            if found != expected {
                let problem = format!("{item:?} has checksum {found:#010x}");
                return Err(Malformed::new("partial segment", problem));
            }
        }
        Ok(())
    }

    /// The whole partial segment, from the device.
    ///
    /// # Errors
    /// Device errors.
    pub fn read_partial(&self, reader: &Reader) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.bytes() as usize];
        reader.read_uncached(self.header.sector.get(), &mut bytes)?;
        Ok(bytes)
    }
}

/// True to rules 8 and 9: `header`, found at the successor's place, was written
/// behind the partial that ends at `position`, and behind no other.
///
/// # Errors
/// Says what disagrees.
pub fn follows(
    geometry: &Geometry,
    position: &LogPosition,
    header: &SummaryHeader,
) -> std::result::Result<(), Malformed> {
    let bad = |problem: String| Err(Malformed::new("summary", problem));
    let (segment, _, enters) = geometry.successor(position);
    let serial = position.serial.get() + 1;
    if header.serial.get() != serial {
        return bad(format!("serial {}, want {serial}", header.serial));
    }
    if planted::is(Planted::PredecessorUnchecked) {
        return Ok(());
    }
    if header.predecessor != position.predecessor {
        return bad("does not follow its predecessor: of a former life".into());
    }
    if header.incarnation.get() < position.incarnation.get() {
        return bad("written by an earlier mount than its predecessor".into());
    }
    let same_segment = header.next_segment == position.next_segment
        && header.segment_incarnation == position.segment_incarnation;
    if !enters && !same_segment {
        return bad("disagrees with its predecessor about the segment".into());
    }
    if header.next_segment.get() == segment {
        return bad("names its own segment as the next".into());
    }
    Ok(())
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

fn block_item(ino: InodeNo, version: Version, block: &BlockEntry, pointer: Pointer) -> ChainItem {
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
        xattrs: block.kind == entry_kind::XATTRS,
    }
}
