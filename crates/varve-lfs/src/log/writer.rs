//! The segment writer: one group at a time, from items to the device.
//!
//! Order of one append, under the log lock:
//! 1. plan: cut the group into partial segments and take their segments;
//! 2. fill: copy blocks, compute checksums (no lock that readers need);
//! 3. apply: under the committed state's lock, test moves, write entries and
//!    inodes, change pointers, announce the buffers as in flight. From here
//!    on every read sees the group;
//! 4. write: after the log lock is released, hand the buffers to the device
//!    ([`super::Output`]).
//!
//! Nothing here waits for the device while a lock is held.

use super::build::PartialBuffer;
use super::image::{Below, compose};
use super::plan::{PartialPlan, plan};
use crate::apply::{BlockChange, Record};
use crate::committed::Committed;
use crate::delta::{Answer, PlacedImage};
use crate::durability::InFlight;
use crate::error::Result;
use crate::format::ifile::InodePlace;
use crate::format::inode::InodeImage;
use crate::format::node::{Node, NodeId};
use crate::format::summary::{MAGIC, summary_flags};
use crate::format::{LogPosition, Pointer, SECTOR, SummaryHeader};
use crate::geometry::Geometry;
use crate::lfs::Lfs;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::BufferPool;
use varve_fs::planted::{self, Planted};
use varve_fs::{Inode, InodeNo, Timestamp, Usage, Version};

/// What a group is made of, in arrival order.
#[derive(Debug)]
pub enum LogItem {
    /// A record of `ino`, whose version it names (for a freed one the former).
    Record {
        /// Whose.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// What.
        record: Record,
    },
    /// A block; with `source`, a move of the copy at that pointer.
    Block {
        /// Whose.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// Logical block number.
        block: u64,
        /// 1 to `block_bytes` bytes.
        data: Arc<Vec<u8>>,
        /// Last user write.
        written: Timestamp,
        /// The copy the cleaner read.
        source: Option<Pointer>,
    },
    /// The extended attributes; empty for none.
    Xattrs {
        /// Whose.
        ino: InodeNo,
        /// Its version.
        version: Version,
        /// The blob.
        data: Arc<Vec<u8>>,
        /// The copy the cleaner read.
        source: Option<Pointer>,
    },
    /// An inode's new image, as a group has it.
    Image {
        /// Its attributes.
        inode: Box<Inode>,
    },
    /// An inode whose image is complete: of a checkpoint, or moved.
    MovedInode {
        /// All of it.
        image: Arc<InodeImage>,
        /// The copy the cleaner read; none when a checkpoint writes it.
        source: Option<InodePlace>,
    },
    /// An index node, written by a checkpoint.
    Node {
        /// Which.
        id: NodeId,
        /// The file's version.
        version: Version,
        /// Its content.
        node: Arc<Node>,
        /// Its content, encoded.
        bytes: Vec<u8>,
    },
}

impl LogItem {
    /// The file the item belongs to.
    pub fn file(&self) -> (InodeNo, Version) {
        match self {
            LogItem::Record { ino, version, .. }
            | LogItem::Block { ino, version, .. }
            | LogItem::Xattrs { ino, version, .. } => (*ino, *version),
            LogItem::Image { inode } => (inode.ino, inode.version),
            LogItem::MovedInode { image, .. } => (image.inode.ino, image.inode.version),
            LogItem::Node { id, version, .. } => (id.ino, *version),
        }
    }

    /// What is stored behind the summary.
    fn content(&self) -> Option<&[u8]> {
        match self {
            LogItem::Block { data, .. } | LogItem::Xattrs { data, .. } => Some(data),
            LogItem::Node { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// Nothing is stored for it, not even an entry: the image says it all.
    pub fn is_empty(&self) -> bool {
        matches!(self, LogItem::Xattrs { data, .. } if data.is_empty())
    }

    /// Sectors the content takes.
    ///
    /// # Panics
    /// If a block is empty or exceeds the block size.
    pub fn stored_sectors(&self, geometry: &Geometry) -> u32 {
        let bytes = self.content().map_or(0, <[u8]>::len);
        if let LogItem::Block { .. } = self {
            assert!(
                bytes > 0 && bytes <= geometry.block_bytes as usize,
                "a block has content"
            );
        }
        (bytes as u32).div_ceil(SECTOR as u32)
    }
}

/// Who writes a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// The file system: every partial is applied.
    User,
    /// A checkpoint: nothing is applied, roll-forward skips it.
    Checkpoint,
    /// The cleaner: moves, each applied if its source still stands. The number
    /// is the checkpoint against whose image the sources were verified.
    Cleaner(u64),
}

/// Where an item went.
#[derive(Clone, Copy, Debug)]
pub enum Placed {
    /// A block, attributes or a node.
    Block(Pointer),
    /// An inode.
    Inode(InodePlace),
    /// A record, or something of no length.
    Nothing,
}

/// What came of a group.
#[derive(Debug)]
pub struct Written {
    /// Serial of its last partial.
    pub serial: u64,
    /// One per item.
    pub placed: Vec<Placed>,
}

/// The head of the log.
#[derive(Debug)]
pub struct LogState {
    /// Behind the last partial.
    pub position: LogPosition,
    /// Random identity of this mount.
    pub mount_id: u64,
    /// Number of this mount.
    pub incarnation: u32,
    /// What lives on the volume.
    pub usage: Usage,
    /// Buffers for large partial segments.
    pub pool: Arc<BufferPool>,
}

impl Lfs {
    /// Appends one group. Returns `None` if the group moves blocks whose
    /// sources were verified against an image that is no longer the newest:
    /// verify again.
    pub(crate) fn write_group(
        &self,
        items: Vec<LogItem>,
        kind: GroupKind,
        usage: Option<Usage>,
    ) -> Result<Option<Written>> {
        self.durability.check()?;
        let mut log = self.log.lock();
        if let GroupKind::Cleaner(serial) = kind
            && self.committed.read().base.serial != serial
            && !planted::is(Planted::StaleClaim)
        {
            return Ok(None);
        }
        let plans = self.plan_group(&log, &items)?;
        if let Some(usage) = usage {
            log.usage = usage;
        }
        if plans.is_empty() {
            let serial = log.position.serial.get();
            return Ok(Some(Written {
                serial,
                placed: Vec::new(),
            }));
        }
        let filled = self.fill(&log, &plans, &items);
        let written = self.apply_group(&mut log, &plans, filled, items, kind);
        drop(log);
        let count = plans.len() as u64;
        self.counters.groups.fetch_add(1, Relaxed);
        self.counters.partials.fetch_add(count, Relaxed);
        let partials = (written.serial + 1 - count..=written.serial)
            .filter_map(|serial| self.durability.partial(serial))
            .collect();
        self.output.write(partials);
        Ok(Some(written))
    }

    fn plan_group(&self, log: &LogState, items: &[LogItem]) -> Result<Vec<PartialPlan>> {
        let mut segments = self.segments.lock();
        let mut taken = Vec::new();
        let plans = plan(&self.geometry, log.position, items, &mut |after| {
            let segment = segments.take(after)?;
            taken.push(segment);
            Ok(segment)
        });
        match plans {
            Ok(plans) => Ok(plans),
            Err(error) => {
                taken
                    .into_iter()
                    .for_each(|segment| segments.put_back(segment));
                Err(error)
            }
        }
    }

    /// Enters segments and copies every block to its place.
    fn fill(&self, log: &LogState, plans: &[PartialPlan], items: &[LogItem]) -> Vec<Filled> {
        let mut incarnation = log.position.segment_incarnation.get();
        let mut serial = log.position.serial.get();
        let mut previous = log.position.segment.get();
        plans
            .iter()
            .map(|plan| {
                if plan.enters {
                    let mut segments = self.segments.lock();
                    segments.leave(previous);
                    incarnation = segments.enter(plan.segment);
                    drop(segments);
                    self.reader.forget_segment(plan.segment);
                    self.counters.segments_opened.fetch_add(1, Relaxed);
                    previous = plan.segment;
                }
                serial += 1;
                let mut buffer =
                    PartialBuffer::new(&self.geometry, &log.pool, plan, serial, incarnation);
                let pointers = items[plan.items.clone()]
                    .iter()
                    .map(|item| match item {
                        LogItem::Block { data, source, .. }
                        | LogItem::Xattrs { data, source, .. }
                            if !data.is_empty() =>
                        {
                            buffer.place_block(data, source.map(|p| p.birth()))
                        }
                        LogItem::Node { bytes, .. } => buffer.place_block(bytes, None),
                        _ => Pointer::NONE,
                    })
                    .collect();
                Filled { buffer, pointers }
            })
            .collect()
    }

    /// Writes entries and inodes while applying them, chains the summaries
    /// and announces the partials.
    fn apply_group(
        &self,
        log: &mut LogState,
        plans: &[PartialPlan],
        filled: Vec<Filled>,
        items: Vec<LogItem>,
        kind: GroupKind,
    ) -> Written {
        let mut placed = Vec::with_capacity(items.len());
        let mut items = items.into_iter();
        let last = plans.len() - 1;
        let mut durable_through = self.durability.durable();
        if planted::is(Planted::DurableThroughEarly) {
            durable_through = log.position.serial.get();
        }
        let mut committed = self.committed.write();
        for (
            index,
            (
                plan,
                Filled {
                    mut buffer,
                    pointers,
                },
            ),
        ) in plans.iter().zip(filled).enumerate()
        {
            for (item, pointer) in items.by_ref().take(plan.items.len()).zip(pointers) {
                placed.push(self.apply_item(&mut committed, &mut buffer, item, pointer, kind));
            }
            let position = &mut log.position;
            let header = SummaryHeader {
                crc: 0.into(),
                magic: MAGIC.into(),
                volume_tag: self.volume_tag.into(),
                serial: buffer.serial.into(),
                sector: buffer.sector.into(),
                durable_through: durable_through.into(),
                mount_id: log.mount_id.into(),
                predecessor: position.predecessor,
                incarnation: log.incarnation.into(),
                next_segment: plan.next_segment.into(),
                segment_incarnation: buffer.incarnation.into(),
                entry_bytes: 0.into(),
                sectors: (plan.bytes / SECTOR as u32).into(),
                flags: flags_of(kind, index == 0, index == last).into(),
                members: 1.into(),
                entry_count: 0.into(),
                written_ns: self.clock.now_ns().into(),
                inodes_used: log.usage.inodes.into(),
                blocks_used: log.usage.blocks.into(),
                sectors_used: log.usage.sectors.into(),
                spare: [0; 16],
            };
            let predecessor = buffer.finish(header);
            *position = LogPosition {
                serial: buffer.serial.into(),
                offset: (plan.offset + plan.bytes).into(),
                segment: plan.segment.into(),
                next_segment: plan.next_segment.into(),
                predecessor: predecessor.into(),
                incarnation: log.incarnation.into(),
                segment_incarnation: buffer.incarnation.into(),
            };
            self.count_partial(plan, kind);
            committed.live.log_bytes += u64::from(plan.bytes);
            self.segments.lock().get_mut(plan.segment).last_serial = buffer.serial;
            self.durability.announce(Arc::new(InFlight {
                serial: buffer.serial,
                sector: buffer.sector,
                bytes: buffer.bytes,
            }));
        }
        Written {
            serial: log.position.serial.get(),
            placed,
        }
    }

    fn apply_item(
        &self,
        committed: &mut Committed,
        buffer: &mut PartialBuffer,
        item: LogItem,
        pointer: Pointer,
        kind: GroupKind,
    ) -> Placed {
        let geometry = &self.geometry;
        let apply = kind != GroupKind::Checkpoint;
        match item {
            LogItem::Record {
                ino,
                version,
                record,
            } => {
                let record = match record {
                    Record::Reserved(from, to, _) => Record::Reserved(from, to, buffer.serial),
                    other => other,
                };
                buffer.put_record((ino, version), record);
                committed.live.apply_record(geometry, ino, version, record);
                Placed::Nothing
            }
            LogItem::Block {
                ino,
                version,
                block,
                written,
                source,
                ..
            } => {
                buffer.put_block(&item, &pointer);
                if apply && self.still_at(committed, ino, version, block, source) {
                    let flat = self.is_flat(committed, ino);
                    let change = BlockChange {
                        ino,
                        version,
                        block,
                        pointer,
                        written_ns: written.as_ns(),
                        flat,
                    };
                    committed.live.apply_block(geometry, change);
                }
                Placed::Block(pointer)
            }
            LogItem::Xattrs {
                ino,
                version,
                ref data,
                source,
            } => {
                if data.is_empty() {
                    // Nothing is stored; the image says that there are none.
                    committed
                        .live
                        .apply_xattrs(geometry, ino, version, Pointer::NONE);
                    return Placed::Nothing;
                }
                buffer.put_block(&item, &pointer);
                let current = committed.delta_xattrs(ino);
                let stands = source.is_none_or(|source| match current {
                    Some(Some(at)) => at == source,
                    Some(None) => true,
                    None => false,
                });
                if apply && stands {
                    committed.live.apply_xattrs(geometry, ino, version, pointer);
                }
                Placed::Block(pointer)
            }
            LogItem::Image { inode } => {
                let ino = inode.ino;
                let image = compose(geometry, committed, || self.below(committed, ino), *inode);
                let file = (ino, image.inode.version);
                let place = buffer.put_inode(geometry, file, None, |into| image.encode(into));
                committed
                    .live
                    .apply_image(geometry, PlacedImage { image, place }, false);
                Placed::Inode(place)
            }
            LogItem::MovedInode { image, source } => {
                let file = (image.inode.ino, image.inode.version);
                let place = buffer.put_inode(geometry, file, source, |into| image.encode(into));
                if let Some(source) = source
                    && self.inode_still_at(committed, file, source)
                {
                    let image = (*image).clone();
                    committed
                        .live
                        .apply_image(geometry, PlacedImage { image, place }, true);
                }
                Placed::Inode(place)
            }
            LogItem::Node { id, ref node, .. } => {
                buffer.put_block(&item, &pointer);
                self.reader.keep_node(&pointer, id, Arc::clone(node));
                Placed::Block(pointer)
            }
        }
    }

    /// What is known of an inode's checkpointed image without a read.
    fn below(&self, committed: &Committed, ino: InodeNo) -> Below {
        if ino.0 >= committed.base.next_ino {
            return Below::Nothing;
        }
        match self.base_images.get(&ino.0) {
            Some(image) => image.map_or(Below::Nothing, Below::Image),
            None => Below::Unknown,
        }
    }

    /// True if the checkpointed index of `ino` is known to have no nodes.
    fn is_flat(&self, committed: &Committed, ino: InodeNo) -> bool {
        let folding = committed.frozen.as_ref();
        if folding.is_some_and(|frozen| frozen.inodes.contains_key(&ino.0)) {
            return false;
        }
        match self.below(committed, ino) {
            Below::Nothing => true,
            Below::Image(image) => image.root.as_ref().is_some_and(|root| root.height == 0),
            Below::Unknown => false,
        }
    }

    /// Protocol rules 18 and 19: a move counts only if the block still is
    /// where the cleaner read it. The image below was verified before.
    fn still_at(
        &self,
        committed: &Committed,
        ino: InodeNo,
        version: Version,
        block: u64,
        source: Option<Pointer>,
    ) -> bool {
        let Some(source) = source else { return true };
        let stands = match committed.delta_answer(ino, version, block) {
            Answer::At(pointer) => pointer.same_copy(source.sector(), source.birth()),
            Answer::Hole => false,
            Answer::Pass => true,
        };
        if !stands {
            self.counters.stale_moves.fetch_add(1, Relaxed);
        }
        stands || planted::is(Planted::MoveUnchecked)
    }

    fn inode_still_at(
        &self,
        committed: &Committed,
        (ino, version): (InodeNo, Version),
        source: InodePlace,
    ) -> bool {
        let stands = match committed.delta_inode_place(ino) {
            None => false,
            Some(None) => true,
            Some(Some((current, place))) => current == version && place == source,
        };
        if !stands {
            self.counters.stale_moves.fetch_add(1, Relaxed);
        }
        stands || planted::is(Planted::MoveUnchecked)
    }

    fn count_partial(&self, plan: &PartialPlan, kind: GroupKind) {
        let size = &plan.size;
        let used = size.bytes(&self.geometry);
        let blocks = u64::from(size.block_sectors) * SECTOR;
        let c = &self.counters;
        c.summary_bytes
            .fetch_add(u64::from(size.summary_sectors()) * SECTOR, Relaxed);
        c.padding_bytes
            .fetch_add(u64::from(plan.bytes - used), Relaxed);
        c.inode_bytes.fetch_add(
            u64::from(size.inode_sectors(&self.geometry)) * SECTOR,
            Relaxed,
        );
        let by_cause = match kind {
            GroupKind::User => &c.data_bytes,
            GroupKind::Checkpoint => &c.node_bytes,
            GroupKind::Cleaner(_) => &c.cleaner_bytes,
        };
        by_cause.fetch_add(blocks, Relaxed);
    }
}

/// A planned partial with its blocks in place.
struct Filled {
    buffer: PartialBuffer,
    pointers: Vec<Pointer>,
}

fn flags_of(kind: GroupKind, first: bool, last: bool) -> u16 {
    let mut flags = match kind {
        GroupKind::User => 0,
        GroupKind::Checkpoint => summary_flags::CHECKPOINT,
        GroupKind::Cleaner(_) => summary_flags::CLEANER,
    };
    if first {
        flags |= summary_flags::FIRST;
    }
    if last {
        flags |= summary_flags::LAST;
    }
    flags
}
