//! Checkpoints: folding a delta into a new image, beside the running log.
//!
//! 1. Freeze, under the log lock: the live delta becomes the frozen one, at a
//!    boundary between groups (protocol rule 13). Groups go on appending to a
//!    fresh live delta; nobody waits.
//! 2. Fold ([`fold`]): index nodes, level by level over all files ([`levels`]), then inodes,
//!    then inode-map blocks, written as checkpoint groups that roll-forward
//!    skips. Old pointers die here, and their segments' live bytes with them.
//! 3. Table ([`table`]): the usage table as of 1 and 2, and the ifile's index
//!    above it. What writing these changes goes into the record (rule 15).
//! 4. Flush, write the record, flush (rule 14): the commit point.
//! 5. Install: the new image replaces the old one and the frozen delta, and
//!    segments that both retained checkpoints found empty become clean.
//!
//! A failure anywhere stops the volume's writes; the layers stay readable.
//!
//! Invariants, for checkpoint `c` after `b`:
//!
//! - `c.serial > b.serial`, `c.boundary >= b.boundary`, `c.boundary <= c.position`
//! - `written <= counted`, checked before the record; after the fold no change is left
//! - one record per checkpoint, of the length of a slot, between two flushes

mod commit;
mod fold;
mod freed;
pub(crate) mod history;
mod imap;
mod levels;
mod room;
mod runs;
mod table;

pub(crate) use table::TableImage;

use crate::base::Base;
use crate::control::Control;
use crate::delta::Delta;
use crate::durability::Durability;
use crate::error::{Error, Result};
use crate::format::checkpoint::{CheckpointRecord, MAGIC, checkpoint_flags};
use crate::format::inode::InodeImage;
use crate::format::{CheckpointHeader, SECTOR, Superblock, UsageDelta};
use crate::geometry::Geometry;
use crate::heads::LogEnd;
use crate::history::HistoryChanges;
use crate::inodes::InodeAllocator;
use crate::layers::Layers;
use crate::locks::{Rank, Ranked, RankedMutex};
use crate::log::{LogState, write_patiently};
use crate::mechanism::Mechanism;
use crate::newest::Newest;
use crate::options::MountOptions;
use crate::reader::Reader;
use crate::relocate::Relocation;
use crate::schedule::Schedule;
use crate::segments::SegmentTable;
use crate::space::Space;
use crate::statistics::Counters;
use crate::volume::Volume;
use crate::writer::Writer;
use fold::Fold;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::sync::MutexGuard;
use varve_device::{Clock, Device};
use varve_fs::Usage;
use varve_fs::planted::{self, Planted};

/// Changes a delta may take before a checkpoint is due: folding it should not
/// take long.
const MAX_ENTRIES: u64 = 250_000;

/// Bytes of inode-map blocks that one checkpoint may have in memory.
const MAP_BYTES_AT_ONCE: u64 = 16 << 20;

/// Attempts at one checkpoint while the device refuses some of its writes.
const ATTEMPTS: u32 = 16;

/// Takes checkpoints, and gives back the segments that they found empty.
pub struct Checkpoints {
    /// When the last checkpoint was taken, and the number of the next.
    schedule: RankedMutex<Schedule>,
    /// The numbers that a checkpoint puts on the list of free ones.
    allocator: Arc<RankedMutex<InodeAllocator>>,
    writer: Arc<Writer>,
    mechanism: Arc<Mechanism>,
    relocation: Arc<Relocation>,
    layers: Arc<Layers>,
    space: Arc<Space>,
    clock: Arc<dyn Clock>,
    counters: Arc<Counters>,
    durability: Arc<Durability>,
    geometry: Arc<Newest<Geometry>>,
    options: Arc<MountOptions>,
    reader: Arc<Reader>,
    segments: Arc<RankedMutex<SegmentTable>>,
    volume_tag: u64,
    log: Arc<RankedMutex<LogState>>,
    superblock: Arc<Newest<Superblock>>,
    device: Arc<dyn Device>,
    control: Arc<Control>,
}

impl Checkpoints {
    /// The checkpoints of a volume.
    pub(crate) fn new(
        volume: &Volume,
        (writer, mechanism, relocation): (&Arc<Writer>, &Arc<Mechanism>, &Arc<Relocation>),
        allocator: Arc<RankedMutex<InodeAllocator>>,
        schedule: Schedule,
    ) -> Self {
        Checkpoints {
            schedule: RankedMutex::new(Rank::Checkpointing, schedule),
            allocator,
            writer: Arc::clone(writer),
            mechanism: Arc::clone(mechanism),
            relocation: Arc::clone(relocation),
            layers: Arc::clone(&volume.layers),
            space: Arc::clone(&volume.space),
            clock: Arc::clone(&volume.clock),
            counters: Arc::clone(&volume.counters),
            durability: Arc::clone(&volume.durability),
            geometry: Arc::clone(&volume.geometry),
            options: Arc::clone(&volume.options),
            reader: Arc::clone(&volume.reader),
            segments: Arc::clone(&volume.segments),
            volume_tag: volume.volume_tag,
            log: Arc::clone(&volume.log),
            superblock: Arc::clone(&volume.superblock),
            device: Arc::clone(&volume.device),
            control: Arc::clone(&volume.control),
        }
    }

    /// Inode-map blocks that one checkpoint is to write at most: it has them in
    /// memory together. Room there is for all of them ([`crate::space`]).
    pub(crate) fn imap_limit(&self) -> u64 {
        MAP_BYTES_AT_ONCE / u64::from(self.geometry.block_bytes)
    }

    /// Bytes of log after which a checkpoint is due: bounded replay, and on
    /// small volumes early enough that the cleaner has something to reuse.
    fn checkpoint_bytes(&self) -> u64 {
        let volume = self.geometry.volume_bytes();
        self.options.checkpoint_bytes.min(volume / 8)
    }

    /// True if so much has changed, or so long ago, that a checkpoint should be
    /// taken, or if the room for one gets short.
    pub(crate) fn checkpoint_due(&self, now_ns: u64, last_ns: u64) -> bool {
        let age_s = now_ns.saturating_sub(last_ns) / 1_000_000_000;
        let old = age_s >= self.options.checkpoint_seconds;
        self.delta_due()
            || self.space.checkpoint_presses()
            || (old && !self.layers.read().live.is_empty())
    }

    /// True if so much has changed that a checkpoint should be taken.
    pub(crate) fn delta_due(&self) -> bool {
        let committed = self.layers.read();
        let live = &committed.live;
        live.log_bytes >= self.checkpoint_bytes()
            || live.entries >= MAX_ENTRIES
            || live.memory_bytes() >= self.options.delta_bytes()
            || live.imap_blocks.len() as u64 >= self.imap_limit() / 2
    }

    /// True if the background has not kept up: the caller takes the
    /// checkpoint, so that memory and the reserve stay bounded.
    pub(crate) fn delta_overdue(&self) -> bool {
        let committed = self.layers.read();
        let live = &committed.live;
        live.entries >= 2 * MAX_ENTRIES
            || live.memory_bytes() >= 2 * self.options.delta_bytes()
            || live.log_bytes >= 2 * self.checkpoint_bytes()
            || live.imap_blocks.len() as u64 >= self.imap_limit() * 3 / 4
    }

    /// Takes a checkpoint if one is due.
    pub(crate) fn checkpoint_if_due(&self) -> Result<bool> {
        let last_ns = self.schedule.lock().last_ns;
        let due = self.checkpoint_due(self.clock.monotonic_ns(), last_ns)
            || !self.durability.failed_partials().is_empty();
        if due && self.checkpoint_fits() {
            self.take_checkpoint(false)?;
        }
        Ok(due)
    }

    /// The right to the next checkpoint, which waits for the end of the present one.
    pub(crate) fn schedule(&self) -> Ranked<MutexGuard<'_, Schedule>> {
        self.schedule.lock()
    }

    /// Takes a checkpoint now. `clean` marks it as the end of the log.
    pub fn take_checkpoint(&self, clean: bool) -> Result<()> {
        let mut schedule = self.schedule.lock();
        self.checkpoint_as(&mut schedule, clean)
    }

    /// As [`Checkpoints::take_checkpoint`], by who has the right to one.
    pub(crate) fn checkpoint_now(&self, schedule: &mut Schedule) -> Result<()> {
        self.checkpoint_as(schedule, false)
    }

    /// Takes a checkpoint if there is room for it and, once one under way is
    /// complete, still a reason.
    pub(crate) fn take_checkpoint_if(&self, reason: impl Fn() -> bool) -> Result<()> {
        if !reason() {
            return Ok(());
        }
        let mut schedule = self.schedule.lock();
        if !reason() || !self.checkpoint_fits() {
            return Ok(());
        }
        match self.checkpoint_as(&mut schedule, false) {
            // Others have taken that room meanwhile.
            Err(Error::OutOfSegments) => Ok(()),
            taken => taken,
        }
    }

    fn checkpoint_as(&self, schedule: &mut Schedule, clean: bool) -> Result<()> {
        self.durability.check()?;
        let serial = schedule.next_serial;
        assert!(
            serial > self.layers.base().serial,
            "checkpoint {serial} again"
        );
        for _ in 0..ATTEMPTS {
            if !self.checkpoint_fits() {
                // Better to refuse than to stop half way.
                return Err(Error::OutOfSegments);
            }
            self.relocation.relocate_failed()?;
            match self.fold_and_record(serial, clean, &schedule.history) {
                Ok(()) => {
                    schedule.next_serial += 1;
                    schedule.last_ns = self.clock.monotonic_ns();
                    self.counters.checkpoints.fetch_add(1, Relaxed);
                    return Ok(());
                }
                // The device refused a write. From this boundary recovery
                // would not reach what the checkpoint has written behind the
                // hole, and go on over it: begin anew, behind the hole.
                Err(Error::Unwritten(_)) => {}
                Err(error @ Error::Overrun { bytes, counted, .. }) => {
                    tracing::warn!(%error, "it is taken again if there is room for as much");
                    self.keep_more(bytes - counted);
                }
                Err(error) => {
                    self.durability
                        .stop(format!("checkpoint {serial} failed: {error}"));
                    return Err(error);
                }
            }
        }
        Err(self.relocation.give_in())
    }

    /// Most bytes of log that folding `frozen` takes, the usage table included. What the
    /// ends of segments take is in what is counted on of each.
    fn counted_bytes(&self, base: &Base, frozen: &Delta) -> u64 {
        let history = self.space.history_bytes(base, frozen.kept.len(), None);
        let bytes =
            self.space.fold_bytes(base, frozen) + self.space.table_bytes(frozen.next_ino) + history;
        bytes * u64::from(self.geometry.segment_bytes) / self.space.dependable_bytes()
    }

    /// The frozen delta takes so many bytes more than was counted.
    fn keep_more(&self, bytes: u64) {
        let mut committed = self.layers.change();
        if let Some(frozen) = &mut committed.frozen {
            Arc::make_mut(frozen).counts.bytes += bytes;
        }
    }

    /// The live delta becomes the frozen one, with what an attempt that came
    /// to nothing has left frozen.
    fn freeze(&self, is_snapshot: bool) -> (Arc<Delta>, Arc<Base>, LogEnd, Usage) {
        let log = self.log.lock();
        let mut committed = self.layers.change();
        let mut frozen = std::mem::take(&mut committed.live);
        if let Some(left) = committed.frozen.take() {
            let younger = std::mem::replace(&mut frozen, Arc::unwrap_or_clone(left));
            frozen.absorb(&self.geometry, younger);
        }
        assert!(log.end.serial() >= frozen.boundary, "a boundary goes back");
        frozen.boundary = log.end.serial();
        frozen.loose = self.space.loose_numbers();
        committed.live.next_ino = frozen.next_ino;
        // Blocks that are displaced from now on may be part of the snapshot being taken.
        committed.live.kept_through = match is_snapshot {
            true => frozen.boundary,
            false => committed.base.history.directory.kept_through(),
        };
        frozen.snapshot = is_snapshot.then_some(committed.usage);
        if planted::is(Planted::BoundaryCutsGroup)
            && frozen.inodes.len() > 1
            && let Some(last) = frozen.inodes.keys().max().copied()
            && let Some(entry) = frozen.inodes.remove(&last)
        {
            committed.live.inodes.insert(last, entry);
        }
        let frozen = Arc::new(frozen);
        committed.frozen = Some(Arc::clone(&frozen));
        (
            frozen,
            Arc::clone(&committed.base),
            log.end,
            committed.usage,
        )
    }

    fn fold_and_record(&self, serial: u64, clean: bool, changes: &HistoryChanges) -> Result<()> {
        self.allocator.lock().settle();
        let (frozen, base, boundary, usage) = self.freeze(changes.create.is_some());
        let merge_bytes = self.space.merge_allowance();
        let counted = self.counted_bytes(&base, &frozen) + 2 * merge_bytes;
        let written = || self.counters.checkpoint_log_bytes.load(Relaxed);
        let before = written();
        let mut fold = Fold::new(self, &base, &frozen, (usage, merge_bytes));
        let mut imap_changes = fold.files()?;
        let history = fold.history(serial, changes, &mut imap_changes)?;
        let lists = fold.inode_map(imap_changes)?;
        let table = fold.usage_table(serial, boundary.serial(), lists.next_ino)?;
        let bytes = written() - before;
        if bytes > counted {
            debug_assert!(
                frozen.guessed,
                "checkpoint {serial} wrote {bytes}, counted {counted}"
            );
            return Err(Error::Overrun {
                checkpoint: serial,
                bytes,
                counted,
            });
        }
        let final_images = std::mem::take(&mut fold.final_images);
        let obsolete = std::mem::take(&mut fold.obsolete);
        let tallest = base.tallest.max(fold.tallest);
        let end = self.record_end(boundary);
        let early = planted::is(Planted::RecordEarly);
        if !early && !planted::is(Planted::NoFlushBeforeRecord) {
            self.commit_all()?;
        }
        let deltas = match planted::is(Planted::CorrectionsForgotten) {
            true => Vec::new(),
            false => self.usage_deltas(&table),
        };
        let mut record = CheckpointRecord {
            header: CheckpointHeader {
                serial: serial.into(),
                crc: 0.into(),
                magic: MAGIC.into(),
                volume_tag: self.volume_tag.into(),
                position: end.at(0),
                written_ns: self.clock.now_ns().into(),
                flags: checkpoint_flags::of(clean, tallest).into(),
                segments_opened: self.segments.lock().opened().into(),
                next_ino: lists.next_ino.into(),
                free_head: lists.free_head.into(),
                free_count: lists.free_count.into(),
                unfinished_count: match planted::is(Planted::OrphansUnlisted) {
                    true => 0.into(),
                    false => (lists.unfinished.len() as u64).into(),
                },
                inodes_used: usage.inodes.into(),
                blocks_used: usage.blocks.into(),
                sectors_used: usage.sectors.into(),
                metadata_bytes: table.metadata_bytes.into(),
                durable_through: self.durability.durable().into(),
                inode_bytes: self.geometry.inode_bytes.into(),
                delta_count: (deltas.len() as u32).into(),
                further_heads: 0.into(),
                first_version: lists.first_version.into(),
                heads: Default::default(),
            },
            ifile: self.encode_inode(&table.ifile),
            deltas,
        };
        end.store(&mut record.header);
        self.write_record(&record)?;
        if early {
            self.commit_all()?;
        }
        self.durability.recovers_behind(end.serial());
        let base = Base {
            serial,
            ifile: table.ifile.clone(),
            next_ino: lists.next_ino,
            first_version: lists.first_version,
            free_head: lists.free_head,
            free_count: lists.free_count,
            unfinished: lists.unfinished,
            usage,
            metadata_bytes: table.metadata_bytes,
            tallest,
            history: Arc::new(history),
        };
        let reach = (boundary.serial(), end.serial());
        assert!(reach.0 <= reach.1, "the log ends before the boundary");
        self.install(base, reach, &frozen, &table, final_images);
        self.reader.forget(&obsolete);
        Ok(())
    }

    /// The corrections as the record has them. Writing a table longer than a
    /// segment opens segments that the table does not know as opened.
    fn usage_deltas(&self, table: &TableImage) -> Vec<UsageDelta> {
        let segments = self.segments.lock();
        let delta = |(&segment, &bytes): (&u32, &i64)| {
            let incarnation = segments.get(segment).incarnation;
            let known = table.entries[segment as usize].incarnation.get();
            UsageDelta {
                segment: segment.into(),
                incarnation: if incarnation == known { 0 } else { incarnation }.into(),
                bytes: bytes.into(),
            }
        };
        table.corrections.iter().map(delta).collect()
    }

    /// Roll-forward may start at the log's end if only the checkpoint itself
    /// has written since the boundary.
    fn record_end(&self, boundary: LogEnd) -> LogEnd {
        let log = self.log.lock();
        let committed = self.layers.read();
        let quiet = committed.live.inodes.is_empty() && committed.live.replayed.is_none();
        if quiet { log.end } else { boundary }
    }

    pub(crate) fn encode_inode(&self, image: &crate::format::inode::InodeImage) -> Vec<u8> {
        let mut bytes = vec![0; self.geometry.inode_bytes as usize];
        image.encode(&mut bytes);
        bytes
    }

    fn write_record(&self, record: &CheckpointRecord) -> Result<()> {
        let slot_bytes = self.superblock.record_bytes.get();
        let mut slot = record.header.serial.get() % u64::from(self.superblock.record_count.get());
        if planted::is(Planted::OneRecordSlot) {
            slot = 0;
        }
        let offset = self.superblock.ring_offset.get() + slot * u64::from(slot_bytes);
        let bytes = record.encode(slot_bytes as usize);
        assert_eq!(bytes.len(), slot_bytes as usize, "bytes of a record");
        self.durability.check()?;
        let buffers = [IoSlice::new(&bytes)];
        write_patiently(&*self.device, &self.counters, offset, &buffers)?;
        self.counters
            .record_bytes
            .fetch_add(bytes.len() as u64, Relaxed);
        if planted::is(Planted::NoFlushAfterRecord) {
            return Ok(());
        }
        self.barrier()
    }

    fn install(
        &self,
        base: Base,
        reach: (u64, u64),
        frozen: &Delta,
        table: &TableImage,
        final_images: Vec<(u64, Option<Arc<InodeImage>>)>,
    ) {
        let serial = base.serial;
        let mut log = self.log.lock();
        let mut committed = self.layers.change();
        self.layers
            .install(&mut committed, base, frozen, final_images);
        let mut segments = self.segments.lock();
        let hold = self.options.discard && !segments.is_pinned();
        let freed = segments.install(serial, reach, &table.entries, &table.corrections, hold);
        drop(segments);
        drop(committed);
        log.placement.measure(&self.space.measures());
        drop(log);
        self.gained(&freed, hold);
    }
}

/// Bytes of `pointer` as a change of live bytes.
pub(crate) fn live_bytes(pointer: &crate::format::Pointer) -> i64 {
    if pointer.is_none() || pointer.is_unwritten() {
        0
    } else {
        i64::from(pointer.sectors()) * SECTOR as i64
    }
}

#[cfg(test)]
mod tests;
