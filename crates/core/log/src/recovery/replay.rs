//! Following the chain of partials, and applying the complete groups.
//!
//! Invariants:
//! - A partial is accepted only if it follows its predecessor and all of its payload has
//!   the right checksums.
//! - The position advances with every accepted partial, whether its group is complete or
//!   not (rule 10); the committed state changes only when a group's last partial has been
//!   accepted (rule 1).
//! - The memory that crafted records can take in the live delta is bounded before
//!   anything is applied.

use super::{Recovered, tail};
use crate::apply::Record;
use crate::chain::{ChainItem, Payload, Summary};
use crate::error::{Error, Result};
use crate::format::history::HISTORY;
use crate::format::inode::InodeImage;
use crate::format::summary::summary_flags;
use crate::format::{LogPosition, Malformed, SummaryHeader};
use crate::geometry::Geometry;
use crate::heads::is_entered;
use crate::reader::Reader;
use std::cmp::Reverse;
use varve_fs::planted::{self, Planted};
use varve_fs::{InodeNo, Usage};

/// A verified partial whose group is not complete yet.
pub(super) struct Pending {
    pub(super) summary: Summary,
    pub(super) items: Vec<ChainItem>,
    /// Its inodes, in the order of the items.
    pub(super) images: Vec<InodeImage>,
    /// Blocks that its records reserve.
    pub(super) reserved_blocks: u64,
}

/// A roll-forward in progress.
pub(super) struct Replay<'a> {
    pub(super) geometry: &'a Geometry,
    pub(super) reader: &'a Reader,
    volume_tag: u64,
    /// Serial up to which checkpoint records state that the log was durable.
    recorded: u64,
    pub(super) out: Recovered,
    /// Summary at the place where each head continues, as far as it has been read.
    places: Vec<Option<std::result::Result<Summary, Malformed>>>,
    pending: Vec<Pending>,
    /// Blocks that records of applied groups have reserved.
    pub(super) reserved_blocks: u64,
}

impl<'a> Replay<'a> {
    /// Starts at the position of the record from which `out` was made. Records state that
    /// the log was durable up to serial `recorded`.
    pub(super) fn new(
        geometry: &'a Geometry,
        reader: &'a Reader,
        volume_tag: u64,
        recorded: u64,
        mut out: Recovered,
    ) -> Self {
        // The log may have opened them after the table was written.
        for position in out.end.positions() {
            if is_entered(&position) {
                out.segments
                    .stood_in(position.segment.get(), position.segment_incarnation.get());
            }
            out.segments.claim(position.next_segment.get());
        }
        Replay {
            geometry,
            reader,
            volume_tag,
            recorded,
            places: vec![None; out.end.heads()],
            out,
            pending: Vec::new(),
            reserved_blocks: 0,
        }
    }
    /// Follows the chain to its end, and searches after it for proof of damage.
    ///
    /// # Errors
    /// If the device fails.
    pub(super) fn run(mut self) -> Result<Recovered> {
        let mut boundary = self.out.end;
        loop {
            // The end of the log is accepted only when it was read twice: if a misread
            // were taken for the end, acknowledged data would be dropped.
            let next = match self.next()? {
                Err(_) => {
                    self.forget_places();
                    self.next()?
                }
                found => found,
            };
            match next {
                Ok(partial) => {
                    self.take(partial)?;
                    if self.pending.is_empty() {
                        boundary = self.out.end;
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
            self.out.end = boundary;
        }
        // Log after the checkpoint means that the following mount was not unmounted.
        self.out.report.clean &= self.out.report.partials == 0;
        let (tag, recorded) = (self.volume_tag, self.recorded);
        tail::search(self.geometry, self.reader, tag, recorded, &mut self.out)?;
        Ok(self.out)
    }

    /// The next partial of the chain, or the reason why there is none.
    fn next(&mut self) -> Result<std::result::Result<Pending, Malformed>> {
        let mut refused = None;
        let mut following = Vec::new();
        for head in 0..self.out.end.heads() {
            match self.at_head(head)? {
                Ok(summary) => following.push(summary),
                Err(malformed) => {
                    refused.get_or_insert(malformed);
                }
            }
        }
        // Of several, the one of the latest mount is next, because that mount found no
        // other. A torn leftover must not hide a whole partial.
        following.sort_by_key(|summary| Reverse(summary.header.incarnation.get()));
        let mut torn = None;
        for summary in following {
            match self.verified(summary)? {
                Ok(partial) => return Ok(Ok(partial)),
                Err(malformed) => {
                    torn.get_or_insert(malformed);
                }
            }
        }
        Ok(Err(torn.or(refused).expect("there is a first head")))
    }

    /// Drops the summaries, so that they are read again.
    fn forget_places(&mut self) {
        self.places.iter_mut().for_each(|place| *place = None);
    }

    /// The summary at the place where this head continues, if it follows.
    fn at_head(&mut self, head: usize) -> Result<std::result::Result<Summary, Malformed>> {
        let position = self.out.end.at(head);
        let (mut segment, mut offset, _) = self.geometry.successor(&position);
        if planted::is(Planted::PlaceNotShared) && offset > self.geometry.segment_bytes / 4 * 3 {
            segment = position.next_segment.get();
            offset = self.geometry.payload_start(segment);
        }
        // While other heads advance, this place does not change.
        if self.places[head].is_none() {
            // A unit torn by a power cut may be unreadable. Like any partial that is not
            // whole, it ends the chain, and the tail search decides.
            let read = Summary::read(self.reader, self.geometry, self.volume_tag, segment, offset);
            self.places[head] = Some(read.or_else(unreadable)?);
        }
        let found = self.places[head].as_ref().expect("was read");
        let end = &self.out.end;
        Ok(found.clone().and_then(|summary| {
            end.follows(self.geometry, head, &summary.header)?;
            Ok(summary)
        }))
    }

    /// Verifies the payload of a summary that follows.
    fn verified(&self, summary: Summary) -> Result<std::result::Result<Pending, Malformed>> {
        let items = match summary.items(self.geometry) {
            Ok(items) => items,
            Err(malformed) => return Ok(Err(malformed)),
        };
        let reserved_blocks = match self.plausible(&items, &summary.header) {
            Ok(blocks) => blocks,
            Err(malformed) => return Ok(Err(malformed)),
        };
        let payload = match summary.read_payload(self.reader, &items) {
            Ok(payload) => payload,
            Err(error) => return unreadable(error),
        };
        let images = summary
            .verify(self.geometry, &items, &payload)
            .and_then(|()| self.images(&summary, &items, &payload));
        Ok(images.map(|images| Pending {
            summary,
            items,
            images,
            reserved_blocks,
        }))
    }

    /// Refuses records that no writer of this volume can have made, even with valid
    /// checksums, because they would take unbounded memory. Returns the number of blocks
    /// that the records reserve.
    fn plausible(
        &self,
        items: &[ChainItem],
        header: &SummaryHeader,
    ) -> std::result::Result<u64, Malformed> {
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
            // No user's group has blocks of the history.
            let of_history =
                ino == HISTORY.0 && header.flags.get() & summary_flags::NOT_ORDINARY != 0;
            let of_volume = ino == InodeNo::IFILE.0 || of_history;
            if !of_volume && !(InodeNo::ROOT.0..most).contains(&ino) {
                return Err(Malformed::new("summary", format!("inode number {ino}")));
            }
        }
        let pending = self.pending.iter().map(|partial| partial.reserved_blocks);
        let earlier = pending.fold(self.reserved_blocks, u64::saturating_add);
        // A block that is freed and reserved again may count several times.
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
        payload: &Payload,
    ) -> std::result::Result<Vec<InodeImage>, Malformed> {
        items
            .iter()
            .filter(|item| matches!(item, ChainItem::Inode { .. }))
            .map(|item| {
                let image =
                    InodeImage::decode(summary.stored(self.geometry, item, payload), item.ino())?;
                match item {
                    ChainItem::Inode { version, .. } if image.inode.version != *version => Err(
                        Malformed::new("inode", "version differs from the summary's"),
                    ),
                    _ => Ok(image),
                }
            })
            .collect()
    }

    /// Accepts a valid partial: advances, and applies its group if it is the last.
    fn take(&mut self, partial: Pending) -> Result<()> {
        let header = partial.summary.header;
        let segment = partial.summary.segment;
        let head = usize::from(header.head);
        let position = self.out.end.at(head);
        if self.geometry.successor(&position).2 {
            if is_entered(&position) {
                self.out.segments.leave(position.segment.get());
            }
            self.out
                .segments
                .entered(segment, header.segment_incarnation.get());
            self.out.segments.claim(header.next_segment.get());
        }
        self.out.segments.get_mut(segment).last_serial = header.serial.get();
        if header.has(summary_flags::CHECKPOINT) {
            self.out.segments.takes_metadata(segment);
        }
        // Whether its group is complete or not (rule P2).
        let mut plugged_bytes = 0;
        let items = partial.items.iter();
        let plugs = items.filter(|item| partial.summary.is_elsewhere(item));
        for pointer in plugs.filter_map(ChainItem::pointer) {
            if let Some(plugged) = self.geometry.segment_of(pointer.sector()) {
                let serial = header.serial.get();
                self.out.segments.plugged(plugged, serial);
                plugged_bytes += pointer.stored_bytes();
            }
        }
        let behind = LogPosition {
            serial: header.serial,
            offset: (partial.summary.offset + partial.summary.bytes()).into(),
            segment: segment.into(),
            next_segment: header.next_segment,
            predecessor: header.chain_crc().into(),
            incarnation: header.incarnation,
            segment_incarnation: header.segment_incarnation,
        };
        self.out.end.advance(head, behind);
        self.places[head] = None;
        self.out.report.partials += 1;
        self.out.report.log_bytes += u64::from(partial.summary.bytes()) + plugged_bytes;
        if header.has(summary_flags::FIRST) {
            self.out.report.dropped_partials += self.pending.len() as u64;
            self.pending.clear();
        } else if self.pending.is_empty() && !planted::is(Planted::HalfGroups) {
            return Ok(());
        }
        self.pending.push(partial);
        if header.has(summary_flags::LAST) || planted::is(Planted::HalfGroups) {
            let group = std::mem::take(&mut self.pending);
            self.out.mark = behind.into();
            let flags = header.flags.get();
            if flags & summary_flags::NOT_ORDINARY == 0 {
                self.out.committed.get_mut().live.replayed = Some(header.replayed());
            }
            let skipped = summary_flags::CHECKPOINT | skipped_spills();
            if flags & skipped == 0 {
                for partial in group {
                    self.apply(partial)?;
                }
                self.out.segments.overtaken(header.serial.get());
                self.out.segments.stale = true;
                self.out.report.groups += 1;
                // A group is not dropped because of its totals. Impossible ones would
                // overflow sums; a check recounts them.
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
}

/// Flag of partials that are skipped: spilled blocks are part of no file until a later
/// group says so.
fn skipped_spills() -> u16 {
    match planted::is(Planted::SpillApplied) {
        true => 0,
        false => summary_flags::SPILLED,
    }
}

/// Takes a failed read for a partial that is not whole, unless the failure says nothing
/// about the medium's content.
fn unreadable<T>(error: Error) -> Result<std::result::Result<T, Malformed>> {
    match error.is_of_service() {
        true => Err(error),
        false => Ok(Err(Malformed::new("partial segment", error.to_string()))),
    }
}
