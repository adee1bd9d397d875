//! Rebuilds a checkpoint record from the writes of the checkpoint.
//!
//! The log contains the whole image of a checkpoint: index nodes, inodes, the blocks of
//! the ifile and the nodes of its index. Only the root of that index and the position in
//! the log are in the record alone.
//!
//! - *Root*: the newest nodes of the ifile's greatest height. A checkpoint writes them
//!   last, so everything below them is in the log.
//! - *Position*: replay may start before the checkpoint's position, because groups are
//!   applied again in their order. So it starts behind the third root before this one,
//!   which omits nothing between the checkpoint's boundary and its end. A replay that
//!   ends before the boundary would return to an older image, so the start is also behind
//!   the last damage before the root.
//!
//! Repair counts everything again, so the counts of the record are left out.

use crate::repair::evidence::{Evidence, Partial};
use std::collections::{BTreeMap, BTreeSet};
use varve_fs::InodeNo;
use varve_lfs::format::checkpoint::CheckpointRecord;
use varve_lfs::format::ifile::{ENTRY_BYTES, IMAP_OFFSET, MAX_INO};
use varve_lfs::format::inode::{InodeImage, Root};
use varve_lfs::format::{LogPosition, Pointer, Superblock};
use varve_lfs::internal::{ChainItem, LogEnd, Reader, Summary, first_record, place_of};
use varve_lfs::{Geometry, MAX_HEADS, Result};

/// Number of roots before the newest to which replay goes back.
const ROOTS_BACK: usize = 3;
/// Serial of the rebuilt record: higher than any that a usage table can contain.
const SERIAL: u64 = 1 << 40;

/// Returns the record of the newest checkpoint whose root is in the log. A volume without
/// a root has the record that mkfs wrote.
///
/// # Errors
/// If the ifile's inode cannot be encoded for this volume.
pub(crate) fn rebuild(
    reader: &Reader,
    superblock: &Superblock,
    evidence: &Evidence,
) -> Result<CheckpointRecord> {
    let geometry = Geometry::from(superblock);
    let tag = superblock.volume_tag();
    let roots = Roots::find(reader, &geometry, tag, evidence);
    let mut record = first_record(superblock, superblock.created_ns.get());
    let header = &mut record.header;
    header.serial = SERIAL.into();
    header.flags = 0.into();
    header.segments_opened = evidence.segments_opened.max(1).into();
    let serials: Vec<u64> = roots.serials.iter().rev().copied().collect();
    let newest = serials.first().copied();
    let oldest = serials.get(ROOTS_BACK).copied().unwrap_or(0);
    if let Some(end) = end(reader, &geometry, tag, evidence, newest, oldest) {
        end.store(header);
    }
    let Some(newest) = newest else {
        return Ok(record);
    };
    header.durable_through = newest.into();
    let mut image = InodeImage::decode(&record.ifile, InodeNo::IFILE)?;
    let unit = u64::from(geometry.block_bytes);
    let per_block = geometry.entries_per_block();
    let last = roots.last_block.saturating_sub(IMAP_OFFSET / unit);
    let used = roots.used_entries(reader).unwrap_or(per_block);
    let next_ino = (last * per_block + used).clamp(InodeNo::FIRST.0, MAX_INO);
    header.next_ino = next_ino.into();
    image.inode.size = IMAP_OFFSET + next_ino * ENTRY_BYTES as u64;
    image.root = Some(roots.root(geometry.root_slots(), newest));
    image.encode(&mut record.ifile);
    Ok(record)
}

/// Index nodes of the ifile that may be directly below its root.
#[derive(Default)]
struct Roots {
    height: u8,
    /// Nodes by index and serial.
    nodes: BTreeMap<(u64, u64), Pointer>,
    serials: BTreeSet<u64>,
    /// Highest block of the ifile ever written, and its newest copy.
    last_block: u64,
    last: Option<Pointer>,
}

impl Roots {
    fn find(reader: &Reader, geometry: &Geometry, tag: u64, evidence: &Evidence) -> Self {
        let mut roots = Roots::default();
        evidence.visit(reader, geometry, tag, &mut |partial, item| match *item {
            ChainItem::Node { id, pointer, .. } if id.ino == InodeNo::IFILE => {
                if id.height > roots.height {
                    roots.height = id.height;
                    roots.nodes.clear();
                    roots.serials.clear();
                }
                if id.height == roots.height {
                    roots.nodes.insert((id.index, partial.serial), pointer);
                    roots.serials.insert(partial.serial);
                }
            }
            ChainItem::Block {
                ino,
                block,
                pointer,
                ..
            } if ino == InodeNo::IFILE && block >= roots.last_block => {
                roots.last_block = block;
                roots.last = Some(pointer);
            }
            _ => {}
        });
        roots
    }

    /// Returns the number of entries in the last block of the inode map up to the last
    /// one in use.
    fn used_entries(&self, reader: &Reader) -> Option<u64> {
        let bytes = reader.ifile_block(&self.last?, self.last_block).ok()?;
        let entries = bytes.chunks_exact(ENTRY_BYTES);
        let unused = entries
            .rev()
            .take_while(|entry| entry.iter().all(|byte| *byte == 0));
        Some((bytes.len() / ENTRY_BYTES - unused.count()) as u64)
    }

    /// Returns the root of the checkpoint whose last node has `serial`.
    fn root(&self, slots: usize, serial: u64) -> Root {
        let mut root = Root {
            height: self.height,
            slots: Vec::new(),
        };
        for index in 0..slots as u64 {
            let newest = self.nodes.range((index, 0)..=(index, serial)).next_back();
            let pointer = newest.map_or(Pointer::NONE, |(_, pointer)| *pointer);
            root.slots.push(pointer);
        }
        while root.slots.last().is_some_and(Pointer::is_none) {
            root.slots.pop();
        }
        root
    }
}

/// Returns the earliest position behind serial `oldest` from which every partial up to
/// `newest` is valid and follows its predecessor.
fn end(
    reader: &Reader,
    geometry: &Geometry,
    tag: u64,
    evidence: &Evidence,
    newest: Option<u64>,
    oldest: u64,
) -> Option<LogEnd> {
    let partials = evidence.partials();
    let newest = newest?;
    let root = partials.iter().rposition(|p| p.serial == newest)?;
    let mut at = root;
    let mut summary = read(reader, geometry, tag, &partials[at])?;
    while at > 0 && partials[at].serial > oldest.max(1) {
        let before = &partials[at - 1];
        if before.serial + 1 != partials[at].serial || !is_whole(reader, geometry, &summary) {
            break;
        }
        let Some(previous) = read(reader, geometry, tag, before) else {
            break;
        };
        if summary.header.predecessor.get() != previous.header.chain_crc() {
            break;
        }
        at -= 1;
        summary = previous;
    }
    let stood = |at: usize, summary: &Summary| {
        let end = heads(reader, geometry, tag, partials, at)
            .map(|mut end| {
                end.advance(usize::from(summary.header.head), behind(summary));
                end
            })
            .filter(|end| end.check(geometry).is_ok());
        // If the inferred positions are impossible, only the head that wrote last is
        // used.
        end.unwrap_or_else(|| LogEnd::from(behind(summary)))
    };
    let end = stood(at, &summary);
    let several = partials.iter().any(|p| p.head > 0);
    if several && !leads_through(reader, geometry, tag, end, &partials[at + 1..=root]) {
        return Some(stood(root, &read(reader, geometry, tag, &partials[root])?));
    }
    Some(end)
}

/// Returns true if replay from `end` accepts all of `partials`.
fn leads_through(
    reader: &Reader,
    geometry: &Geometry,
    tag: u64,
    mut end: LogEnd,
    partials: &[Partial],
) -> bool {
    partials.iter().all(|partial| {
        let head = usize::from(partial.head);
        let Some(summary) = read(reader, geometry, tag, partial) else {
            return false;
        };
        let follows = head < end.heads()
            && stands_behind(geometry, &end.at(head), partial)
            && end.follows(geometry, head, &summary.header).is_ok();
        if follows {
            end.advance(head, behind(&summary));
        }
        follows
    })
}

/// Returns true if a head at `place` continues with `partial`.
fn stands_behind(geometry: &Geometry, place: &LogPosition, partial: &Partial) -> bool {
    let (segment, offset, _) = geometry.successor(place);
    (segment, offset) == (partial.segment, partial.offset)
}

/// Returns the positions of all heads behind partial number `at` of `partials`. A head
/// may have been closed long ago and opened elsewhere, so its position is derived from
/// its next partial. Heads that wrote no further partial are left out.
fn heads(
    reader: &Reader,
    geometry: &Geometry,
    tag: u64,
    partials: &[Partial],
    at: usize,
) -> Option<LogEnd> {
    let (before, later) = partials.split_at(at + 1);
    let last_of = |partials: &[Partial], head: u8| {
        let last = partials.iter().rfind(|p| p.head == head)?;
        Some(behind(&read(reader, geometry, tag, last)?))
    };
    let mut end = LogEnd::from(last_of(before, 0)?);
    let mut used: BTreeSet<u32> = partials.iter().map(|p| p.segment).collect();
    let written = later.iter().chain(partials.get(at));
    let most = written.map(|p| p.head).max().unwrap_or(0);
    // A head may still have named its last next segment when it was closed.
    used.extend(
        (0..MAX_HEADS as u8)
            .filter_map(|head| last_of(partials, head))
            .map(|place| place.next_segment.get()),
    );
    for head in 1..=most {
        let next = later.iter().find(|p| p.head == head);
        let goes_on = |place: &LogPosition| match next {
            Some(next) => stands_behind(geometry, place, next),
            None => partials[at].head == head,
        };
        if let Some(place) = last_of(before, head).filter(goes_on) {
            end.open(place.next_segment.get(), geometry);
            end.set_place(usize::from(head), place_of(&place));
            continue;
        }
        // The head entered its first segment later, or never.
        let named = |segment: &u32| {
            used.contains(segment) || end.positions().any(|p| p.next_segment.get() == *segment)
        };
        let free = || (0..geometry.segment_count).find(|segment| !named(segment));
        end.open(next.map(|p| p.segment).or_else(free)?, geometry);
    }
    Some(end)
}

fn behind(summary: &Summary) -> LogPosition {
    let header = &summary.header;
    LogPosition {
        serial: header.serial,
        offset: (summary.offset + summary.bytes()).into(),
        segment: summary.segment.into(),
        next_segment: header.next_segment,
        predecessor: header.chain_crc().into(),
        incarnation: header.incarnation,
        segment_incarnation: header.segment_incarnation,
    }
}

fn is_whole(reader: &Reader, geometry: &Geometry, summary: &Summary) -> bool {
    let Ok(items) = summary.items(geometry) else {
        return false;
    };
    summary
        .read_payload(reader, &items)
        .is_ok_and(|payload| summary.verify(geometry, &items, &payload).is_ok())
}

fn read(reader: &Reader, geometry: &Geometry, tag: u64, partial: &Partial) -> Option<Summary> {
    let (segment, offset) = (partial.segment, partial.offset);
    Summary::read(reader, geometry, tag, segment, offset)
        .ok()?
        .ok()
}
