//! Mounting and unmounting.

use crate::compactor::Compactor;
use crate::counters::Counters;
use crate::error::Result;
use crate::format::{CheckpointHeader, Measures, Superblock};
use crate::lookup::Store;
use crate::numbers::Numbers;
use crate::options::VlfsMountOptions;
use crate::owners::Owners;
use crate::prices::Prices;
use crate::recovery::{Recovered, recover, twice};
use crate::runs::Runs;
use crate::space::Space;
use crate::vlfs::Vlfs;
use crate::writer::Writer;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::sync::{Mutex, RwLock};
use varve_device::{Clock, Device};
use varve_format::identity::{mount_id, not_to_be_written};
use varve_format::owner::OwnerRecord;
use varve_vlog::Medium;
use varve_vlog::format::TailRecord;
use zerocopy::IntoBytes;

impl Vlfs {
    /// Recovers and mounts a volume.
    ///
    /// # Errors
    /// If there is no superblock, if the inode map cannot be recovered completely, if
    /// the tree uses a unit twice, or if the device fails.
    pub fn mount(
        medium: Arc<dyn Medium>,
        clock: Arc<dyn Clock>,
        options: VlfsMountOptions,
    ) -> Result<Vlfs> {
        let superblock = Self::find_superblock(&*medium)?;
        let measures = Measures::of(&superblock);
        let store = Store::new(medium, measures, options.cache_bytes);
        let recovered = recover(&store)?;
        let read_only = read_only_reason(&store, &superblock, &options);
        // This precedes all writes, because a tree that uses a unit twice is refused.
        let mut space = Space::new(
            &store.medium,
            &measures,
            options.policy,
            recovered.tree.clone(),
            recovered.base.clone(),
            recovered.found.log.units(),
        )
        .map_err(twice)?;
        for &extent in &recovered.held {
            space.hold(extent).map_err(|extent| twice(extent.unit))?;
        }
        if read_only.is_none() {
            settle(&store, &recovered)?;
        }
        let mount_id = mount_id(options.seed);
        let parts = (store, superblock, options, read_only);
        let vlfs = Self::assemble(parts, clock, recovered, space);
        if vlfs.read_only.is_none() {
            vlfs.write_owner(mount_id, true)?;
            // The blocks on which recovery relied may be in the device's cache, if only
            // the server process died.
            vlfs.store.medium.flush()?;
        }
        Ok(vlfs)
    }

    fn assemble(
        (store, superblock, options, read_only): (
            Store,
            Superblock,
            VlfsMountOptions,
            Option<String>,
        ),
        clock: Arc<dyn Clock>,
        recovered: Recovered,
        mut space: Space,
    ) -> Vlfs {
        let measures = store.measures;
        let Recovered {
            tables,
            dirty,
            unfolded,
            totals,
            long_xattrs,
            checkpoints,
            found,
            report,
            ..
        } = recovered;
        let mut log = found.log;
        if read_only.is_none() {
            for unit in log.reclaim() {
                space.give_record(unit);
            }
        }
        // The counts are limited, so that sums do not overflow if a record is damaged.
        let mut usage = totals.usage();
        usage.inodes = usage.inodes.min(measures.inodes);
        usage.blocks = usage.blocks.min(measures.units());
        usage.sectors = usage
            .sectors
            .min(measures.blocks * measures.block_sectors());
        let unfinished = |ino: &u64| match tables.images.get(ino) {
            Some(image) => image.inode.is_unfinished(),
            None => tables.entry(*ino).unfinished(),
        };
        let unfinished = (0..tables.end()).filter(unfinished).collect();
        let numbers = Numbers::new(&tables, measures.inodes);
        let writer = Writer {
            space,
            log,
            runs: Runs::default(),
            unfolded,
            dirty,
            owners: Owners::default(),
            stored: totals.stored().min(measures.units()),
            long_xattrs: long_xattrs.min(measures.units()),
            usage,
            appended: 0,
            sealed: 0,
            durable: 0,
            checkpoints,
            checkpoint_ns: clock.monotonic_ns(),
            since_checkpoint: 0,
        };
        Vlfs {
            clock,
            superblock,
            options,
            store,
            compactor: Mutex::new(Compactor::default()),
            committing: Mutex::new(()),
            writer: Mutex::new(writer),
            tables: RwLock::new(tables),
            numbers: Mutex::new(numbers),
            prices: Prices::of(&measures),
            stopped: Mutex::new(None),
            counts: Counters::default(),
            read_only,
            unfinished,
            recovery: report,
        }
    }

    /// Takes the last checkpoint, records the place of the log's tail, and marks the
    /// volume as released. Afterwards the volume serves reads, and takes no more
    /// writes.
    ///
    /// # Errors
    /// If the device fails.
    pub fn unmount(&self) -> Result<()> {
        if self.stopped().is_some() {
            return Ok(());
        }
        let _one = self.committing.lock();
        let mut writer = self.writer.lock();
        self.write_checkpoint(&mut writer)?;
        // A tail record whose write failed may nevertheless be on the device, now or
        // later.
        self.stop("the volume has been unmounted".into());
        let record = writer.log.tail_record(self.measures().volume);
        let mut block = vec![0; self.measures().block_bytes as usize];
        block[..size_of::<TailRecord>()].copy_from_slice(record.as_bytes());
        let at = self.measures().block_byte(Measures::TAIL_BLOCK);
        self.store.medium.write(at, &[IoSlice::new(&block)])?;
        self.write_owner(0, false)?;
        Ok(self.store.medium.flush()?)
    }

    fn write_owner(&self, mount_id: u64, mounted: bool) -> Result<()> {
        let (owner, volume) = (&self.options.owner, self.measures().volume);
        let record = OwnerRecord::of(owner, volume, mount_id, mounted, self.clock.now_ns());
        let mut bytes = vec![0; self.measures().block_bytes as usize];
        bytes[..512].copy_from_slice(record.as_bytes());
        let at = self.measures().block_byte(Measures::OWNER_BLOCK);
        Ok(self.store.medium.write(at, &[IoSlice::new(&bytes)])?)
    }

    /// Returns the owner record on the device, if it is valid.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn read_owner(device: &dyn Device, superblock: &Superblock) -> Result<Option<OwnerRecord>> {
        let measures = Measures::of(superblock);
        let mut bytes = vec![0; measures.block_bytes as usize];
        device.read(measures.block_byte(Measures::OWNER_BLOCK), &mut bytes)?;
        Ok(OwnerRecord::parse(&bytes, measures.volume).ok())
    }
}

fn read_only_reason(
    store: &Store,
    superblock: &Superblock,
    options: &VlfsMountOptions,
) -> Option<String> {
    let (unit, physical) = (
        store.measures.unit_bytes,
        store.medium.geometry().physical_block,
    );
    if options.read_only {
        return Some("mounted read-only".into());
    }
    not_to_be_written(superblock.read_only_compat.get()).or_else(|| {
        // A write would affect neighbouring units.
        (unit < physical).then(|| {
            format!("its units have {unit} bytes, the device's physical blocks {physical}")
        })
    })
}

/// Makes recovery's decisions permanent; the caller flushes. The records that it
/// discarded are destroyed, because another recovery could accept them. So is the head
/// of an incomplete checkpoint, because a torn write could complete it. The tail record
/// is cleared, because it will soon be out of date.
fn settle(store: &Store, recovered: &Recovered) -> Result<()> {
    let measures = &store.measures;
    let zeros = vec![0; measures.block_bytes as usize];
    let unit = &zeros[..measures.unit_bytes as usize];
    for &at in &recovered.found.discarded {
        store
            .medium
            .write(measures.unit_byte(at), &[IoSlice::new(unit)])?;
    }
    let kept: BTreeSet<u64> = recovered.found.log.units().collect();
    for &at in &recovered.found.unreadable {
        // An unreadable unit that is not needed may hide a record. If it cannot be
        // destroyed, its number is nevertheless not assigned again.
        if !kept.contains(&at) && !recovered.tree.get(at) && !recovered.base.get(at) {
            let at = measures.unit_byte(at);
            store.medium.write(at, &[IoSlice::new(unit)]).ok();
        }
    }
    for region in (0..2).filter(|&region| recovered.checkpoints[region].is_none()) {
        let head = measures.block_byte(measures.checkpoint_block(region));
        let mut write = |_| store.medium.write(head, &[IoSlice::new(&zeros)]);
        (0..crate::prices::TRIES)
            .map(&mut write)
            .find(std::result::Result::is_ok);
    }
    let tail = measures.block_byte(Measures::TAIL_BLOCK);
    store.medium.write(tail, &[IoSlice::new(&zeros)])?;
    Ok(store.medium.flush()?)
}

/// Creates the head of an empty checkpoint.
pub(super) fn empty_head(measures: &Measures, serial: u64, now_ns: i64) -> CheckpointHeader {
    CheckpointHeader {
        crc: 0.into(),
        magic: 0.into(),
        volume: measures.volume.into(),
        serial: serial.into(),
        seq: 0.into(),
        entries: 0.into(),
        totals: crate::format::Totals::default(),
        written_ns: now_ns.into(),
        body_crc: 0.into(),
        empty: 1.into(),
        long_xattrs: 1.into(),
    }
}
