//! Salvage: a volume without superblocks or checkpoint records is copied to a new volume,
//! from the information in the log.
//!
//! The damaged volume is never written. The structures that are needed to read it are
//! written to an `Overlay` in memory:
//!
//! 1. a superblock: a remaining copy, or one inferred from the summaries (`infer`);
//! 2. a checkpoint record: a remaining one, or one rebuilt from the writes of the
//!    checkpoint (`record`);
//! 3. the changes of repair ([`crate::repair`]), including lost+found.
//!
//! Then the tree is read like that of any volume and copied (`copy`).
//!
//! Memory: that of repair, and everything that repair writes.

mod copy;
mod infer;
mod overlay;
mod record;

pub use copy::Copied;

use crate::check::Phase;
use crate::repair::evidence::Evidence;
use crate::repair::{RepairOptions, RepairReport, repair};
use overlay::Overlay;
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::{Clock, Device};
use varve_fs::{FileSystem, Options};
use varve_lfs::format::Superblock;
use varve_lfs::internal::{Reader, newest_superblock, valid_records, write_superblocks};
use varve_lfs::{Error, Geometry, Lfs, MountOptions, RecoveryReport, Result, superblock_offsets};

/// Options of a salvage.
pub struct SalvageOptions<'a> {
    /// First eight bytes of the UUID as an integer, to select one of several volumes on
    /// the device; 0 selects the one written last.
    pub volume_tag: u64,
    /// True if names compare without regard to case; used only if no superblock is left.
    pub case_fold: bool,
    /// Identity for the target's owner record.
    pub owner: varve_lfs::OwnerIdentity,
    /// Callback with the step, the work done in it, and its total; 0 if the total is not
    /// known.
    pub progress: &'a dyn Fn(&'static str, u64, u64),
}

impl Default for SalvageOptions<'_> {
    fn default() -> Self {
        SalvageOptions {
            volume_tag: 0,
            case_fold: false,
            owner: varve_lfs::OwnerIdentity::default(),
            progress: &|_, _, _| {},
        }
    }
}

impl std::fmt::Debug for SalvageOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SalvageOptions")
            .field("volume_tag", &self.volume_tag)
            .field("case_fold", &self.case_fold)
            .finish_non_exhaustive()
    }
}

/// A salvaged volume that can be read.
pub struct Salvaged {
    /// The superblock in use.
    pub superblock: Superblock,
    /// True if no superblock was left.
    pub superblock_inferred: bool,
    /// True if no checkpoint record was left.
    pub record_inferred: bool,
    /// The report of the repair in memory.
    pub repair: RepairReport,
    device: Arc<dyn Device>,
}

impl std::fmt::Debug for Salvaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Salvaged")
            .field("superblock_inferred", &self.superblock_inferred)
            .field("record_inferred", &self.record_inferred)
            .field("repair", &self.repair)
            .finish_non_exhaustive()
    }
}

/// Makes the volume on `source` readable in memory, without writing to it.
///
/// # Errors
/// `NoVolume` if neither a superblock nor the log shows a volume's geometry; device
/// errors.
pub fn open(
    source: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    options: &SalvageOptions<'_>,
) -> Result<Salvaged> {
    let device: Arc<dyn Device> = Arc::new(Overlay::new(source));
    let tag = (options.volume_tag != 0).then_some(options.volume_tag);
    let (superblock, superblock_inferred) = match newest_superblock(&*device) {
        Ok(found) if tag.is_none_or(|tag| tag == found.volume_tag()) => (found, false),
        _ => {
            let progress = |done, total| (options.progress)("searching", done, total);
            let found = infer::superblock(&*device, tag, options.case_fold, &progress)?;
            write_superblocks(&*device, &found, superblock_offsets(&found).collect())?;
            (found, true)
        }
    };
    let mut report = RecoveryReport::default();
    let record_inferred = valid_records(&*device, &superblock, &mut report).is_err();
    if record_inferred {
        write_record(&device, &superblock, options)?;
    }
    let repairs = RepairOptions {
        progress: &|phase, done, total| (options.progress)(name_of(phase), done, total),
        ..RepairOptions::default()
    };
    let repair = repair(Arc::clone(&device), clock, &repairs)?;
    Ok(Salvaged {
        superblock,
        superblock_inferred,
        record_inferred,
        repair,
        device,
    })
}

fn name_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Superblocks | Phase::Recovery => "reading the log",
        Phase::Inodes => "inodes",
        Phase::Directories => "directories",
        Phase::Links => "links",
        Phase::Accounts => "accounts",
        Phase::Segments => "data",
    }
}

/// Writes a record that is rebuilt from the log into the overlay.
fn write_record(
    device: &Arc<dyn Device>,
    superblock: &Superblock,
    options: &SalvageOptions<'_>,
) -> Result<()> {
    let geometry = Geometry::from(superblock);
    let reader = Reader::offline(Arc::clone(device), geometry, 1 << 20);
    let progress = |done, total| (options.progress)("reading the log", done, total);
    let evidence = Evidence::gather(&reader, &geometry, superblock.volume_tag(), &progress);
    let record = record::rebuild(&reader, superblock, &evidence)?;
    let slot_bytes = superblock.record_bytes.get();
    let slot = record.header.serial.get() % u64::from(superblock.record_count.get());
    let offset = superblock.ring_offset.get() + slot * u64::from(slot_bytes);
    let bytes = record.encode(slot_bytes as usize);
    device.write(offset, &[IoSlice::new(&bytes)])?;
    Ok(())
}

impl Salvaged {
    /// Copies the tree to `target`, which must be a formatted empty volume, and unmounts
    /// the target durably.
    ///
    /// # Errors
    /// If the target is full or fails, or if repair could not make the volume mountable.
    pub fn copy_to(
        &self,
        target: Arc<dyn Device>,
        clock: &Arc<dyn Clock>,
        options: &SalvageOptions<'_>,
    ) -> Result<Copied> {
        let failed = |error: varve_fs::Error| match error {
            varve_fs::Error::NoSpace => Error::Format("the target is too small".into()),
            other => Error::Format(other.to_string()),
        };
        let read_only = MountOptions {
            read_only: true,
            ..MountOptions::default()
        };
        let source = mount(Arc::clone(&self.device), clock, read_only)?;
        let writing = MountOptions {
            owner: options.owner.clone(),
            ..MountOptions::default()
        };
        let target = mount(target, clock, writing)?;
        let progress = |done| (options.progress)("copying", done, 0);
        let copied = copy::tree(&source, &target, &progress).map_err(failed)?;
        target.unmount().map_err(failed)?;
        target.layout().unmount()?;
        Ok(copied)
    }
}

fn mount(
    device: Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
    options: MountOptions,
) -> Result<FileSystem<Lfs>> {
    let name = device.name();
    let lfs = Arc::new(Lfs::mount(device, Arc::clone(clock), options)?);
    let tree = FileSystem::mount(lfs, Arc::clone(clock), Options::default());
    tree.map_err(|error| Error::Format(format!("{name}: {error}")))
}
