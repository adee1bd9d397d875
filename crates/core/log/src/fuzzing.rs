//! Private parsers opened for `fuzz/`. No part of the crate's interface.

use crate::chain::{self, ChainItem, Summary};
use crate::format::{Malformed, SECTOR, SummaryHeader, Superblock};
use crate::geometry::Geometry;
use std::ops::Range;

/// One stored block, node or inode of a partial segment.
#[derive(Debug, Clone)]
pub struct Payload {
    /// Its bytes within the segment.
    pub range: Range<usize>,
    /// The inode it belongs to.
    pub ino: u64,
    /// It is a data block: nothing here parses it, unless of a directory or the ifile.
    pub data: bool,
}

/// A partial segment whose summary and entries are sound.
#[derive(Debug, Clone)]
pub struct Partial {
    /// The fixed part of its summary.
    pub header: SummaryHeader,
    /// What its entries describe, in their order.
    pub payload: Vec<Payload>,
    /// Whether the payload has its checksums.
    pub verified: Result<(), Malformed>,
}

/// Parses the partial segment at `offset` of `image`, the bytes of one whole
/// segment, as recovery, cleaner and fsck do.
///
/// # Errors
/// Says why there is none.
pub fn partial(
    image: &[u8],
    superblock: &Superblock,
    segment: u32,
    offset: u32,
) -> Result<Partial, Malformed> {
    let geometry = Geometry::from(superblock);
    let summary = Summary::parse(image, &geometry, superblock.volume_tag(), segment, offset)?;
    let items = summary.items(&geometry)?;
    let bytes = &image[offset as usize..][..summary.bytes() as usize];
    // Plugs stand in other segments.
    let stored = chain::Payload::of(bytes.to_vec());
    let mut payload = Vec::new();
    for item in &items {
        let (ino, data, sector, slot) = match item {
            ChainItem::Record { .. } | ChainItem::Placed { .. } | ChainItem::Map { .. } => continue,
            ChainItem::Block {
                ino,
                pointer,
                xattrs,
                ..
            } => (ino.0, !xattrs, pointer.sector(), 0),
            ChainItem::Node { id, pointer, .. } => (id.ino.0, false, pointer.sector(), 0),
            ChainItem::Inode { ino, place, .. } => (ino.0, false, place.sector, place.slot),
        };
        let length = summary.stored(&geometry, item, &stored).len();
        if length == 0 {
            continue;
        }
        let within = (sector - summary.header.sector.get()) * SECTOR;
        let start = offset as usize + within as usize + usize::from(slot) * length;
        payload.push(Payload {
            range: start..start + length,
            ino,
            data,
        });
    }
    Ok(Partial {
        header: summary.header,
        payload,
        verified: summary.verify(&geometry, &items, &stored),
    })
}

/// Blocks that maps in `image`, the bytes of one whole segment in its opening
/// under this number, tell of, each within the segment.
pub fn mapped(image: &[u8], superblock: &Superblock, segment: u32, incarnation: u32) -> usize {
    let geometry = Geometry::from(superblock);
    let pages = chain::maps_in(
        image,
        &geometry,
        superblock.volume_tag(),
        segment,
        incarnation,
    );
    let items = pages.iter().flat_map(|page| &page.items);
    let within = |item: &&ChainItem| {
        let pointer = item.pointer();
        pointer.is_some_and(|p| geometry.within_segment(p.sector(), p.sectors().into()))
    };
    items.filter(within).count()
}
