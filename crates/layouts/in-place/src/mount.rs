//! Mounting and unmounting.

use crate::allocate::Policy;
use crate::bits::Bits;
use crate::counters::Counters;
use crate::error::{Error, Result};
use crate::ffs::{Ffs, FfsRecovery};
use crate::format::{Geometry, GroupMap, JournalHead, Metadata, Sector, Superblock};
use crate::maps::{self, Maps};
use crate::numbers::Numbers;
use crate::options::{Examine, FfsMountOptions};
use crate::planner::{Directories, Flush, GivenUp};
use crate::prices::Prices;
use crate::repair::{Report, Scan, scan, superblocks};
use crate::replay::{Replayed, find_superblock, head_only, replay};
use crate::room::Room;
use crate::store::{Over, Store, Tables};
use crate::transaction::write_head;
use crate::writer::Writer;
use std::collections::{BTreeMap, HashSet};
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use varve_device::sync::{Mutex, RwLock};
use varve_device::{Clock, Device};
use varve_format::Malformed;
use varve_format::identity::{mount_id, not_to_be_written};
use varve_format::owner::OwnerRecord;
use varve_fs::Usage;
use varve_fs::planted::{self, Planted};
use zerocopy::IntoBytes;

impl Ffs {
    /// Returns the superblock in the first block, or a copy of it.
    ///
    /// # Errors
    /// `NoVolume`, with the problem of the first one.
    pub fn find_superblock(device: &dyn Device) -> Result<Superblock> {
        find_superblock(device)
    }

    /// Replays the journal and mounts a volume.
    ///
    /// # Errors
    /// If there is no superblock, if both journal heads or a map are damaged, or if the
    /// device fails.
    pub fn mount(
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        options: FfsMountOptions,
    ) -> Result<Ffs> {
        let always = options.examine == Examine::Always;
        let superblock = match always {
            true => superblocks::find(&*device)?,
            false => find_superblock(&*device)?,
        };
        let in_place = superblock.metadata().is_in_place();
        let geometry = Geometry::of(&superblock);
        let store = Store::new(device, geometry, options.cache_bytes / 2);
        let replayed = match in_place {
            true => head_only(&store),
            false => replay(&store),
        };
        let mut report = Report::default();
        let replayed = match replayed {
            Err(Error::Damaged(problem)) if always => {
                report.loss(format!("{problem}; the journal is taken to be empty"));
                Replayed::nothing(JournalHead::new(geometry.tag, 1, 0, 0, Usage::default(), 0))
            }
            other => other?,
        };
        let unclean = in_place && replayed.head.is_dirty();
        let policy = superblock.policy()?;
        let (scanned, room, numbers) = match always || unclean {
            true => {
                let on = (&store, &policy);
                let (scan, room, numbers) = scan(on, &replayed.sectors, unclean, &mut report)?;
                (Some(scan), room, numbers)
            }
            false => {
                let (used, numbers) = by_maps(&store, &replayed.sectors)?;
                let room = Room::new(geometry, &policy, used)?;
                (None, room, numbers)
            }
        };
        let read_only = read_only_reason(&store, &superblock, &options);
        let mut ffs = Self::assemble(
            (store, superblock, policy, options),
            clock,
            replayed,
            (room, numbers),
        );
        ffs.recovery.unclean = unclean;
        if read_only.is_none() {
            ffs.write_owner(ffs.mount_id, true)?;
            match in_place {
                true => ffs.write_state(true)?,
                false => ffs.begin_life()?,
            }
        }
        ffs.read_only = match scanned {
            None => read_only,
            Some(scan) => ffs.examine(scan, report, read_only, always)?,
        };
        Ok(ffs)
    }

    /// Repairs the findings of a scan: in memory, and on the device if nothing prevents
    /// it. Returns the reason if something does, for example too little free space.
    fn examine(
        &mut self,
        scan: Scan,
        mut report: Report,
        read_only: Option<String>,
        always: bool,
    ) -> Result<Option<String>> {
        self.rehearsing = !always || read_only.is_some();
        let unmended = self.mend(scan, &mut report).err();
        let unmended = unmended.map(|error| format!("what was found cannot be mended: {error}"));
        if let Some(text) = &unmended {
            report.loss(text.clone());
        }
        let reason = read_only.or(unmended).or_else(|| {
            let loss = report.losses.first().filter(|_| !always);
            loss.map(|loss| format!("damaged, and no crash explains it: {loss}; repair it first"))
        });
        let (repairs, losses) = (report.repairs.len(), report.losses.len());
        if repairs + losses > 0 {
            let volume = self.store.device.name();
            match &reason {
                None => tracing::warn!(%volume, repairs, losses, "checked and mended"),
                Some(reason) => tracing::warn!(
                    %volume, repairs, losses, %reason, "checked; nothing is mended on the device"
                ),
            }
        }
        for finding in report.repairs.iter().chain(&report.losses) {
            tracing::info!("{finding}");
        }
        self.recovery.repairs = report.repairs;
        self.recovery.losses = report.losses;
        self.recovery.untold = report.untold;
        self.unfinished = self.list_unfinished();
        self.recovery.unfinished = self.unfinished.len() as u64;
        self.rehearsing = false;
        if reason.is_none() {
            self.write_checkpoint()?;
        }
        Ok(reason)
    }

    fn assemble(
        (store, superblock, policy, options): (Store, Superblock, Policy, FfsMountOptions),
        clock: Arc<dyn Clock>,
        replayed: Replayed,
        (room, numbers): (Room, Numbers),
    ) -> Ffs {
        let geometry = store.geometry;
        let mut usage = replayed.usage;
        usage.inodes = usage.inodes.min(geometry.inodes());
        usage.blocks = usage.blocks.min(geometry.fragments());
        usage.sectors = usage
            .sectors
            .min(geometry.blocks * geometry.block_sectors());
        let unfinished: Vec<u64> = numbers.map(GroupMap::Unfinished).ones().collect();
        let unit = u64::from(geometry.unit_bytes);
        let serial = replayed.head.serial.get();
        let recovery = FfsRecovery {
            records: replayed.records,
            sectors: replayed.sectors.len() as u64,
            unfinished: unfinished.len() as u64,
            ..FfsRecovery::default()
        };
        let tables = Tables {
            newer: replayed.sectors.clone().into_iter().collect(),
        };
        let end = replayed.end.next_multiple_of(unit);
        let writer = Writer {
            room,
            running: BTreeMap::new(),
            committed: replayed.sectors,
            given_up: GivenUp::default(),
            fresh: superblock.metadata().is_in_place().then(HashSet::new),
            directories: (options.overwrites_directories
                && superblock.metadata() == Metadata::Synchronous)
                .then(Directories::default),
            freed: Vec::new(),
            entered: HashSet::new(),
            waiting: Vec::new(),
            flush: Flush::default(),
            groups: 0,
            usage,
            durable_usage: usage,
            only_times: true,
            appended: 0,
            durable: 0,
            data_durable: 0,
            head: end,
            tail: replayed.head.first.get(),
            serial,
            checkpoint_ns: clock.monotonic_ns(),
        };
        Ffs {
            // It differs from the last mount's, whatever the seed.
            mount_id: mount_id(options.seed) ^ serial.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            prices: Prices::new(
                geometry,
                options.cache_bytes / 2,
                superblock.metadata().is_in_place(),
            ),
            rehearsing: false,
            clock,
            superblock,
            policy,
            options,
            store,
            committing: Mutex::new(()),
            writer: Mutex::new(writer),
            tables: RwLock::new(tables),
            numbers: Mutex::new(numbers),
            stopped: Mutex::new(None),
            counts: Counters::default(),
            read_only: None,
            unfinished,
            recovery,
        }
    }

    /// Writes the replayed sectors in place, and begins an empty journal (rule J7).
    fn begin_life(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        let sectors = std::mem::take(&mut writer.committed);
        self.store.write_sectors(&sectors)?;
        // The writes of the last mount may be in the device's cache, if only the server
        // process died.
        if !planted::is(Planted::NoFlushAtMount) {
            self.store.device.flush()?;
        }
        writer.serial += 1;
        writer.tail = writer.head;
        let head = JournalHead::new(
            self.store.geometry.tag,
            writer.serial,
            self.mount_id,
            writer.head,
            writer.usage,
            self.clock.now_ns(),
        );
        write_head(&*self.store.device, &self.store.geometry, &head)?;
        self.store.device.flush()?;
        self.tables.write().newer.clear();
        for (sector, bytes) in sectors {
            self.store.is_in_place(sector, bytes);
        }
        Ok(())
    }

    /// Takes the last checkpoint and marks the volume as released. Afterwards the
    /// volume serves reads, and takes no more writes.
    ///
    /// # Errors
    /// If the device fails.
    pub fn unmount(&self) -> Result<()> {
        if self.stopped().is_some() {
            return Ok(());
        }
        self.write_last_checkpoint()?;
        self.write_owner(0, false)?;
        Ok(self.store.device.flush()?)
    }

    fn write_owner(&self, mount_id: u64, mounted: bool) -> Result<()> {
        let geometry = &self.store.geometry;
        let (owner, now) = (&self.options.owner, self.clock.now_ns());
        let record = OwnerRecord::of(owner, geometry.tag, mount_id, mounted, now);
        let mut bytes = vec![0; geometry.block_bytes as usize];
        bytes[..512].copy_from_slice(record.as_bytes());
        let at = geometry.block_byte(Geometry::OWNER_BLOCK);
        Ok(self.store.device.write(at, &[IoSlice::new(&bytes)])?)
    }

    /// Returns the owner record on the device, if it is valid.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn read_owner(device: &dyn Device, superblock: &Superblock) -> Result<Option<OwnerRecord>> {
        let geometry = Geometry::of(superblock);
        let mut bytes = vec![0; geometry.block_bytes as usize];
        // A record that cannot be read was torn.
        let read = device.read(geometry.block_byte(Geometry::OWNER_BLOCK), &mut bytes);
        Ok(read
            .ok()
            .and_then(|()| OwnerRecord::parse(&bytes, geometry.tag).ok()))
    }
}

fn read_only_reason(
    store: &Store,
    superblock: &Superblock,
    options: &FfsMountOptions,
) -> Option<String> {
    let (unit, physical) = (
        store.geometry.unit_bytes,
        store.device.geometry().physical_block,
    );
    if options.read_only {
        return Some("mounted read-only".into());
    }
    not_to_be_written(superblock.read_only_compat.get()).or_else(|| {
        // A write would affect neighbouring units.
        (unit < physical).then(|| {
            format!("it is written by {unit} bytes, the device's physical blocks have {physical}")
        })
    })
}

/// Returns the fragments in use and the inode numbers according to the maps.
fn by_maps(store: &Store, newer: &BTreeMap<u64, Arc<Sector>>) -> Result<(Bits, Numbers)> {
    let geometry = store.geometry;
    let source = Over { store, newer };
    let Maps { used, inodes } = maps::read(&source, &mut |_, error| Err(error))?;
    let damaged = |problem: String| Error::Damaged(Malformed::new("map", problem));
    for group in 0..geometry.groups() {
        let begin = group * geometry.group_fragments();
        let data = geometry.data_fragments(group);
        let all = begin..begin + geometry.group_fragments();
        let others = [all.start..data.start, data.end..all.end];
        let is_used = |range: &Range<u64>| used.count(range.clone()) == range.end - range.start;
        if !others.iter().all(is_used) {
            let problem = format!("cylinder group {group}: metadata is said to be free");
            return Err(damaged(problem));
        }
    }
    if !(0..2).all(|ino| inodes[GroupMap::Used as usize].get(ino)) {
        let problem = "numbers that are nobody's are said to be free";
        return Err(damaged(problem.into()));
    }
    Ok((used, Numbers::new(geometry, inodes)))
}
