//! Recovery: the newest valid checkpoint, then roll-forward over whole groups.
//!
//! Roll-forward follows the chain of summaries from the checkpoint's position
//! (protocol rules 8 and 9), verifies each partial's payload, and applies a
//! group when its last partial has proved valid (rule 1). It goes on after
//! the last valid partial even if that one's group is incomplete (rule 10).
//! Where the chain ends, [`tail`] looks for proof that it should not.
//! None of this writes. A mount that will flushes before its first write
//! (rule 12), and clears with that flush what [`leftover`] finds.

mod leftover;
mod tail;

pub use leftover::clear as clear_leftover;

use crate::apply::{BlockChange, Record};
use crate::base::Base;
use crate::chain::{ChainItem, Summary, follows};
use crate::committed::{Committed, Lookup};
use crate::delta::PlacedImage;
use crate::error::{Error, Result};
use crate::format::checkpoint::{CheckpointRecord, checkpoint_flags};
use crate::format::ifile::{ENTRY_BYTES, MAX_INO, UNFINISHED_OFFSET, USAGE_OFFSET};
use crate::format::inode::InodeImage;
use crate::format::summary::summary_flags;
use crate::format::{LogPosition, Malformed, Superblock, UsageEntry, entries};
use crate::geometry::Geometry;
use crate::locks::{Rank, RankedRwLock};
use crate::reader::Reader;
use crate::segments::SegmentTable;
use std::collections::BTreeSet;
use std::sync::Arc;
use varve_device::Device;
use varve_fs::planted::{self, Planted};
use varve_fs::{InodeNo, Usage};
use zerocopy::little_endian::U64;

/// What a mount found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct RecoveryReport {
    /// Number of the checkpoint it started from.
    pub checkpoint: u64,
    /// Records of the ring that were refused, newest first, and why.
    pub refused_records: Vec<String>,
    /// The last unmount was clean.
    pub clean: bool,
    /// Partial segments read behind the checkpoint.
    pub partials: u64,
    /// Groups applied.
    pub groups: u64,
    /// Bytes of log read.
    pub log_bytes: u64,
    /// Partials of an incomplete group that were dropped.
    pub dropped_partials: u64,
    /// Why the chain ended where it did.
    pub end: String,
    /// Acknowledged data that is lost: the volume is read-only. Empty if none.
    pub damage: Vec<String>,
}

/// Reads every slot of the checkpoint ring; why a slot was refused, a device
/// error included, stands in its place.
pub fn read_ring(
    device: &dyn Device,
    superblock: &Superblock,
) -> Vec<std::result::Result<CheckpointRecord, Malformed>> {
    let slot_bytes = u64::from(superblock.record_bytes.get());
    let read = |slot| {
        let mut bytes = vec![0; slot_bytes as usize];
        device
            .read(superblock.ring_offset.get() + slot * slot_bytes, &mut bytes)
            .map_err(|error| Malformed::new("checkpoint record", error.to_string()))?;
        CheckpointRecord::decode(&bytes, superblock.volume_tag())
    };
    // What is refused is read again before that is believed.
    (0..u64::from(superblock.record_count.get()))
        .map(|slot| read(slot).or_else(|_| read(slot)))
        .collect()
}

/// The valid records of the ring, newest first; refused ones are reported.
///
/// # Errors
/// `NoCheckpoint` if there is none.
pub fn valid_records(
    device: &dyn Device,
    superblock: &Superblock,
    report: &mut RecoveryReport,
) -> Result<Vec<CheckpointRecord>> {
    let mut records = Vec::new();
    let mut reason = Malformed::new("checkpoint record", "the ring is empty");
    for record in read_ring(device, superblock) {
        match record {
            Ok(record) => records.push(record),
            Err(malformed) => {
                report.refused_records.push(malformed.to_string());
                reason = malformed;
            }
        }
    }
    records.sort_by_key(|record| std::cmp::Reverse(record.header.serial.get()));
    if records.is_empty() {
        let device = device.name();
        return Err(Error::NoCheckpoint { device, reason });
    }
    Ok(records)
}

/// The image that `record` describes.
///
/// # Errors
/// If it cannot be read.
pub fn load_base(
    reader: &Reader,
    geometry: &Geometry,
    record: &CheckpointRecord,
) -> Result<(Base, Vec<UsageEntry>)> {
    let header = &record.header;
    if record.ifile.len() != geometry.inode_bytes as usize {
        return Err(
            Malformed::new("checkpoint record", "the ifile's inode has a wrong size").into(),
        );
    }
    let ifile = InodeImage::decode(&record.ifile, InodeNo::IFILE)?;
    if ifile.root.is_none() {
        return Err(Malformed::new("checkpoint record", "the ifile's inode has no root").into());
    }
    let most_bytes = geometry.volume_bytes();
    let most = most_bytes / u64::from(geometry.inode_bytes);
    let sound = header.serial.get() < 1 << 62
        && header.next_ino.get() <= MAX_INO
        && header.free_head.get() < header.next_ino.get().max(1)
        && header.free_count.get() <= header.next_ino.get()
        && header.unfinished_count.get() <= most
        && header.inodes_used.get() <= header.next_ino.get()
        && header.metadata_bytes.get() <= most_bytes
        && header.sectors_used.get() <= most_bytes
        && header.blocks_used.get() <= most_bytes;
    if !sound {
        return Err(Malformed::new("checkpoint record", "its counts are impossible").into());
    }
    let mut base = Base {
        serial: header.serial.get(),
        ifile,
        next_ino: header.next_ino.get(),
        free_head: header.free_head.get(),
        free_count: header.free_count.get(),
        unfinished: BTreeSet::new(),
        usage: Usage {
            inodes: header.inodes_used.get(),
            blocks: header.blocks_used.get(),
            sectors: header.sectors_used.get(),
        },
        metadata_bytes: header.metadata_bytes.get(),
    };
    base.unfinished = load_unfinished(reader, geometry, &base, header.unfinished_count.get())?;
    let mut table = load_usage(reader, geometry, &base)?;
    for delta in &record.deltas {
        if let Some(entry) = table.get_mut(delta.segment.get() as usize) {
            let live = i64::from(entry.live_bytes.get()).saturating_add(delta.bytes.get());
            entry.live_bytes = (live.clamp(0, i64::from(u32::MAX)) as u32).into();
        }
    }
    Ok((base, table))
}

fn load_usage(reader: &Reader, geometry: &Geometry, base: &Base) -> Result<Vec<UsageEntry>> {
    let block_bytes = u64::from(geometry.block_bytes);
    let count = geometry.segment_count as usize;
    let blocks = (count * ENTRY_BYTES).div_ceil(block_bytes as usize) as u64;
    let first = USAGE_OFFSET / block_bytes;
    let tree = crate::base::Tree {
        reader,
        ino: InodeNo::IFILE,
        root: base.ifile_root(),
    };
    let mut pointers = Vec::new();
    tree.blocks(first, first + blocks, &mut |block, pointer| {
        pointers.push((block, pointer));
        true
    })?;
    let mut table = vec![UsageEntry::default(); count];
    let contents = match reader.is_patched() {
        false => reader.run(InodeNo::IFILE, &pointers)?,
        true => pointers
            .iter()
            .map(|(block, pointer)| reader.ifile_block(pointer, *block))
            .collect::<Result<_>>()?,
    };
    for ((block, _), bytes) in pointers.iter().zip(contents) {
        let at = ((block - first) * geometry.entries_per_block()) as usize;
        for (entry, stored) in table[at..].iter_mut().zip(entries(&bytes)) {
            *entry = *stored;
        }
    }
    Ok(table)
}

fn load_unfinished(
    reader: &Reader,
    geometry: &Geometry,
    base: &Base,
    count: u64,
) -> Result<BTreeSet<u64>> {
    let block_bytes = u64::from(geometry.block_bytes);
    let tree = crate::base::Tree {
        reader,
        ino: InodeNo::IFILE,
        root: base.ifile_root(),
    };
    let mut list = BTreeSet::new();
    let mut left = count;
    let mut block = UNFINISHED_OFFSET / block_bytes;
    while left > 0 {
        let Some(pointer) = tree.get(block)? else {
            return Err(
                Malformed::new("ifile", "the list of unfinished inodes is cut short").into(),
            );
        };
        let bytes = reader.ifile_block(&pointer, block)?;
        let here = left.min(block_bytes / 8) as usize;
        list.extend(
            entries::<U64>(&bytes)
                .iter()
                .take(here)
                .map(|ino| ino.get()),
        );
        left -= here as u64;
        block += 1;
    }
    Ok(list)
}

/// Everything roll-forward produces.
pub struct Recovered {
    /// The committed state, the replayed groups in its live delta.
    pub(crate) committed: RankedRwLock<Committed>,
    /// The usage table, segments of the replayed log marked.
    pub segments: SegmentTable,
    /// Behind the last valid partial.
    pub position: LogPosition,
    /// Byte address of what a torn partial left there, if it could follow.
    pub leftover: Option<u64>,
    /// What lives on the volume.
    pub usage: Usage,
    /// Inodes without names or half truncated.
    pub unfinished: BTreeSet<u64>,
    /// What happened.
    pub report: RecoveryReport,
}

/// Recovers a volume in memory.
///
/// # Errors
/// If no checkpoint is usable, or the device fails.
pub fn recover(
    device: &dyn Device,
    superblock: &Superblock,
    reader: &Reader,
    geometry: &Geometry,
) -> Result<Recovered> {
    let mut report = RecoveryReport::default();
    let records = valid_records(device, superblock, &mut report)?;
    let recorded = records.iter().map(|r| r.header.durable_through.get()).max();
    let (record, base, table) = first_usable(reader, geometry, records, &mut report)?;
    let image = (&record, base, table);
    roll_forward(
        superblock,
        reader,
        geometry,
        image,
        recorded.unwrap_or(0),
        report,
    )
}

/// Replays the log behind `record`, whose image is given with it. Records say
/// that the log was durable up to serial `recorded`.
///
/// # Errors
/// If the device fails.
pub fn roll_forward(
    superblock: &Superblock,
    reader: &Reader,
    geometry: &Geometry,
    image: (&CheckpointRecord, Base, Vec<UsageEntry>),
    recorded: u64,
    mut report: RecoveryReport,
) -> Result<Recovered> {
    let (record, base, table) = image;
    report.checkpoint = base.serial;
    report.clean = record.header.flags.get() & checkpoint_flags::CLEAN != 0;
    let opened = record.header.segments_opened.get();
    let segments = SegmentTable::load(table, opened, base.serial);
    let usage = base.usage;
    let live = crate::delta::Delta {
        next_ino: base.next_ino,
        ..crate::delta::Delta::default()
    };
    let unfinished = base.unfinished.clone();
    let committed = Committed {
        base: Arc::new(base),
        frozen: None,
        live,
    };
    let mut replay = Replay {
        geometry,
        reader,
        volume_tag: superblock.volume_tag(),
        recorded,
        out: Recovered {
            committed: RankedRwLock::new(Rank::Committed, committed),
            segments,
            position: record.header.position,
            leftover: None,
            usage,
            unfinished,
            report,
        },
        pending: Vec::new(),
        reserved_blocks: 0,
    };
    replay.claim_head();
    replay.run()?;
    Ok(replay.out)
}

/// The newest record whose image can be read: falling back is what the older
/// one is retained for.
fn first_usable(
    reader: &Reader,
    geometry: &Geometry,
    records: Vec<CheckpointRecord>,
    report: &mut RecoveryReport,
) -> Result<(CheckpointRecord, Base, Vec<UsageEntry>)> {
    let mut refused = None;
    for record in records {
        let loaded = check_position(geometry, &record.header.position)
            .and_then(|()| load_base(reader, geometry, &record));
        match loaded {
            Ok((base, table)) => return Ok((record, base, table)),
            Err(error) => {
                tracing::error!(%error, serial = record.header.serial.get(), "checkpoint refused");
                report.refused_records.push(error.to_string());
                refused.get_or_insert(error);
            }
        }
    }
    let none = || Malformed::new("checkpoint record", "there is none").into();
    Err(refused.unwrap_or_else(none))
}

/// Refuses a position that no log can have.
///
/// # Errors
/// `Damaged`.
pub fn check_position(geometry: &Geometry, position: &LogPosition) -> Result<()> {
    let count = geometry.segment_count;
    let sound = position.segment.get() < count
        && position.next_segment.get() < count
        && position.segment != position.next_segment
        && position.offset.get() <= geometry.segment_bytes
        && position.serial.get() < 1 << 62
        && position.offset.get() >= geometry.payload_start(position.segment.get())
        && position.offset.get().is_multiple_of(geometry.write_unit);
    if sound {
        Ok(())
    } else {
        Err(Malformed::new("checkpoint record", "its log position is impossible").into())
    }
}

/// A verified partial whose group is not complete yet.
struct Pending {
    summary: Summary,
    items: Vec<ChainItem>,
    /// Its inodes, in the order of the items.
    images: Vec<InodeImage>,
    /// Blocks that its records reserve.
    reserved_blocks: u64,
}

struct Replay<'a> {
    geometry: &'a Geometry,
    reader: &'a Reader,
    volume_tag: u64,
    /// Up to which serial checkpoint records say that the log was durable.
    recorded: u64,
    out: Recovered,
    pending: Vec<Pending>,
    /// Blocks that records of applied groups have reserved.
    reserved_blocks: u64,
}

impl Replay<'_> {
    fn claim_head(&mut self) {
        let position = self.out.position;
        // The log may have entered it after the table was written.
        self.out
            .segments
            .entered(position.segment.get(), position.segment_incarnation.get());
        self.out.segments.claim(position.next_segment.get());
    }

    fn run(&mut self) -> Result<()> {
        let mut boundary = self.out.position;
        loop {
            // What ends the log is believed when it was read twice: to take a
            // misread for the end would drop what was acknowledged.
            let next = match self.next()? {
                Err(_) => self.next()?,
                found => found,
            };
            match next {
                Ok(partial) => {
                    self.take(partial)?;
                    if self.pending.is_empty() {
                        boundary = self.out.position;
                    }
                }
                Err(reason) => {
                    self.out.report.end = reason.to_string();
                    self.out.report.dropped_partials = self.pending.len() as u64;
                    break;
                }
            }
        }
        if planted::is(Planted::ResumeBeforeGroup) {
            self.out.position = boundary;
        }
        // Log behind the checkpoint: the mount after it never unmounted.
        self.out.report.clean &= self.out.report.partials == 0;
        let (tag, recorded) = (self.volume_tag, self.recorded);
        tail::search(self.geometry, self.reader, tag, recorded, &mut self.out);
        Ok(())
    }

    /// The next partial of the chain, or why there is none.
    fn next(&self) -> Result<std::result::Result<Pending, Malformed>> {
        let position = self.out.position;
        let (mut segment, mut offset, _) = self.geometry.successor(&position);
        if planted::is(Planted::PlaceNotShared) && offset > self.geometry.segment_bytes / 4 * 3 {
            segment = position.next_segment.get();
            offset = self.geometry.payload_start(segment);
        }
        // A unit torn by the power may read as an error: like any partial that
        // is not whole, it ends the chain, and the tail search decides.
        let unreadable = |error: Error| Malformed::new("partial segment", error.to_string());
        let read = Summary::read(self.reader, self.geometry, self.volume_tag, segment, offset);
        let summary = match read.unwrap_or_else(|error| Err(unreadable(error))) {
            Ok(summary) => summary,
            Err(malformed) => return Ok(Err(malformed)),
        };
        if let Err(malformed) = follows(self.geometry, &position, &summary.header) {
            return Ok(Err(malformed));
        }
        let items = match summary.items(self.geometry) {
            Ok(items) => items,
            Err(malformed) => return Ok(Err(malformed)),
        };
        let reserved_blocks = match self.plausible(&items) {
            Ok(blocks) => blocks,
            Err(malformed) => return Ok(Err(malformed)),
        };
        let bytes = match summary.read_partial(self.reader) {
            _ if items.is_empty() => Vec::new(),
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(unreadable(error))),
        };
        let images = summary
            .verify(self.geometry, &items, &bytes)
            .and_then(|()| self.images(&summary, &items, &bytes));
        Ok(images.map(|images| Pending {
            summary,
            items,
            images,
            reserved_blocks,
        }))
    }

    /// Refuses what no writer of this volume can have meant, however good the
    /// checksums: it would cost memory without bound. Returns how many blocks
    /// the records reserve.
    fn plausible(&self, items: &[ChainItem]) -> std::result::Result<u64, Malformed> {
        let volume = self.geometry.volume_bytes();
        let most =
            self.out.committed.read().base.next_ino + volume / u64::from(self.geometry.inode_bytes);
        let mut reserved = 0u64;
        for item in items {
            if let ChainItem::Record {
                record: Record::Reserved(from, to, _),
                ..
            } = item
            {
                reserved = reserved.saturating_add(to - from);
            }
            let ino = item.ino().0;
            if ino != InodeNo::IFILE.0 && !(InodeNo::ROOT.0..most).contains(&ino) {
                return Err(Malformed::new("summary", format!("inode number {ino}")));
            }
        }
        let pending = self.pending.iter().map(|partial| partial.reserved_blocks);
        let earlier = pending.fold(self.reserved_blocks, u64::saturating_add);
        // Freed and reserved again, a block may count several times.
        if reserved.saturating_add(earlier) > 64 * (volume / u64::from(self.geometry.block_bytes)) {
            return Err(Malformed::new("summary", "reserves more than the volume"));
        }
        Ok(reserved)
    }

    /// The inodes of a partial, in the order of its items.
    fn images(
        &self,
        summary: &Summary,
        items: &[ChainItem],
        partial: &[u8],
    ) -> std::result::Result<Vec<InodeImage>, Malformed> {
        items
            .iter()
            .filter(|item| matches!(item, ChainItem::Inode { .. }))
            .map(|item| {
                let image =
                    InodeImage::decode(summary.stored(self.geometry, item, partial), item.ino())?;
                match item {
                    ChainItem::Inode { version, .. } if image.inode.version != *version => Err(
                        Malformed::new("inode", "version differs from the summary's"),
                    ),
                    _ => Ok(image),
                }
            })
            .collect()
    }

    /// A valid partial: advances, and applies its group if it is the last.
    fn take(&mut self, partial: Pending) -> Result<()> {
        let header = partial.summary.header;
        let segment = partial.summary.segment;
        let position = &mut self.out.position;
        if segment != position.segment.get() {
            self.out.segments.leave(position.segment.get());
            self.out
                .segments
                .entered(segment, header.segment_incarnation.get());
            self.out.segments.claim(header.next_segment.get());
        }
        self.out.segments.get_mut(segment).last_serial = header.serial.get();
        *position = LogPosition {
            serial: header.serial,
            offset: (partial.summary.offset + partial.summary.bytes()).into(),
            segment: segment.into(),
            next_segment: header.next_segment,
            predecessor: header.chain_crc().into(),
            incarnation: header.incarnation,
            segment_incarnation: header.segment_incarnation,
        };
        self.out.report.partials += 1;
        self.out.report.log_bytes += u64::from(partial.summary.bytes());
        if header.has(summary_flags::FIRST) {
            self.out.report.dropped_partials += self.pending.len() as u64;
            self.pending.clear();
        } else if self.pending.is_empty() && !planted::is(Planted::HalfGroups) {
            return Ok(());
        }
        self.pending.push(partial);
        if header.has(summary_flags::LAST) || planted::is(Planted::HalfGroups) {
            let group = std::mem::take(&mut self.pending);
            if !header.has(summary_flags::CHECKPOINT) {
                for partial in group {
                    self.apply(partial)?;
                }
                self.out.report.groups += 1;
                // Totals are no reason to drop a group. What no volume holds
                // would overflow sums, and is counted anew by a check.
                let most = self.geometry.volume_bytes();
                self.out.usage = Usage {
                    inodes: header.inodes_used.get().min(most),
                    blocks: header.blocks_used.get().min(most),
                    sectors: header.sectors_used.get().min(most),
                };
            }
        }
        self.out.committed.get_mut().live.log_bytes = self.out.report.log_bytes;
        Ok(())
    }

    fn apply(&mut self, partial: Pending) -> Result<()> {
        let geometry = self.geometry;
        self.reserved_blocks += partial.reserved_blocks;
        let mut images = partial.images.into_iter();
        for item in &partial.items {
            let image = match item {
                ChainItem::Inode { .. } => images.next(),
                _ => None,
            };
            if !self.stands(item)? {
                continue;
            }
            let flat = self.is_flat(item);
            let live = &mut self.out.committed.get_mut().live;
            match *item {
                ChainItem::Record {
                    ino,
                    version,
                    record,
                } => {
                    let lost = match record {
                        Record::Freed(_) => planted::is(Planted::FreedLost),
                        Record::Truncated(_) => planted::is(Planted::TruncateLost),
                        _ => false,
                    };
                    if lost {
                        continue;
                    }
                    live.apply_record(geometry, ino, version, record);
                }
                ChainItem::Block {
                    ino,
                    version,
                    pointer,
                    xattrs: true,
                    ..
                } => {
                    live.apply_xattrs(geometry, ino, version, pointer);
                }
                ChainItem::Block {
                    ino,
                    version,
                    block,
                    pointer,
                    written_ns,
                    ..
                } => {
                    let change = BlockChange {
                        ino,
                        version,
                        block,
                        pointer,
                        written_ns,
                        flat,
                    };
                    live.apply_block(geometry, change);
                }
                ChainItem::Node { .. } => {}
                ChainItem::Inode { place, .. } => {
                    if let Some(image) = image {
                        let moved = matches!(
                            item,
                            ChainItem::Inode {
                                source: Some(_),
                                ..
                            }
                        );
                        live.apply_image(geometry, PlacedImage { image, place }, moved);
                    }
                }
            }
        }
        Ok(())
    }

    /// True if a moved block's file is known to have no index nodes: the price
    /// of folding it must not exceed what it was when the move was admitted.
    fn is_flat(&self, item: &ChainItem) -> bool {
        let ChainItem::Block { ino, source, .. } = item else {
            return false;
        };
        let base = Arc::clone(&self.out.committed.read().base);
        if ino.0 >= base.next_ino {
            return true;
        }
        if source.is_none() {
            return false;
        }
        match base.inode(self.reader, self.geometry, *ino) {
            Ok(image) => image
                .as_ref()
                .and_then(|image| image.root.as_ref())
                .is_none_or(|root| root.height == 0),
            Err(_) => false,
        }
    }

    /// Protocol rule 18, at replay: a move counts only if its source stands.
    fn stands(&self, item: &ChainItem) -> Result<bool> {
        let lookup = Lookup {
            committed: &self.out.committed,
            reader: self.reader,
            geometry: self.geometry,
        };
        match *item {
            ChainItem::Block {
                ino,
                block,
                pointer,
                source: Some(source),
                xattrs,
                ..
            } => {
                let current = if xattrs {
                    lookup.xattrs(ino).map(Some)
                } else {
                    lookup
                        .blocks(ino, block, block + 1)
                        .map(|(b, _)| b.first().map(|b| b.1))
                };
                match current {
                    Ok(current) => {
                        Ok(current.is_some_and(|p| p.same_copy(source, pointer.birth())))
                    }
                    Err(Error::NoInode(_)) => Ok(false),
                    Err(error) => {
                        tracing::warn!(%error, "a move is dropped: its file cannot be read");
                        Ok(false)
                    }
                }
            }
            ChainItem::Inode {
                ino,
                version,
                place,
                source: Some((sector, slot)),
            } => {
                let (current, _) = lookup.inode_place(ino)?;
                Ok(current.is_some_and(|(v, p)| {
                    v == version && p.sector == sector && p.slot == slot && p.birth == place.birth
                }))
            }
            _ => Ok(true),
        }
    }
}

/// Unfinished inodes after replay.
pub fn unfinished_after(recovered: &Recovered) -> BTreeSet<u64> {
    let mut list = recovered.unfinished.clone();
    let committed = recovered.committed.read();
    let changes = &committed.live.unfinished;
    for (&ino, &joined) in changes {
        if joined {
            list.insert(ino);
        } else {
            list.remove(&ino);
        }
    }
    list
}
