//! The four calls of the cleaner's mechanism, in the server's process.

use super::liveness::Life;
use super::reading::Extents;
use crate::chain::ChainItem;
use crate::committed::Committed;
use crate::control::contents::{BlockInfo, SegmentContents};
use crate::counts::{Change, Counts, DirtyNodes};
use crate::error::Result;
use crate::format::ifile::InodePlace;
use crate::format::inode::InodeImage;
use crate::format::node::NodeId;
use crate::format::{Pointer, SECTOR, crc32c};
use crate::log::{Content, GroupKind, LogItem, Room, Source};
use crate::mechanism::Mechanism;
use crate::reader::ReadCause;
use crate::segments::{Edition, SegmentState};
use foldhash::HashMap;
use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::vec::IntoIter;
use varve_fs::planted::{self, Planted};
use varve_fs::{InodeNo, Timestamp};

/// Most bytes of moves appended in one group: an fsync never waits for more.
pub(crate) const GROUP_BYTES: usize = 1 << 20;
/// Least number of blocks or write units in a group. On a slow device an fsync waits for
/// less, but summaries and padding must stay within the space reserved for them.
const LEAST_GROUP: usize = 16;

/// The live part of a segment, and the checkpoint against which it was judged.
#[derive(Debug, Default)]
pub struct Found {
    moves: Vec<(LogItem, usize)>,
    /// Live index nodes, and the height of the index of each.
    touched_nodes: Vec<(NodeId, u8)>,
    touched_ifile: Vec<u64>,
    /// Bytes of all live data.
    pub(crate) live_bytes: u64,
    base_serial: Option<u64>,
    /// The image changed between two look-ups: judge again.
    inconsistent: bool,
    /// A request with priority interrupted it: not everything was judged.
    pub(crate) interrupted: bool,
    /// A summary may be missing: there may be more live data.
    incomplete: bool,
    /// Number of live blocks whose checksum is wrong.
    pub damaged: u32,
}

/// Last user write of a moved item, in nanoseconds since 1970.
fn written_ns(item: &LogItem) -> i64 {
    match item {
        LogItem::Block { written, .. } => written.as_ns(),
        LogItem::MovedInode { image, .. } => image.inode.ctime.as_ns(),
        _ => i64::MIN, // attributes are rarely written again
    }
}

fn is_inode(item: &LogItem) -> bool {
    matches!(item, LogItem::MovedInode { .. })
}

impl Found {
    /// Adds the live part of another segment.
    pub(crate) fn append(&mut self, other: Found) {
        if let Some(serial) = other.base_serial {
            self.judged_against(serial);
        }
        self.inconsistent |= other.inconsistent;
        self.moves.extend(other.moves);
        self.touched_nodes.extend(other.touched_nodes);
        self.touched_ifile.extend(other.touched_ifile);
        self.interrupted |= other.interrupted;
        self.incomplete |= other.incomplete;
        self.damaged += other.damaged;
        self.live_bytes += other.live_bytes;
    }

    /// Number of blocks to be moved or touched.
    pub(crate) fn len(&self) -> usize {
        self.moves.len() + self.touched_nodes.len() + self.touched_ifile.len()
    }

    /// True if all live data was found, and none of it is metadata.
    pub fn is_all_data(&self) -> bool {
        if planted::is(Planted::ReuseMetadata) {
            return true;
        }
        !self.incomplete
            && self.touched_nodes.is_empty()
            && self.touched_ifile.is_empty()
            && !self.moves.iter().any(|(item, _)| is_inode(item))
    }

    /// Files of which blocks are moved or touched.
    fn files(&self) -> impl Iterator<Item = InodeNo> {
        let moved = self.moves.iter().map(|(item, _)| item.file().0);
        moved.chain(self.touched_nodes.iter().map(|(id, _)| id.ino))
    }

    /// True if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Age sort (Rosenblum & Ousterhout 1992, §3.5): the oldest first.
    pub(crate) fn sort_by_age(&mut self) {
        self.moves.sort_by_key(|(item, _)| written_ns(item));
    }

    pub(super) fn judged_against(&mut self, serial: u64) {
        match self.base_serial {
            None => self.base_serial = Some(serial),
            Some(before) => self.inconsistent |= before != serial,
        }
    }
}

impl Mechanism {
    /// Determines which of these blocks are live, judged against committed pointers only,
    /// and the data needed for moving them.
    ///
    /// # Errors
    /// Device errors.
    pub fn bmapv(&self, contents: &SegmentContents) -> Result<Found> {
        let all = (0..contents.blocks.len()).collect::<Vec<_>>();
        self.bmapv_some(contents, &all, &|| true)
    }

    /// [`Mechanism::bmapv`] of the blocks with these numbers, as long as `go_on` returns true:
    /// it is called before each block.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn bmapv_some(
        &self,
        contents: &SegmentContents,
        which: &[usize],
        go_on: &dyn Fn() -> bool,
    ) -> Result<Found> {
        let mut found = Found {
            incomplete: !contents.complete,
            ..Found::default()
        };
        let blocks: Vec<&BlockInfo> = which.iter().map(|&at| &contents.blocks[at]).collect();
        let lives = self.lives_of(&blocks, &mut found, go_on)?;
        if found.interrupted {
            return Ok(found);
        }
        let living = blocks.into_iter().zip(lives);
        let living: Vec<(&BlockInfo, Life)> = living
            .filter_map(|(info, life)| Some((info, life?)))
            .collect();
        found.moves.reserve(living.len());
        let extents = self.fetch(contents, living.iter().map(|(info, _)| *info))?;
        for (info, life) in living {
            if !go_on() {
                found.interrupted = true;
                return Ok(found);
            }
            match (life, info.item) {
                (Life::Node(height), ChainItem::Node { id, pointer, .. }) => {
                    if self.is_whole(info, &extents, &pointer, &mut found) {
                        found.touched_nodes.push((id, height));
                        found.live_bytes += u64::from(info.length);
                    }
                }
                (Life::Ifile, ChainItem::Block { block, pointer, .. }) => {
                    if self.is_whole(info, &extents, &pointer, &mut found) {
                        found.touched_ifile.push(block);
                        found.live_bytes += u64::from(info.length);
                    }
                }
                (_, ChainItem::Inode { ino, place, .. }) => {
                    self.found_inode(&mut found, info, &extents, ino, place);
                }
                (life, item) => {
                    let kept = life == Life::Kept;
                    self.found_block(&mut found, (info, &extents), item, kept);
                }
            }
        }
        Ok(found)
    }

    fn found_block(
        &self,
        found: &mut Found,
        (info, extents): (&BlockInfo, &Extents),
        item: ChainItem,
        kept: bool,
    ) {
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
            return;
        };
        let Some(data) = self.whole(info, extents, pointer.crc()) else {
            return self.lost(found, info);
        };
        let source = Some(Source { pointer, kept });
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
        found.live_bytes += u64::from(info.length);
        found.moves.push((item, info.length as usize));
    }

    /// Checks a live metadata block before the next checkpoint relies on it.
    fn is_whole(
        &self,
        info: &BlockInfo,
        extents: &Extents,
        pointer: &Pointer,
        found: &mut Found,
    ) -> bool {
        let whole = self.whole(info, extents, pointer.crc());
        if whole.is_none() {
            self.lost(found, info);
        }
        whole.is_some()
    }

    /// The bytes of a block that must have checksum `want`. They are read again before
    /// they are given up.
    fn whole(&self, info: &BlockInfo, extents: &Extents, want: u32) -> Option<Content> {
        let bytes = extents.of(info);
        let first = crc32c(bytes);
        if first == want {
            return Some(extents.verified(info));
        }
        if self.is_gone(info) {
            return None;
        }
        self.counters.checksum_retries.fetch_add(1, Relaxed);
        let (sector, offset) = (info.byte / SECTOR, (info.byte % SECTOR) as usize);
        let end = offset + info.length as usize;
        let mut sectors = vec![0; end.next_multiple_of(SECTOR as usize)];
        let again = self
            .reader
            .read_for(ReadCause::Cleaner, sector, &mut sectors);
        let bytes = sectors[offset..end].to_vec();
        let found = again.map_or(first, |()| crc32c(&bytes));
        self.reader
            .tell_mismatch(sector, bytes.len(), want, first, found);
        (found == want).then(|| bytes.into())
    }

    /// Records that the bytes of a live block are damaged.
    fn lost(&self, found: &mut Found, info: &BlockInfo) {
        if self.is_gone(info) {
            found.inconsistent = true;
            return;
        }
        let (ino, sector) = (info.item.ino(), info.byte / SECTOR);
        match info.item {
            ChainItem::Block { block, .. } if ino != InodeNo::IFILE => {
                tracing::error!(%ino, block, sector, "the cleaner met a damaged block");
                self.counters.failures.attribute(info.byte, ino, block);
            }
            ChainItem::Inode { .. } => {
                tracing::error!(%ino, sector, "the cleaner met a damaged inode");
            }
            _ => tracing::error!(%ino, sector, "the cleaner met damaged metadata"),
        }
        found.damaged += 1;
    }

    /// True if the place has other contents: the block has been moved, or died.
    fn is_gone(&self, info: &BlockInfo) -> bool {
        let pointer = info.item.pointer();
        pointer.is_some_and(|pointer| self.reader.is_stale(pointer))
    }

    fn found_inode(
        &self,
        found: &mut Found,
        info: &BlockInfo,
        extents: &Extents,
        ino: InodeNo,
        place: InodePlace,
    ) {
        let image = self
            .whole(info, extents, place.crc)
            .and_then(|bytes| InodeImage::decode(&bytes, ino).ok());
        match image {
            Some(image) => {
                let item = LogItem::MovedInode {
                    image: Arc::new(image),
                    source: Some(place),
                };
                found.live_bytes += u64::from(info.length);
                found.moves.push((item, info.length as usize));
            }
            None => self.lost(found, info),
        }
    }

    /// Bytes of moves to append in one group now.
    pub(crate) fn group_bytes(&self) -> usize {
        let portion = self.counters.speed.portion_bytes() as usize;
        let unit = self.geometry.block_bytes.max(self.geometry.write_unit) as usize;
        portion.clamp((LEAST_GROUP * unit).min(GROUP_BYTES), GROUP_BYTES)
    }

    /// Moves to append at once: a portion, and where that is not small relative to a
    /// segment, no more than fits one place. A writer that appends after a group which
    /// continues in another segment waits for both.
    fn next_group(&self, moves: &mut Peekable<IntoIter<(LogItem, usize)>>) -> Vec<LogItem> {
        let (end, most) = (self.log.lock().end, self.group_bytes());
        let is_small = most < self.geometry.segment_bytes as usize / 2;
        // Between several heads a group is divided anyway.
        let one_place = !is_small && end.heads() == 1;
        let mut room = one_place.then(|| Room::at(&self.geometry, &end.at(0)));
        let (mut bytes, mut group) = (0, Vec::new());
        while let Some((item, length)) = moves.peek() {
            let fits = room
                .as_mut()
                .is_none_or(|room| room.take(&self.geometry, item));
            if !group.is_empty() && (!fits || bytes + length > most) {
                break;
            }
            bytes += length;
            group.extend(moves.next().map(|(item, _)| item));
        }
        group
    }

    /// Upper bound of the writes of a fold for these moves.
    pub(crate) fn fold_of(&self, found: &[&Found]) -> Counts {
        let geometry = &self.geometry;
        let tallest = self.space.tallest();
        let committed = self.layers.read();
        let live = &committed.live;
        let folding = committed.frozen.as_ref();
        let changes = |ino| live.changes(ino) || folding.is_some_and(|frozen| frozen.changes(ino));
        let mut files: HashMap<InodeNo, DirtyNodes> = HashMap::default();
        let mut counts = Counts {
            height: tallest,
            ..Counts::default()
        };
        for (item, length) in found.iter().flat_map(|found| &found.moves) {
            let ino = item.file().0;
            if matches!(item, LogItem::MovedInode { .. }) {
                counts.inodes += u64::from(changes(ino));
                continue;
            }
            if item.is_kept() {
                continue; // counted with the history
            }
            let dirty = files.entry(ino).or_default();
            dirty.rewrite = true;
            match item {
                LogItem::Block { block, .. } => {
                    dirty.block(geometry, *block, Some(tallest), Change::Move);
                }
                LogItem::Xattrs { .. } => {
                    // One piece: as much may be left at a segment's end.
                    let beyond = length.saturating_sub(geometry.block_bytes as usize);
                    counts.bytes += beyond as u64;
                }
                _ => {}
            }
        }
        for (id, height) in found.iter().flat_map(|found| &found.touched_nodes) {
            let dirty = files.entry(id.ino).or_default();
            dirty.touch(geometry, (id.height, id.index), *height);
        }
        // A move reveals the height of an index that was guessed to be lower.
        if live.guessed {
            let known = files.keys().filter_map(|ino| live.dirty.get(&ino.0));
            let rising = known.map(|dirty| dirty.rising_to(tallest)).sum();
            counts += Counts::ways(geometry, rising, rising);
        }
        for dirty in files.values() {
            counts += dirty.counts();
        }
        let all = found.iter().flat_map(|found| found.files());
        let ifile = found.iter().flat_map(|found| &found.touched_ifile);
        counts.map_blocks = live.further_imap_blocks(geometry, all);
        counts.ifile_blocks = live.further_ifile_blocks(ifile.copied());
        counts
    }

    /// Appends copies of the live data, and touches the blocks that a checkpoint must
    /// rewrite. Returns the number of the checkpoint that will have folded all of it, or
    /// `None` if the image changed since it was judged.
    ///
    /// # Errors
    /// As appending.
    pub fn markv(&self, found: Found) -> Result<Option<u64>> {
        if found.inconsistent {
            return Ok(None);
        }
        let serial = match found.base_serial {
            Some(serial) => serial,
            None => self.layers.read().base.serial,
        };
        let mut moves = found.moves.into_iter().peekable();
        while moves.peek().is_some() {
            self.give_way();
            let group = self.next_group(&mut moves);
            let kind = GroupKind::Cleaner(serial);
            if self.writer.write_group(group, kind, None)?.is_none() {
                return Ok(None);
            }
        }
        let mut committed = self.layers.change();
        if committed.base.serial != serial && !planted::is(Planted::StaleClaim) {
            return Ok(None);
        }
        let Committed { live, frozen, .. } = &mut *committed;
        for (id, height) in found.touched_nodes {
            let folded = frozen.as_ref().map_or(0, |frozen| frozen.height(id.ino));
            live.touch(&self.geometry, id, height.max(folded));
        }
        live.touched_ifile.extend(found.touched_ifile);
        // A checkpoint that already runs leaves the live delta to the next.
        Ok(Some(serial + 1 + u64::from(frozen.is_some())))
    }

    /// Declares a segment done, if nothing has been written into it since this edition
    /// (rule P8): it becomes clean once two checkpoints have found it empty, the first of
    /// them `checkpoint`; or sooner, if all live contents were `data`.
    pub fn segclean(&self, segment: u32, edition: Edition, checkpoint: u64, data: bool) {
        let end = self.log.lock().end.serial();
        let mut segments = self.segments.lock();
        let spilled = segments.has_spilled(segment);
        let entry = segments.get_mut(segment);
        if entry.state == SegmentState::Used && entry.edition() == edition && !spilled {
            entry.cleaned = Some(checkpoint);
            if data {
                segments.vacate(segment, end);
            }
        }
    }
}
