//! Private parsers opened for `fuzz/`. No part of the crate's interface.

use crate::chain::{self, ChainItem, Summary};
use crate::format::history::{DisplacedBlock, ImageHeader, RUNS_FROM};
use crate::format::inode::InodeImage;
use crate::format::{Malformed, Pointer, SECTOR, SummaryHeader, Superblock};
use crate::geometry::Geometry;
use crate::history::{Directory, History, MergedBlocks, MergedImages, Pages, RunEntries, Snapshot};
use std::ops::Range;
use std::sync::Arc;
use varve_device::Block;
use varve_fs::{Inode, InodeNo, Timestamp};

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

/// Bytes of a page of [`history`].
const PAGE_BYTES: usize = 4096;
/// Bytes of an inode there.
const INODE_BYTES: usize = 256;

/// A history file: the first page has its directory, the others the blocks from which
/// runs may begin.
struct HistoryPages<'a>(&'a [u8]);

impl Pages for HistoryPages<'_> {
    fn page(&self, block: u64) -> crate::Result<Arc<Block>> {
        let behind = block.checked_sub(RUNS_FROM).map_or(0, |nth| nth + 1);
        let start = usize::try_from(behind)
            .ok()
            .and_then(|nth| nth.checked_mul(PAGE_BYTES));
        let page = start.and_then(|start| self.0.get(start..)?.get(..PAGE_BYTES));
        let missing = || Malformed::new("history", format!("block {block} is missing"));
        Ok(Arc::new(page.ok_or_else(missing)?.to_vec().into()))
    }

    fn page_bytes(&self) -> usize {
        PAGE_BYTES
    }
}

/// Parses a history file as a mount, the cleaner, a fold and readers of snapshots do.
///
/// # Errors
/// Says what of it cannot be read.
pub fn history(data: &[u8]) -> crate::Result<()> {
    let directory = Directory::decode(&data[..data.len().min(PAGE_BYTES)])?;
    assert_eq!(
        Directory::decode(&directory.encode()),
        Ok(directory.clone())
    );
    let pages = HistoryPages(data);
    let history = History {
        directory: &directory,
        pages: &pages,
        inode_bytes: INODE_BYTES,
    };
    let mut blocks = MergedBlocks::new(&history, &directory.runs)?;
    while let Some(entry) = blocks.next()? {
        let (identity, last) = (entry.identity(), entry.last.get());
        let keeps = directory.keeps(entry.pointer.birth(), last);
        assert!(
            !keeps
                || directory
                    .snapshots
                    .iter()
                    .any(|s| s.has(entry.pointer.birth(), last))
        );
        let _ = history.entry_of(identity, entry.pointer.birth());
        let _ = history.blocks_at(identity, identity.block.saturating_add(9), last);
        let _ = history.next_displaced(identity, last);
    }
    let mut images = MergedImages::new(&history, &directory.runs)?;
    while let Some((header, inode)) = images.next()? {
        let ino = header.ino.get();
        let _ = InodeImage::decode(&inode, InodeNo(ino));
        let _ = history.image_at(ino, header.last.get());
    }
    Ok(())
}

/// A history file of two snapshots and one run, for [`history`].
pub fn history_example() -> Vec<u8> {
    let mut entries = RunEntries::default();
    for block in 0..90 {
        let identity = crate::kept::data_block(InodeNo(7), 1, block);
        let pointer = Pointer::new(1000 + 8 * block, 8, 1, 5 + block % 7, 1);
        entries.block(&DisplacedBlock::new(
            identity,
            1 + (block % 2) as u32,
            pointer,
        ));
    }
    let image = InodeImage {
        inode: Inode::new(InodeNo(7), 1, 0o100_644, Timestamp::default()),
        root: None,
        xattrs: Pointer::NONE,
    };
    let mut inode = vec![0; INODE_BYTES];
    image.encode(&mut inode);
    let header = ImageHeader {
        ino: 7.into(),
        version: 1.into(),
        after: 0.into(),
        last: 1.into(),
        spare: [0; 12],
    };
    entries.image(header, &inode);
    let encoded = entries.encode(RUNS_FROM, 3, PAGE_BYTES);
    let snapshot = |number: u32| Snapshot {
        number,
        deleted: number == 2,
        position: 8 * u64::from(number),
        taken_ns: 0,
        checkpoint: number.into(),
        name: format!("s{number}"),
    };
    let directory = Directory {
        snapshots: vec![snapshot(1), snapshot(2)],
        runs: vec![encoded.run],
        newest: 2,
        ..Directory::default()
    };
    let mut file = directory.encode();
    file.resize(PAGE_BYTES, 0);
    file.extend(encoded.bytes);
    file
}
