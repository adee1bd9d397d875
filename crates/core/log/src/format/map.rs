//! The map of a plugged segment: its live blocks (`docs/design/holes.md`).
//!
//! A map is one or several pages of a block each, which are in holes of the segment that
//! they describe. It names every live block there, plugs included; the segment's own
//! summaries describe the blocks written at its head, and no plugs.

use super::{Malformed, SECTOR, crc32c, entries};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of every page after its checksum.
pub const MAGIC: u32 = u32::from_le_bytes(*b"VMAP");

/// Header of a page, 64 bytes; [`MapEntry`] follow, then zeros to the block's end.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct MapHeader {
    /// CRC-32C of every later byte of the page.
    pub crc: U32,
    /// Always [`MAGIC`].
    pub magic: U32,
    /// First eight bytes of the volume's UUID.
    pub volume_tag: U64,
    /// Sector address of this page, by which a misplaced one is recognised.
    pub sector: U64,
    /// Serial of the partial segment of which it is a part.
    pub serial: U64,
    /// Number of the segment.
    pub segment: U32,
    /// Incarnation of the segment.
    pub incarnation: U32,
    /// Index of the page in the map, from 0.
    pub page: U16,
    /// Number of pages of the map.
    pub pages: U16,
    /// Entries in this page.
    pub entry_count: U32,
    /// Number of the mount that wrote it.
    pub mount: U32,
    /// Zero.
    pub spare: [u8; 12],
}
const _: () = assert!(size_of::<MapHeader>() == HEADER_BYTES);

/// Bytes of a [`MapHeader`].
pub const HEADER_BYTES: usize = 64;

/// A live block of the segment.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct MapEntry {
    /// Inode number.
    pub ino: U64,
    /// Logical block number; 0 for attributes.
    pub block: U64,
    /// Serial that first wrote this version.
    pub birth: U64,
    /// Last user write, in nanoseconds since 1970.
    pub written_ns: I64,
    /// CRC-32C of the stored sectors.
    pub crc: U32,
    /// Version of the inode.
    pub version: U32,
    /// First sector, counted from the segment's start.
    pub sector: U32,
    /// Stored sectors.
    pub sectors: u8,
    /// 1 for extended attributes, else 0.
    pub xattrs: u8,
    /// Zero.
    pub spare: U16,
}
const _: () = assert!(size_of::<MapEntry>() == ENTRY_BYTES);

/// Bytes of a [`MapEntry`].
pub const ENTRY_BYTES: usize = 48;

/// Most entries of a page of `block_bytes`.
pub fn entries_per_page(block_bytes: u32) -> usize {
    (block_bytes as usize - HEADER_BYTES) / ENTRY_BYTES
}

/// A page of `block_bytes` with these entries; the header's checksum is computed.
///
/// # Panics
/// If there are more entries than fit.
pub fn encode(header: MapHeader, entries: &[MapEntry], block_bytes: u32) -> Vec<u8> {
    assert!(
        entries.len() <= entries_per_page(block_bytes),
        "a page is full"
    );
    let mut page = Vec::with_capacity(block_bytes as usize);
    page.extend_from_slice(header.as_bytes());
    page.extend_from_slice(entries.as_bytes());
    page.resize(block_bytes as usize, 0);
    let crc = U32::new(crc32c(&page[4..]));
    page[..4].copy_from_slice(crc.as_bytes());
    page
}

/// Parses the page of `segment` at `sector`; `page` is a block.
///
/// # Errors
/// If it is not a page of a map of this segment, for this place.
pub fn parse(
    page: &[u8],
    volume_tag: u64,
    sector: u64,
    (segment, incarnation): (u32, u32),
) -> Result<(MapHeader, &[MapEntry]), Malformed> {
    let bad = |problem: &str| Malformed::new("map of a segment", problem);
    let (header, rest) = MapHeader::read_from_prefix(page).map_err(|_| bad("too short"))?;
    if header.magic.get() != MAGIC {
        return Err(bad("none here"));
    }
    if header.volume_tag.get() != volume_tag || header.sector.get() != sector {
        return Err(bad("written for another place"));
    }
    if header.segment.get() != segment || header.incarnation.get() != incarnation {
        return Err(bad("of another segment, or a former life of it"));
    }
    if header.page.get() >= header.pages.get() {
        return Err(bad("its number is beyond their count"));
    }
    let computed = crc32c(&page[4..]);
    if computed != header.crc.get() {
        return Err(Malformed::checksum(
            "map of a segment",
            computed,
            header.crc.get(),
        ));
    }
    let entries = entries::<MapEntry>(rest)
        .get(..header.entry_count.get() as usize)
        .ok_or_else(|| bad("more entries than fit"))?;
    if entries.iter().any(|entry| entry.sectors == 0) {
        return Err(bad("an entry of no length"));
    }
    Ok((header, entries))
}

impl MapEntry {
    /// Sectors of the block within the segment.
    pub fn range(&self) -> std::ops::Range<u64> {
        let first = u64::from(self.sector.get());
        first..first + u64::from(self.sectors)
    }

    /// Byte offset after the block within the segment.
    pub fn end(&self) -> u64 {
        self.range().end * SECTOR
    }
}
