//! Finding the maps of a plugged segment among its bytes (`docs/design/holes.md`).

use super::ChainItem;
use crate::format::index::MAX_BLOCK;
use crate::format::map::{self, MapEntry};
use crate::format::{Pointer, SECTOR};
use crate::geometry::Geometry;
use varve_fs::InodeNo;

/// A page of a map, and where it stands.
#[derive(Clone, Debug)]
pub struct MapPage {
    /// Serial of the partial segment that it is part of.
    pub serial: u64,
    /// Number of the mount that wrote it.
    pub mount: u32,
    /// Byte offset within the segment.
    pub offset: u32,
    /// The blocks that it tells of.
    pub items: Vec<ChainItem>,
}

impl MapPage {
    /// The page of a map of `segment`, in this opening of it, that stands at
    /// byte `offset` of that, if `page`, a block, is one.
    pub fn parse(
        page: &[u8],
        geometry: &Geometry,
        volume_tag: u64,
        of: (u32, u32),
        offset: u32,
    ) -> Option<Self> {
        let sector = geometry.byte(of.0, offset) / SECTOR;
        let (header, entries) = map::parse(page, volume_tag, sector, of).ok()?;
        let inside = |entry: &&MapEntry| {
            let xattrs = entry.xattrs;
            entry.range().start * SECTOR >= u64::from(geometry.payload_start(of.0))
                && entry.end() <= u64::from(geometry.segment_bytes)
                && entry.block.get() < MAX_BLOCK
                && entry.ino.get() != InodeNo::IFILE.0
                && (xattrs == 0 || xattrs == 1 && entry.block.get() == 0)
        };
        let first = geometry.byte(of.0, 0) / SECTOR;
        let item = |entry: &MapEntry| ChainItem::Block {
            ino: InodeNo(entry.ino.get()),
            version: entry.version.get(),
            block: entry.block.get(),
            pointer: Pointer::new(
                first + entry.range().start,
                entry.sectors,
                entry.crc.get(),
                entry.birth.get(),
                of.1,
            ),
            written_ns: entry.written_ns.get(),
            source: None,
            kept: false,
            spilled: false,
            xattrs: entry.xattrs != 0,
        };
        Some(MapPage {
            serial: header.serial.get(),
            mount: header.mount.get(),
            offset,
            items: entries.iter().filter(inside).map(item).collect(),
        })
    }
}

/// What a map says of a block in a segment that begins at sector `first`; none
/// of anything but a block.
pub fn map_entry(item: &ChainItem, first: u64) -> Option<MapEntry> {
    let ChainItem::Block {
        ino,
        version,
        block,
        pointer,
        written_ns,
        xattrs,
        ..
    } = item
    else {
        return None;
    };
    Some(MapEntry {
        ino: ino.0.into(),
        block: (*block).into(),
        birth: pointer.birth().into(),
        written_ns: (*written_ns).into(),
        crc: pointer.crc().into(),
        version: (*version).into(),
        sector: ((pointer.sector() - first) as u32).into(),
        sectors: pointer.sectors(),
        xattrs: u8::from(*xattrs),
        spare: 0.into(),
    })
}

/// Every page of a map of this opening of a segment in `image`, its bytes.
/// Where one was written over in part, or its file's content looks like one,
/// what it says is for pointers to confirm.
pub fn maps_in(
    image: &[u8],
    geometry: &Geometry,
    volume_tag: u64,
    segment: u32,
    incarnation: u32,
) -> Vec<MapPage> {
    if !geometry.aligned {
        return Vec::new();
    }
    let (unit, block) = (geometry.write_unit as usize, geometry.block_bytes as usize);
    let from = geometry.payload_start(segment) as usize;
    let places = (from..=image.len().saturating_sub(block)).step_by(unit);
    let of = (segment, incarnation);
    let page_at = |offset: usize| {
        let page = &image[offset..offset + block];
        MapPage::parse(page, geometry, volume_tag, of, offset as u32)
    };
    places.filter_map(page_at).collect()
}
