//! Reading partial segments back: one parser for recovery, cleaner and fsck.

mod items;
mod maps;
mod payload;
mod walk;

use crate::apply::Record;
use crate::error::Result;
use crate::format::ifile::InodePlace;
use crate::format::node::NodeId;
use crate::format::summary::HEADER_BYTES;
use crate::format::{LogPosition, Malformed, Pointer, SECTOR, SummaryHeader};
use crate::geometry::Geometry;
use crate::reader::{ReadCause, Reader};
pub use maps::{MapPage, map_entry, maps_in};
pub use payload::Payload;
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
        /// The cleaner moved it, and it may be part of a snapshot.
        kept: bool,
        /// It holds the extended attributes.
        xattrs: bool,
        /// It was written before its transaction was committed: by itself it is part of
        /// nothing.
        spilled: bool,
    },
    /// A block that was spilled, and is part of its file from here on.
    Placed {
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
    /// A page of the map of a plugged segment.
    Map {
        /// The segment, in which it stands.
        segment: u32,
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
    /// Where a block, a node or a map is. What is placed stands elsewhere, and is not
    /// part of the group.
    pub fn pointer(&self) -> Option<&Pointer> {
        match self {
            ChainItem::Block { pointer, .. }
            | ChainItem::Node { pointer, .. }
            | ChainItem::Map { pointer, .. } => Some(pointer),
            ChainItem::Record { .. } | ChainItem::Placed { .. } | ChainItem::Inode { .. } => None,
        }
    }

    /// The file it belongs to; a map is the volume's own.
    pub fn ino(&self) -> InodeNo {
        match self {
            ChainItem::Map { .. } => InodeNo::IFILE,
            ChainItem::Record { ino, .. }
            | ChainItem::Block { ino, .. }
            | ChainItem::Placed { ino, .. }
            | ChainItem::Inode { ino, .. } => *ino,
            ChainItem::Node { id, .. } => id.ino,
        }
    }

    /// Where the cleaner moved it from, if it did.
    pub fn source_sector(&self) -> Option<u64> {
        match self {
            ChainItem::Block { source, .. } => *source,
            ChainItem::Inode { source, .. } => source.map(|(sector, _)| sector),
            ChainItem::Record { .. }
            | ChainItem::Placed { .. }
            | ChainItem::Node { .. }
            | ChainItem::Map { .. } => None,
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
        Self::begins(bytes, geometry, volume_tag, segment, offset)
    }

    /// As [`Summary::read`], from bytes that begin at its place.
    ///
    /// # Errors
    /// Says why there is no summary.
    pub fn begins(
        bytes: &[u8],
        geometry: &Geometry,
        volume_tag: u64,
        segment: u32,
        offset: u32,
    ) -> std::result::Result<Summary, Malformed> {
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
        if header.next_segment.get() >= geometry.segment_count && !geometry.shrunk {
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
    if header.next_segment.get() >= geometry.segment_count {
        return bad("names a segment beyond the volume".into());
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
