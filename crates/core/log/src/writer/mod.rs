//! The segment writer: one group at a time, from items to the device.
//!
//! Order of one append, under the log lock:
//! 1. plan: cut the group into partial segments and take their segments;
//! 2. fill: copy blocks, compute checksums (no lock that readers need);
//! 3. apply: under the committed state's lock, test moves, write entries and inodes,
//!    change pointers, announce the buffers as in flight. From here on every read sees
//!    the group;
//! 4. write: after the log lock is released, write the buffers to the device
//!    ([`Output`](crate::log::Output)).
//!
//! No thread waits here for the device while it has a lock.
//!
//! Invariants:
//!
//! - partial `n + 1` is applied after partial `n`, and each item of a group has a place
//! - `offset + bytes <= segment_bytes` for every partial
//! - a spill's places are changed under the log's lock only

mod account;
mod append;
mod holes;
mod onward;
mod respilled;
mod spilled;

use crate::control::Control;
use crate::durability::{Durability, InFlight};
use crate::error::Result;
use crate::format::summary::{MAGIC, summary_flags};
use crate::format::{LogPosition, Mark, Pointer, SECTOR, SummaryHeader};
use crate::geometry::Geometry;
use crate::heads::{LogEnd, is_entered};
use crate::layers::Layers;
use crate::locks::{Rank, RankedMutex};
use crate::log::build::PartialBuffer;
use crate::log::holes::gather_blocks;
use crate::log::item::{GroupKind, LogItem, Placed};
use crate::log::placement::HeadRun;
use crate::log::plan::{PartialPlan, plan};
use crate::log::{LogState, Output, Stamp};
use crate::newest::Newest;
use crate::reader::Reader;
use crate::segments::SegmentTable;
use crate::space::Space;
use crate::spills::Spills;
use crate::statistics::Counters;
use crate::volume::Volume;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::Clock;
use varve_fs::Usage;
use varve_fs::planted::{self, Planted};

/// Result of appending a group.
#[derive(Debug)]
pub struct Written {
    /// Serial of its last partial.
    pub serial: u64,
    /// The place of each item, in the order in which they were written: the order of the
    /// group unless it was divided between heads, which a checkpoint's group never is.
    pub placed: Vec<Placed>,
}

/// Appends groups to the log, and keeps the places of spilled blocks.
pub struct Writer {
    output: Output,
    /// Blocks of open transactions.
    spills: RankedMutex<Spills>,
    layers: Arc<Layers>,
    space: Arc<Space>,
    control: Arc<Control>,
    counters: Arc<Counters>,
    durability: Arc<Durability>,
    geometry: Arc<Newest<Geometry>>,
    log: Arc<RankedMutex<LogState>>,
    reader: Arc<Reader>,
    segments: Arc<RankedMutex<SegmentTable>>,
    volume_tag: u64,
    clock: Arc<dyn Clock>,
}

impl Writer {
    /// The writer of a volume, which gives partials to `output`.
    pub(crate) fn new(volume: &Volume, output: Output) -> Self {
        Writer {
            output,
            spills: RankedMutex::new(Rank::Spills, Spills::default()),
            layers: Arc::clone(&volume.layers),
            space: Arc::clone(&volume.space),
            control: Arc::clone(&volume.control),
            counters: Arc::clone(&volume.counters),
            durability: Arc::clone(&volume.durability),
            geometry: Arc::clone(&volume.geometry),
            log: Arc::clone(&volume.log),
            reader: Arc::clone(&volume.reader),
            segments: Arc::clone(&volume.segments),
            volume_tag: volume.volume_tag,
            clock: Arc::clone(&volume.clock),
        }
    }

    /// Appends one group. Returns `None` if the group moves blocks whose sources were
    /// verified against an image that is no longer the newest: verify again.
    pub fn write_group(
        &self,
        items: Vec<LogItem>,
        kind: GroupKind,
        usage: Option<Usage>,
    ) -> Result<Option<Written>> {
        let replays = None;
        self.write_stamped(items, kind, Stamp { usage, replays })
    }

    /// [`Writer::write_group`] with all fields of its summaries.
    pub(crate) fn write_stamped(
        &self,
        items: Vec<LogItem>,
        kind: GroupKind,
        stamp: Stamp,
    ) -> Result<Option<Written>> {
        self.durability.check()?;
        let is_spilled = |item: &LogItem| matches!(item, LogItem::Spilled { .. });
        let spilled = items.iter().any(is_spilled);
        let mut log = loop {
            if spilled {
                self.respill_old(&items)?;
            }
            let log = self.log.lock();
            if !spilled || !self.has_old_spills(&items) {
                break log;
            }
        };
        if let GroupKind::Cleaner(serial) | GroupKind::Coalescing(serial) = kind
            && self.layers.read().base.serial != serial
            && !planted::is(Planted::StaleClaim)
        {
            return Ok(None);
        }
        let items = self.place_spilled(items)?;
        let crowded = self.space.is_crowded();
        let (mut items, runs) = log.placement.arrange(&self.geometry, items, kind, crowded);
        if let (GroupKind::User, [_], false) = (kind, &runs[..], log.holes.is_empty()) {
            gather_blocks(&self.geometry, &mut items);
        }
        let plans = self.plan_group(&mut log, &items, &runs, kind)?;
        if plans.is_empty() {
            if let Some(usage) = stamp.usage {
                self.layers.change().usage = usage;
            }
            let serial = log.end.serial();
            return Ok(Some(Written {
                serial,
                placed: Vec::new(),
            }));
        }
        let filled = self.fill(&mut log, &plans, &items);
        for plan in &plans {
            self.account(plan, &items[plan.items.clone()], kind);
        }
        let written = self.apply_group(&mut log, &plans, filled, items, (kind, stamp));
        if let GroupKind::Spill(number) = kind {
            self.spilled_to(number, &written.placed);
        }
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

    fn plan_group(
        &self,
        log: &mut LogState,
        items: &[LogItem],
        runs: &[HeadRun],
        kind: GroupKind,
    ) -> Result<Vec<PartialPlan>> {
        let mut segments = self.segments.lock();
        let mut holes = match kind {
            GroupKind::User => std::mem::take(&mut log.holes),
            _ => Vec::new(),
        };
        holes.retain(|holes| segments.may_plug(holes.segment, holes.edition));
        let mut taken = Vec::new();
        let mut take = |after| {
            let segment = segments.take(after)?;
            taken.push(segment);
            Ok(segment)
        };
        let planned = runs
            .iter()
            .map(|run| {
                let position = log.end.at(run.head);
                plan(&self.geometry, position, items, run, &mut holes, &mut take)
            })
            .collect::<Result<Vec<_>>>();
        match planned {
            Ok(planned) => {
                let plans: Vec<PartialPlan> = planned.into_iter().flatten().collect();
                // From here on no cleaner declares them empty (rule P8).
                for (serial, plan) in (log.end.serial() + 1..).zip(&plans) {
                    for chunk in &plan.plugs {
                        let segment = self.geometry.byte(chunk.holes.segment, 0);
                        let offset = |sector: &u64| (sector * SECTOR - segment) as u32;
                        let pages = chunk.pages.iter().map(offset).collect();
                        segments.plug(&chunk.holes, pages, serial);
                    }
                }
                if kind == GroupKind::User {
                    log.holes = holes;
                }
                Ok(plans)
            }
            Err(error) => {
                taken
                    .into_iter()
                    .for_each(|segment| segments.put_back(segment));
                if kind == GroupKind::User {
                    log.holes = holes;
                }
                Err(error)
            }
        }
    }

    /// Opens segments and copies every block to its place.
    fn fill(&self, log: &mut LogState, plans: &[PartialPlan], items: &[LogItem]) -> Vec<Filled> {
        let mut serial = log.end.serial();
        // State of the head that is being filled: its incarnation, and the segment that
        // it leaves when it opens another.
        let (mut head, mut incarnation, mut previous) = (usize::MAX, 0, None);
        plans
            .iter()
            .map(|plan| {
                if plan.head != head {
                    head = plan.head;
                    let position = log.end.at(head);
                    incarnation = position.segment_incarnation.get();
                    previous = is_entered(&position).then(|| position.segment.get());
                }
                if plan.enters {
                    let mut segments = self.segments.lock();
                    if let Some(left) = previous {
                        segments.leave(left);
                    }
                    incarnation = segments.enter(plan.segment);
                    drop(segments);
                    log.placement.entered(plan.segment, head);
                    self.reader.opened(plan.segment, incarnation);
                    self.counters.segments_opened.fetch_add(1, Relaxed);
                    previous = Some(plan.segment);
                }
                serial += 1;
                let mut buffer = PartialBuffer::new(&self.geometry, plan, serial, incarnation);
                let mut pointers: Vec<Pointer> = Vec::with_capacity(plan.items.len());
                let mut maps = Vec::new();
                let mut chunks = plan.plugs.iter().peekable();
                while pointers.len() < plan.items.len() {
                    let at = plan.items.start + pointers.len();
                    if let Some(chunk) = chunks.next_if(|chunk| chunk.items.start == at) {
                        let plugged = &items[chunk.items.clone()];
                        let (blocks, pages) =
                            self.fill_holes(&mut buffer, log.incarnation, chunk, plugged);
                        pointers.extend(blocks);
                        maps.push(pages);
                        continue;
                    }
                    pointers.push(match &items[at] {
                        LogItem::Block { data, source, .. }
                        | LogItem::Xattrs { data, source, .. }
                            if !data.is_empty() =>
                        {
                            let source = source.map(|source| source.pointer);
                            let crc = source.and_then(|source| data.checksum_at(&source));
                            buffer.place_block(data, source.map(|p| p.birth()), crc)
                        }
                        LogItem::Node { bytes, .. } => buffer.place_block(bytes, None, None),
                        _ => Pointer::NONE,
                    });
                }
                assert_eq!(pointers.len(), plan.items.len(), "places of a partial");
                assert_eq!(maps.len(), plan.plugs.len(), "maps of a partial");
                Filled {
                    buffer,
                    pointers,
                    maps,
                }
            })
            .collect()
    }

    /// Writes entries and inodes while applying them, chains the summaries and announces
    /// the partials.
    fn apply_group(
        &self,
        log: &mut LogState,
        plans: &[PartialPlan],
        filled: Vec<Filled>,
        items: Vec<LogItem>,
        (kind, stamp): (GroupKind, Stamp),
    ) -> Written {
        let mut placed = Vec::with_capacity(items.len());
        let mut items = items.into_iter();
        let last = plans.len() - 1;
        let mut durable_through = self.durability.durable();
        if planted::is(Planted::DurableThroughEarly) {
            durable_through = log.end.serial();
        }
        let mut committed = self.layers.change();
        committed.usage = stamp.usage.unwrap_or(committed.usage);
        if kind == GroupKind::User {
            committed.live.replayed = Some(stamp.replays);
            // Its numbers are not taken from this volume's list.
            committed.live.neighbours_unknown |= stamp.replays.is_some();
        }
        let group = GroupHeader {
            kind,
            durable_through,
            usage: committed.usage,
            replays: stamp.replays,
        };
        for (index, (plan, filled)) in plans.iter().zip(filled).enumerate() {
            let Filled {
                mut buffer,
                pointers,
                maps,
            } = filled;
            for (item, pointer) in items.by_ref().take(plan.items.len()).zip(pointers) {
                placed.push(self.apply_item(&mut committed, &mut buffer, item, pointer, kind));
            }
            for (chunk, pages) in plan.plugs.iter().zip(&maps) {
                let segment = chunk.holes.segment;
                pages.iter().for_each(|page| buffer.put_map(segment, page));
            }
            let ends = (index == 0, index == last);
            assert_eq!(buffer.serial, log.end.serial() + 1, "partials in order");
            let end = plan.offset + plan.bytes;
            assert!(end <= self.geometry.segment_bytes, "partial ends at {end}");
            let header = self.summary_header(log, &group, plan, &buffer, ends);
            let predecessor = buffer.finish(header);
            let behind = LogPosition {
                serial: buffer.serial.into(),
                offset: (plan.offset + plan.bytes).into(),
                segment: plan.segment.into(),
                next_segment: plan.next_segment.into(),
                predecessor: predecessor.into(),
                incarnation: log.incarnation.into(),
                segment_incarnation: buffer.incarnation.into(),
            };
            log.end.advance(plan.head, behind);
            let plugged: u32 = plan
                .plugs
                .iter()
                .map(|chunk| chunk.bytes(&self.geometry))
                .sum();
            committed.live.log_bytes += u64::from(plan.bytes) + u64::from(plugged);
            let mut segments = self.segments.lock();
            segments.get_mut(plan.segment).last_serial = buffer.serial;
            if let GroupKind::Spill(number) = kind {
                segments.spilled_into(number.0, plan.segment);
            }
            if matches!(kind, GroupKind::Checkpoint) {
                segments.takes_metadata(plan.segment);
            }
            drop(segments);
            self.durability.announce(Arc::new(InFlight {
                serial: buffer.serial,
                sector: buffer.sector,
                bytes: buffer.bytes,
                plugs: buffer.plugs,
            }));
        }
        assert!(items.next().is_none(), "an item of a group has no place");
        log.mark = log.end.at(0).into();
        self.tell_end(&log.end);
        Written {
            serial: log.end.serial(),
            placed,
        }
    }

    /// Records that the log has reached `end`: see
    /// [`Gauge::open_percent`](crate::control::pace::Gauge).
    fn tell_end(&self, end: &LogEnd) {
        let segment = u64::from(self.geometry.segment_bytes);
        let heads = (0..self.space.heads()).map(|head| end.at(head));
        let left = heads.map(|at| segment.saturating_sub(at.offset.get().into()));
        let percent = left.sum::<u64>() * 100 / (segment * self.space.heads() as u64);
        self.control.open_percent.store(percent as u8, Relaxed);
    }

    /// The header of a partial, the first or last of its group or neither.
    fn summary_header(
        &self,
        log: &LogState,
        group: &GroupHeader,
        plan: &PartialPlan,
        buffer: &PartialBuffer,
        (first, last): (bool, bool),
    ) -> SummaryHeader {
        let aligned = match self.geometry.aligned {
            true => summary_flags::ALIGNED,
            false => 0,
        };
        let replayed = group.replays.unwrap_or_default();
        SummaryHeader {
            crc: 0.into(),
            magic: MAGIC.into(),
            volume_tag: self.volume_tag.into(),
            serial: buffer.serial.into(),
            sector: buffer.sector.into(),
            durable_through: group.durable_through.into(),
            mount_id: log.mount_id.into(),
            predecessor: log.end.at(plan.head).predecessor,
            incarnation: log.incarnation.into(),
            next_segment: plan.next_segment.into(),
            segment_incarnation: buffer.incarnation.into(),
            entry_bytes: 0.into(),
            sectors: (plan.bytes / SECTOR as u32).into(),
            flags: (flags_of(group.kind, first, last) | aligned).into(),
            members: 1.into(),
            entry_count: 0.into(),
            written_ns: self.clock.now_ns().into(),
            inodes_used: group.usage.inodes.into(),
            blocks_used: group.usage.blocks.into(),
            sectors_used: group.usage.sectors.into(),
            head: plan.head as u8,
            replays: group.replays.is_some().into(),
            replayed_check: replayed.check.into(),
            replayed_serial: replayed.serial.into(),
            spare: [0; 2],
        }
    }
}

/// Fields that the headers of all partials of a group share.
struct GroupHeader {
    kind: GroupKind,
    durable_through: u64,
    usage: Usage,
    replays: Option<Mark>,
}

/// A planned partial with its blocks in place.
struct Filled {
    buffer: PartialBuffer,
    pointers: Vec<Pointer>,
    /// For each plugged segment, the pages of its map.
    maps: Vec<Vec<Pointer>>,
}

fn flags_of(kind: GroupKind, first: bool, last: bool) -> u16 {
    let mut flags = match kind {
        GroupKind::User => 0,
        GroupKind::Checkpoint => summary_flags::CHECKPOINT,
        GroupKind::Spill(_) => summary_flags::SPILLED,
        GroupKind::Cleaner(_) | GroupKind::Coalescing(_) => summary_flags::CLEANER,
    };
    if first {
        flags |= summary_flags::FIRST;
    }
    if last {
        flags |= summary_flags::LAST;
    }
    flags
}
