//! The four calls, in the process.

use crate::chain::{ChainItem, summaries_of};
use crate::error::Result;
use crate::format::ifile::InodePlace;
use crate::format::inode::InodeImage;
use crate::format::node::NodeId;
use crate::format::{Pointer, SECTOR, crc32c};
use crate::lfs::Lfs;
use crate::log::{GroupKind, LogItem};
use crate::segments::SegmentState;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use varve_fs::planted::{self, Planted};
use varve_fs::{InodeNo, Timestamp, Version};

/// Bytes of moves appended in one group: an fsync never waits for more.
const GROUP_BYTES: usize = 1 << 20;

/// One block found in a segment (thesis figure 6-5).
#[derive(Clone, Debug)]
pub struct BlockInfo {
    /// What the summary says of it.
    pub item: ChainItem,
    /// Its stored bytes.
    pub bytes: Vec<u8>,
}

/// What one segment holds, dead or alive.
#[derive(Clone, Debug, Default)]
pub struct SegmentContents {
    /// The segment's incarnation when it was read.
    pub incarnation: u32,
    /// Blocks, nodes and inodes in the order they were written.
    pub blocks: Vec<BlockInfo>,
}

/// The live part of a segment, and the checkpoint it was judged against.
#[derive(Debug, Default)]
pub struct Found {
    moves: Vec<(LogItem, usize)>,
    /// Live index nodes, and what rewriting each may write.
    touched_nodes: Vec<(NodeId, u64)>,
    touched_ifile: Vec<u64>,
    base_serial: Option<u64>,
    /// The image changed between two look-ups: judge again.
    inconsistent: bool,
    /// Live blocks whose checksum is wrong.
    pub damaged: u32,
}

/// A file that is gone has no blocks.
fn gone<T>(error: crate::Error) -> Result<Option<T>> {
    match error {
        crate::Error::NoInode(_) => Ok(None),
        error => Err(error),
    }
}

/// Nanoseconds since 1970 of the last user write of what is moved.
fn written_ns(item: &LogItem) -> i64 {
    match item {
        LogItem::Block { written, .. } => written.as_ns(),
        LogItem::MovedInode { image, .. } => image.inode.ctime.as_ns(),
        _ => i64::MIN, // attributes are hardly ever written again
    }
}

impl Found {
    /// Takes in what lives in another segment.
    pub(super) fn append(&mut self, other: Found) {
        if let Some(serial) = other.base_serial {
            self.judged_against(serial);
        }
        self.inconsistent |= other.inconsistent;
        self.moves.extend(other.moves);
        self.touched_nodes.extend(other.touched_nodes);
        self.touched_ifile.extend(other.touched_ifile);
        self.damaged += other.damaged;
    }

    /// Age sort (Rosenblum & Ousterhout 1992, §3.5): the oldest first.
    pub(super) fn sort_by_age(&mut self) {
        self.moves.sort_by_key(|(item, _)| written_ns(item));
    }

    fn judged_against(&mut self, serial: u64) {
        match self.base_serial {
            None => self.base_serial = Some(serial),
            Some(before) => self.inconsistent |= before != serial,
        }
    }
}

impl Lfs {
    /// Reads a segment and lists what its summaries describe.
    ///
    /// # Errors
    /// Device errors.
    pub fn read_segment(&self, segment: u32) -> Result<SegmentContents> {
        let geometry = &self.geometry;
        let incarnation = self.segments.lock().get(segment).incarnation;
        let mut image = vec![0; geometry.segment_bytes as usize];
        self.reader
            .read_uncached(geometry.byte(segment, 0) / SECTOR, &mut image)?;
        for partial in self.durability.failed_partials() {
            // What the device refused is in memory only.
            if let Some(at) = (partial.sector * SECTOR).checked_sub(geometry.byte(segment, 0))
                && let Some(place) = image.get_mut(at as usize..at as usize + partial.bytes.len())
            {
                place.copy_from_slice(&partial.bytes);
            }
        }
        self.counters
            .cleaner_read_bytes
            .fetch_add(image.len() as u64, Relaxed);
        let mut contents = SegmentContents {
            incarnation,
            ..SegmentContents::default()
        };
        for summary in summaries_of(&image, geometry, self.volume_tag, segment, incarnation) {
            let start = summary.offset as usize;
            let partial = &image[start..start + summary.bytes() as usize];
            for item in summary.items(geometry)? {
                if !matches!(item, ChainItem::Record { .. }) {
                    let bytes = summary.stored(geometry, &item, partial).to_vec();
                    contents.blocks.push(BlockInfo { item, bytes });
                }
            }
        }
        Ok(contents)
    }

    /// Which of these blocks are live, judged against committed pointers only.
    ///
    /// # Errors
    /// Device errors while reading the index.
    pub fn bmapv(&self, blocks: &[BlockInfo]) -> Result<Found> {
        let mut found = Found::default();
        for info in blocks {
            match info.item {
                ChainItem::Record { .. } => {}
                ChainItem::Block {
                    ino: InodeNo::IFILE,
                    block,
                    pointer,
                    ..
                } => {
                    if self.ifile_holds(block, &pointer)?
                        && self.is_whole(info, &pointer, &mut found)
                    {
                        found.touched_ifile.push(block);
                    }
                }
                ChainItem::Block {
                    ino,
                    version,
                    block,
                    pointer,
                    written_ns,
                    xattrs,
                    ..
                } => {
                    if self.is_live(ino, version, block, &pointer, xattrs, &mut found)? {
                        self.found_block(
                            &mut found, info, ino, version, block, pointer, written_ns, xattrs,
                        );
                    }
                }
                ChainItem::Node { id, pointer, .. } => {
                    if let Some(above) = self.live_node(id, &pointer)?
                        && self.is_whole(info, &pointer, &mut found)
                    {
                        let price = info.bytes.len() as u64 + above;
                        found.touched_nodes.push((id, price));
                    }
                }
                ChainItem::Inode {
                    ino,
                    version,
                    place,
                    ..
                } => {
                    let (current, serial) = self.lookup().inode_place(ino)?;
                    found.judged_against(serial);
                    if current == Some((version, place)) {
                        self.found_inode(&mut found, info, ino, place);
                    }
                }
            }
        }
        Ok(found)
    }

    fn is_live(
        &self,
        ino: InodeNo,
        version: Version,
        block: u64,
        pointer: &Pointer,
        xattrs: bool,
        found: &mut Found,
    ) -> Result<bool> {
        let lookup = self.lookup();
        match lookup.inode_place(ino)?.0 {
            Some((current, _)) if current == version => {}
            _ => return Ok(false),
        }
        // Known images keep the price of folding the move low.
        let _known = self.image(ino);
        let current = if xattrs {
            found.judged_against(self.committed.read().base.serial);
            lookup.xattrs(ino).map(Some).or_else(gone)?
        } else {
            match lookup
                .blocks(ino, block, block + 1)
                .map(Some)
                .or_else(gone)?
            {
                Some((blocks, serial)) => {
                    found.judged_against(serial);
                    blocks.first().map(|b| b.1)
                }
                None => None,
            }
        };
        Ok(current.is_some_and(|p| p.same_copy(pointer.sector(), pointer.birth())))
    }

    #[expect(clippy::too_many_arguments, reason = "what a summary says of a block")]
    fn found_block(
        &self,
        found: &mut Found,
        info: &BlockInfo,
        ino: InodeNo,
        version: Version,
        block: u64,
        pointer: Pointer,
        written_ns: i64,
        xattrs: bool,
    ) {
        let Some(bytes) = self.whole(info, pointer.sector(), 0, pointer.crc()) else {
            tracing::error!(%ino, block, sector = pointer.sector(), "the cleaner met a damaged block");
            let byte = pointer.sector() * SECTOR;
            self.counters.failures.attribute(byte, ino, block);
            found.damaged += 1;
            return;
        };
        let data = Arc::new(bytes);
        let source = Some(pointer);
        let item = if xattrs {
            LogItem::Xattrs {
                ino,
                version,
                data,
                source,
            }
        } else {
            let written = Timestamp::from_ns(written_ns);
            LogItem::Block {
                ino,
                version,
                block,
                data,
                written,
                source,
            }
        };
        found.moves.push((item, info.bytes.len()));
    }

    /// Checks a live metadata block before the next checkpoint relies on it.
    fn is_whole(&self, info: &BlockInfo, pointer: &Pointer, found: &mut Found) -> bool {
        let whole = self.whole(info, pointer.sector(), 0, pointer.crc());
        if whole.is_none() {
            let ino = info.item.ino();
            tracing::error!(%ino, sector = pointer.sector(), "the cleaner met damaged metadata");
            found.damaged += 1;
        }
        whole.is_some()
    }

    /// The bytes of a block that must have checksum `want`, read again before
    /// they are given up. They begin `offset` bytes behind the start of
    /// `sector`.
    fn whole(&self, info: &BlockInfo, sector: u64, offset: usize, want: u32) -> Option<Vec<u8>> {
        let first = crc32c(&info.bytes);
        if first == want {
            return Some(info.bytes.clone());
        }
        self.counters.checksum_retries.fetch_add(1, Relaxed);
        let end = offset + info.bytes.len();
        let mut sectors = vec![0; end.next_multiple_of(SECTOR as usize)];
        let again = self.reader.read_uncached(sector, &mut sectors);
        let bytes = sectors[offset..end].to_vec();
        let found = again.map_or(first, |()| crc32c(&bytes));
        self.reader
            .tell_mismatch(sector, bytes.len(), want, first, found);
        (found == want).then_some(bytes)
    }

    fn found_inode(&self, found: &mut Found, info: &BlockInfo, ino: InodeNo, place: InodePlace) {
        let offset = usize::from(place.slot) * self.geometry.inode_bytes as usize;
        let image = self
            .whole(info, place.sector, offset, place.crc)
            .and_then(|bytes| InodeImage::decode(&bytes, ino).ok());
        match image {
            Some(image) => {
                let item = LogItem::MovedInode {
                    image: Arc::new(image),
                    source: Some(place),
                };
                found.moves.push((item, info.bytes.len()));
            }
            None => {
                tracing::error!(%ino, sector = place.sector, "the cleaner met a damaged inode");
                found.damaged += 1;
            }
        }
    }

    fn ifile_holds(&self, block: u64, pointer: &Pointer) -> Result<bool> {
        let base = Arc::clone(&self.committed.read().base);
        let current = base.ifile_tree(&self.reader).get(block)?;
        Ok(current.is_some_and(|p| p.same_copy(pointer.sector(), pointer.birth())))
    }

    /// If the node is live, the bytes that rewriting it costs above it.
    fn live_node(&self, id: NodeId, pointer: &Pointer) -> Result<Option<u64>> {
        let base = Arc::clone(&self.committed.read().base);
        let image;
        let root = if id.ino == InodeNo::IFILE {
            Some(base.ifile_root())
        } else {
            image = base.inode(&self.reader, &self.geometry, id.ino)?;
            image.as_ref().and_then(|image| image.root.as_ref())
        };
        let Some(root) = root else { return Ok(None) };
        // Its parent is another node, or only the inode.
        let above = if root.height > id.height { 4608 } else { 640 };
        let tree = crate::base::Tree {
            reader: &self.reader,
            ino: id.ino,
            root,
        };
        let current = tree.node_at(id)?;
        let live = current.is_some_and(|p| p.same_copy(pointer.sector(), pointer.birth()));
        Ok(live.then_some(above))
    }

    /// Appends copies of what was found live, and touches what a checkpoint
    /// must rewrite. Returns the number of the checkpoint that will have
    /// folded all of it, or `None` if the image changed since it was judged.
    ///
    /// # Errors
    /// As appending.
    pub fn markv(&self, found: Found) -> Result<Option<u64>> {
        if found.inconsistent {
            return Ok(None);
        }
        let serial = match found.base_serial {
            Some(serial) => serial,
            None => self.committed.read().base.serial,
        };
        let mut group = Vec::new();
        let mut bytes = 0;
        for (item, length) in found.moves {
            if bytes + length > GROUP_BYTES {
                if self
                    .write_group(std::mem::take(&mut group), GroupKind::Cleaner(serial), None)?
                    .is_none()
                {
                    return Ok(None);
                }
                bytes = 0;
            }
            bytes += length;
            group.push(item);
        }
        if !group.is_empty()
            && self
                .write_group(group, GroupKind::Cleaner(serial), None)?
                .is_none()
        {
            return Ok(None);
        }
        let mut committed = self.change_committed();
        if committed.base.serial != serial && !planted::is(Planted::StaleClaim) {
            return Ok(None);
        }
        for (id, price) in found.touched_nodes {
            if committed.live.touched_nodes.insert(id) {
                committed.live.touched_bytes += price;
            }
        }
        committed.live.touched_ifile.extend(found.touched_ifile);
        // A checkpoint that runs already leaves the live delta to the next.
        Ok(Some(serial + 1 + u64::from(committed.frozen.is_some())))
    }

    /// Declares a segment done, if it still is what was read under this
    /// incarnation: it becomes clean once two checkpoints have found it empty,
    /// the first of them `checkpoint`.
    pub fn segclean(&self, segment: u32, incarnation: u32, checkpoint: u64) {
        let mut segments = self.segments.lock();
        let entry = segments.get_mut(segment);
        if entry.state == SegmentState::Used && entry.incarnation == incarnation {
            entry.cleaned = Some(checkpoint);
        }
    }

    /// Waits until a group has been appended or `timeout` has passed.
    pub fn segwait(&self, timeout: Duration) {
        self.durability.wait_for_append(timeout);
    }
}
