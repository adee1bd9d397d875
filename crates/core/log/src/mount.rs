//! Mounting and unmounting.

mod heads;

use crate::checkpoint::Checkpoints;
use crate::cleaner::Cleaner;
use crate::control::Control;
use crate::control::ahead::Ahead;
use crate::durability::Durability;
use crate::error::Result;
use crate::format::SECTOR;
use crate::format::owner::OwnerRecord;
use crate::geometry::Geometry;
use crate::history::HistoryChanges;
use crate::inodes::InodeAllocator;
use crate::layers::Layers;
use crate::lfs::Lfs;
use crate::locks::{Rank, RankedMutex};
use crate::log::{LogState, Output, Placement, write_patiently};
use crate::mechanism::Mechanism;
use crate::newest::Newest;
use crate::options::MountOptions;
use crate::reader::Reader;
use crate::recovery::{Recovered, RecoveryReport, clear_leftover, recover, unfinished_after};
use crate::relocate::Relocation;
use crate::schedule::Schedule;
use crate::space::Space;
use crate::statistics::Counters;
use crate::superblocks;
use crate::volume::Volume;
use crate::writer::Writer;
use std::collections::{BTreeSet, HashSet};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::{Clock, Device};
use varve_format::identity::{mount_id, not_to_be_written};
use varve_fs::planted::{self, Planted};
use zerocopy::IntoBytes;

/// What a mounted volume is made of besides its recovered state.
pub struct Parts {
    /// Of the volume.
    pub device: Arc<dyn Device>,
    /// Tells the times of changes.
    pub clock: Arc<dyn Clock>,
    /// As it stands on the device.
    pub superblock: crate::format::Superblock,
    /// Remembers metadata.
    pub reader: Reader,
    /// What is known to be flushed.
    pub durability: Arc<Durability>,
    /// All that is counted.
    pub counters: Arc<Counters>,
}

impl Lfs {
    /// Makes an empty volume; see [`crate::format_volume`].
    ///
    /// # Errors
    /// As [`crate::format_volume`].
    pub fn format(
        device: &dyn Device,
        clock: &dyn Clock,
        options: &crate::FormatOptions,
    ) -> Result<()> {
        crate::mkfs::format(device, clock, options)
    }

    /// Recovers and mounts a volume.
    ///
    /// # Errors
    /// If there is no usable superblock or checkpoint, or the device fails.
    /// Damage in the log's tail is no error: the volume comes up read-only
    /// and [`Lfs::recovery_report`] says what is lost.
    pub fn mount(
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        options: MountOptions,
    ) -> Result<Lfs> {
        options.cleaner().check()?;
        let found = superblocks::find(&*device)?;
        let superblock = found.superblock;
        let geometry = Geometry::from(&superblock);
        let counters = Arc::new(Counters::default());
        counters.failures.set_clock(Arc::clone(&clock));
        counters.speed.set_clock(Arc::clone(&clock));
        let durability = Arc::new(Durability::new(Arc::clone(&counters)));
        let reader = Reader::new(
            Arc::clone(&device),
            geometry,
            options.reader_bytes(),
            Arc::clone(&durability),
            Arc::clone(&counters),
        )
        .follow_openings()
        .reading_ahead(options.read_threads);
        let recovered = recover(&*device, &superblock, &reader, &geometry)?;
        let history = recovered.base().history.problem.clone();
        let damage = recovered.report.damage.first().cloned().or(history);
        let read_only = read_only_reason(&options, &found, damage);
        if read_only.is_none() {
            let clears = !planted::is(Planted::LeftoverKept);
            for &byte in recovered.leftovers.iter().filter(|_| clears) {
                clear_leftover(&*device, byte)?;
                let block = u64::from(device.geometry().logical_block).max(SECTOR);
                counters.record_bytes.fetch_add(block, Relaxed);
                counters.bytes_written.fetch_add(block, Relaxed);
            }
            // Protocol rule 12: what recovery read may still be in a cache.
            if !planted::is(Planted::NoFlushAtMount) {
                device.flush()?;
            }
        }
        let parts = Parts {
            device,
            clock,
            superblock,
            reader,
            durability,
            counters,
        };
        let confirmed = recovered.heads_confirmed || planted::is(Planted::HeadsUnconfirmed);
        let mut lfs = Self::assemble(parts, recovered, options, read_only.clone())?;
        match read_only {
            None => {
                lfs.write_owner(true)?;
                if lfs.options.replays && !lfs.is_copy() {
                    let position = lfs.write_mark(lfs.mark())?;
                    lfs.checkpoints.commit_through(position.0)?;
                }
                lfs.arrange_heads(confirmed)?;
            }
            Some(reason) => lfs.durability.stop_quietly(reason),
        }
        Ok(lfs)
    }

    /// The mounted volume, from what recovery made of it.
    ///
    /// # Errors
    /// If the list of free numbers cannot be read.
    pub fn assemble(
        parts: Parts,
        mut recovered: Recovered,
        options: MountOptions,
        read_only: Option<String>,
    ) -> Result<Lfs> {
        recovered.committed.get_mut().usage = recovered.usage;
        let geometry = Arc::clone(&parts.reader.geometry);
        let Parts {
            device,
            clock,
            superblock,
            reader,
            durability,
            counters,
        } = parts;
        let end = recovered.end;
        durability.reset(end.serial());
        let mut unfinished = unfinished_after(&recovered);
        if planted::is(Planted::OrphansNotFreed) {
            unfinished.clear();
        }
        let mut allocator = allocator_after(recovered.committed.get_mut());
        if read_only.is_none() {
            let base = Arc::clone(&recovered.committed.get_mut().base);
            allocator.skip_taken(&base, &reader, &geometry)?;
        }
        let live = &mut recovered.committed.get_mut().live;
        live.neighbours_unknown = !live.inodes.is_empty();
        let mount_id = mount_id(options.seed);
        let threads = match read_only {
            None => options.write_threads,
            Some(_) => 0,
        };
        let output = Output::new(
            Arc::clone(&device),
            Arc::clone(&durability),
            Arc::clone(&counters),
            threads,
        );
        let reader = Arc::new(reader);
        let segments = Arc::new(RankedMutex::new(Rank::Segments, recovered.segments));
        let layers = Arc::new(Layers::new(
            recovered.committed,
            Arc::clone(&reader),
            Arc::clone(&segments),
        ));
        let control = Arc::new(Control::new(
            options.cleaner(),
            mount_id,
            u64::from(geometry.segment_bytes),
        ));
        let log = Arc::new(RankedMutex::new(
            Rank::Log,
            LogState {
                end,
                mark: recovered.mark,
                placement: Placement::default(),
                mount_id,
                incarnation: end.incarnation().wrapping_add(1),
                holes: Vec::new(),
            },
        ));
        let volume_tag = superblock.volume_tag();
        let superblock = Arc::new(Newest::new(superblock));
        let space = Arc::new(Space::new(
            (Arc::clone(&layers), Arc::clone(&segments)),
            Arc::clone(&log),
            Arc::clone(&superblock),
            Arc::clone(&control),
            (Arc::clone(&counters), Arc::clone(&clock)),
        ));
        let volume = Volume {
            device,
            clock,
            superblock,
            volume_tag,
            geometry,
            options: Arc::new(options),
            reader,
            durability,
            counters,
            control,
            log,
            segments,
            layers,
            space,
        };
        let next = AfterRecovery {
            allocator,
            unfinished,
            serial: recovered.report.checkpoint + 1,
            recovery: recovered.report,
        };
        Ok(assembled(volume, output, next))
    }

    /// Takes the last checkpoint and marks the volume as released. The layout
    /// answers reads afterwards, and takes no more writes.
    ///
    /// # Errors
    /// If the checkpoint fails.
    pub fn unmount(&self) -> Result<()> {
        if self.stopped().is_some() {
            return Ok(());
        }
        self.checkpoints.take_checkpoint(true)?;
        self.write_owner(false)?;
        self.checkpoints.barrier()?;
        let reason = "the volume has been unmounted".into();
        self.durability.stop_quietly(reason);
        Ok(())
    }

    /// Writes who has the volume, or that it was left in order.
    ///
    /// # Errors
    /// Of the device.
    pub fn write_owner(&self, mounted: bool) -> Result<()> {
        let mount_id = self.log.lock().mount_id;
        let (owner, tag) = (&self.options.owner, self.volume_tag);
        let record = OwnerRecord::of(owner, tag, mount_id, mounted, self.clock.now_ns());
        let mut bytes = vec![0; self.geometry.write_unit as usize];
        bytes[..512].copy_from_slice(record.as_bytes());
        let offset = self.superblock.owner_offset.get();
        let buffers = [IoSlice::new(&bytes)];
        write_patiently(&*self.device, &self.counters, offset, &buffers)?;
        self.counters
            .record_bytes
            .fetch_add(bytes.len() as u64, Relaxed);
        Ok(())
    }

    /// The owner record as it stands on the device, if it is whole.
    ///
    /// # Errors
    /// Device errors.
    pub fn read_owner(
        device: &dyn Device,
        superblock: &crate::format::Superblock,
    ) -> Result<Option<OwnerRecord>> {
        let mut bytes = vec![0; superblock.write_unit.get() as usize];
        device.read(superblock.owner_offset.get(), &mut bytes)?;
        Ok(OwnerRecord::parse(&bytes, superblock.volume_tag()).ok())
    }
}

/// The parts of a mounted volume, each with those it uses.
fn assembled(volume: Volume, output: Output, next: AfterRecovery) -> Lfs {
    let writer = Arc::new(Writer::new(&volume, output));
    let mechanism = Arc::new(Mechanism::new(&volume, &writer));
    let relocation = Arc::new(Relocation::new(&volume, &writer, &mechanism));
    let allocator = Arc::new(RankedMutex::new(Rank::Allocator, next.allocator));
    let schedule = Schedule {
        next_serial: next.serial,
        last_ns: volume.clock.monotonic_ns(),
        history: HistoryChanges::default(),
    };
    let checkpoints = Arc::new(Checkpoints::new(
        &volume,
        (&writer, &mechanism, &relocation),
        Arc::clone(&allocator),
        schedule,
    ));
    let cleaner = Arc::new(Cleaner::new(&volume, &writer, &mechanism, &checkpoints));
    Lfs {
        cleaner,
        checkpoints,
        mechanism,
        verifying: RankedMutex::new(Rank::Verifying, ()),
        allocator,
        ahead: Ahead::new(&*volume.device),
        unfinished: next.unfinished.into_iter().collect(),
        recovery: next.recovery,
        writer,
        volume_tag: volume.volume_tag,
        device: volume.device,
        clock: volume.clock,
        superblock: volume.superblock,
        geometry: volume.geometry,
        options: volume.options,
        reader: volume.reader,
        durability: volume.durability,
        counters: volume.counters,
        control: volume.control,
        log: volume.log,
        segments: volume.segments,
        layers: volume.layers,
        space: volume.space,
    }
}

/// State that recovery hands to the parts of a mounted volume.
struct AfterRecovery {
    allocator: InodeAllocator,
    unfinished: BTreeSet<u64>,
    /// Serial of the next checkpoint.
    serial: u64,
    recovery: RecoveryReport,
}

fn read_only_reason(
    options: &MountOptions,
    found: &superblocks::FoundSuperblock,
    damage: Option<String>,
) -> Option<String> {
    let features = found.superblock.read_only_compat.get();
    let unknown = features & !crate::format::superblock::KNOWN_READ_ONLY_COMPAT;
    if options.read_only {
        return Some("mounted read-only".into());
    }
    not_to_be_written(unknown)
        .or_else(|| found.disagreement.clone())
        .or(damage)
}

fn allocator_after(committed: &crate::committed::Committed) -> InodeAllocator {
    let mut taken = HashSet::new();
    let mut freed = Vec::new();
    for (&ino, entry) in &committed.live.inodes {
        taken.insert(ino);
        if let Some(next_version) = entry.freed {
            freed.push((ino, next_version));
        }
    }
    freed.sort_unstable();
    InodeAllocator::new(&committed.base, committed.live.next_ino, taken, freed)
}
