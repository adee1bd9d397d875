//! The file systems under test.

use crate::between;
use crate::mounted::{Claimed, Extras, Handle, Mounted, Subject};
use crate::runner::new_clock;
use crate::slow_holes::SlowHoles;
use crate::strangers::switch_policy;
use crate::toy::{Bug, ToyLayout};
use std::sync::Arc;
use varve_device::{Clock, Device, MemoryDevice, MemoryImage, Operation};
use varve_fs::{FileSystem, InodeNo, Layout, MemoryLayout, MemoryOptions, Options, Result};
use varve_fsck::check::{CheckOptions, FindingKind, check};
use varve_lfs::format::checkpoint::CheckpointRecord;
use varve_lfs::policy::Coalescing;
use varve_lfs::{FormatOptions, Lfs, MountOptions, ResizeOptions};

/// Bytes by which a growing volume grows at a time.
const GROWTH: u64 = (2 << 20) + 4096;

/// Returns the mount options of every subject: little memory, so that blocks are evicted
/// and written back, and no threads, so that runs repeat.
pub fn options() -> Options {
    Options {
        cache_bytes: 1 << 20,
        read_ahead_threads: 0,
        ..Options::default()
    }
}

/// Mounts a layout without additions.
///
/// # Errors
/// The same as [`FileSystem::mount`].
pub fn mount_layout<L: Layout>(layout: Arc<L>, clock: Arc<dyn Clock>) -> Result<Box<dyn Mounted>> {
    let system = FileSystem::mount(layout, clock, options())?;
    Ok(Box::new(Handle::new(system, Extras::default())))
}

/// A volume on [`MemoryLayout`], which outlives its mounts.
pub struct MemoryVolume {
    layout: Arc<MemoryLayout>,
    clock: Arc<dyn Clock>,
}

impl MemoryVolume {
    /// Returns an empty volume.
    ///
    /// # Errors
    /// The same as [`FileSystem::format`].
    pub fn new(clock: Arc<dyn Clock>, memory: MemoryOptions) -> Result<Self> {
        let layout = Arc::new(MemoryLayout::new(memory));
        FileSystem::format(&*layout, &*clock, (0, 0))?;
        Ok(MemoryVolume { layout, clock })
    }

    /// Returns the layout in its present life.
    pub fn layout(&self) -> &Arc<MemoryLayout> {
        &self.layout
    }

    /// Mounts the committed state.
    ///
    /// # Errors
    /// The same as [`FileSystem::mount`].
    pub fn mount(&mut self) -> Result<Box<dyn Mounted>> {
        self.layout = Arc::new(self.layout.crash());
        mount_layout(Arc::clone(&self.layout), Arc::clone(&self.clock))
    }
}

/// The toy layout, correct or with a bug.
#[derive(Default)]
pub struct Toy {
    /// The planted bug.
    pub bug: Option<Bug>,
}

impl Toy {
    /// Returns the toy with `bug`.
    pub fn with(bug: Bug) -> Self {
        Toy { bug: Some(bug) }
    }
}

impl Subject for Toy {
    fn format(&self, device: Arc<dyn Device>, clock: Arc<dyn Clock>) -> Result<()> {
        let layout = ToyLayout::open(device.clone(), 0, None)?;
        FileSystem::format(&layout, &*clock, (0, 0))?;
        Ok(device.flush()?)
    }

    fn mount(
        &self,
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Result<Box<dyn Mounted>> {
        mount_layout(Arc::new(ToyLayout::open(device, seed, self.bug)?), clock)
    }

    fn check(&self, _device: Arc<dyn Device>) -> Vec<String> {
        Vec::new()
    }

    fn device_bytes(&self) -> u64 {
        16 << 20
    }
}

/// The log-structured layout.
#[derive(Clone, Debug)]
pub struct Log {
    /// Bytes of the device.
    pub device_bytes: u64,
    /// Options for creating the volume.
    pub format: FormatOptions,
    /// Mount options; the seed is set at each mount.
    pub mount: MountOptions,
    /// Mount options of the file system on it.
    pub options: Options,
    /// Flushes between the partials of a group, as another thread may.
    pub flush_between: bool,
    /// Gives every writing mount another number of heads, up to that of `mount`.
    pub changing_heads: bool,
    /// Makes the operation `clean` use the mount's policy, instead of the emptiest
    /// segments without regard to the benefit.
    pub cleans_by_policy: bool,
    /// Initial bytes of the volume. The operation that changes the policy lets it grow
    /// instead, up to the whole device.
    pub grows_from: Option<u64>,
    /// Makes the device fill holes slowly, and the operation `coalesce` write ahead of
    /// the log instead.
    pub writes_ahead: bool,
}

impl Default for Log {
    /// Returns the smallest segments, so that few operations fill one.
    fn default() -> Self {
        Log {
            device_bytes: 8 << 20,
            format: FormatOptions {
                segment_bytes: 128 << 10,
                seed: Some(1),
                ..FormatOptions::default()
            },
            mount: MountOptions {
                cache_bytes: 1 << 20,
                checkpoint_bytes: 1 << 20,
                ..MountOptions::default()
            },
            options: options(),
            flush_between: false,
            changing_heads: false,
            cleans_by_policy: false,
            grows_from: None,
            writes_ahead: false,
        }
    }
}

/// Returns the emptiest segments.
fn emptiest(layout: &Lfs) -> Vec<u32> {
    let mut candidates = layout.cleaner().candidates();
    candidates.sort_by_key(|candidate| candidate.live_bytes);
    let emptiest = candidates.iter().take(3);
    emptiest.map(|candidate| candidate.segment).collect()
}

/// Moves the live blocks out of the emptiest segments, without regard to the benefit.
///
/// # Errors
/// Errors of cleaning a segment.
pub fn clean(system: &FileSystem<Lfs>) -> Result<()> {
    let layout = system.layout();
    for segment in emptiest(layout) {
        layout.cleaner().clean_segment(segment)?;
    }
    layout.checkpoints().settle_vacated()?;
    Ok(())
}

/// Moves the live blocks out of the segments that the mount's policy chooses.
///
/// # Errors
/// Errors of cleaning a segment.
fn clean_by_policy(system: &FileSystem<Lfs>) -> Result<()> {
    let layout = system.layout();
    let policy = layout.cleaner().cleaner_settings().policy.policy();
    for chosen in policy.choose(&layout.cleaner().candidates(), layout.now_ns(), 3) {
        layout.cleaner().clean_segment(chosen.segment)?;
    }
    layout.checkpoints().settle_vacated()?;
    Ok(())
}

/// Moves the blocks of every file into their order, without regard to the benefit.
///
/// # Errors
/// Errors of coalescing a file.
fn coalesce(system: &FileSystem<Lfs>) -> Result<()> {
    let layout = system.layout();
    // Numbers are reused, so the small trees of workloads have none above.
    for number in InodeNo::FIRST.0..256 {
        let policy = Coalescing::thorough();
        match layout
            .cleaner()
            .coalesce(&policy, InodeNo(number), 0, u64::MAX)
        {
            Ok(_) | Err(varve_lfs::Error::NoInode(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Does the same as [`clean`] in two steps, between which other operations run, as if
/// another thread made them.
fn claim(system: &FileSystem<Lfs>) -> Result<Claimed<Lfs>> {
    let layout = system.layout();
    let mut claims = Vec::new();
    for segment in emptiest(layout) {
        let contents = layout.mechanism().read_segment(segment)?;
        let found = layout.mechanism().bmapv(&contents)?;
        if found.damaged == 0 {
            claims.push((segment, contents.edition, found));
        }
    }
    Ok(Box::new(move |system| {
        let layout = system.layout();
        for (segment, edition, found) in claims {
            let data = found.is_all_data();
            if let Some(checkpoint) = layout.mechanism().markv(found)? {
                layout
                    .mechanism()
                    .segclean(segment, edition, checkpoint, data);
            }
        }
        Ok(())
    }))
}

/// Lets a mounted volume grow a little, unless it covers the whole device.
///
/// # Errors
/// Errors of growing, except for a lack of space for it.
fn grow(system: &FileSystem<Lfs>) -> Result<()> {
    let layout = system.layout();
    let bytes = layout.superblock().device_bytes.get() + GROWTH;
    match layout.grow(Some(bytes)) {
        Ok(_) | Err(varve_lfs::Error::Unfit(_)) => Ok(()),
        Err(varve_lfs::Error::Device(error)) if error.operation == Operation::Resize => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Log {
    /// Returns the file system itself, mounted for writing.
    ///
    /// # Errors
    /// The reason of the failure.
    pub fn system(
        &self,
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Result<FileSystem<Lfs>> {
        self.system_as(device, clock, seed, false)
    }

    fn system_as(
        &self,
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        seed: u64,
        read_only: bool,
    ) -> Result<FileSystem<Lfs>> {
        let mut mount = MountOptions {
            seed: Some(seed),
            read_only,
            ..self.mount.clone()
        };
        if self.changing_heads {
            mount.heads = 1 + (seed % u64::from(mount.heads.max(1))) as u32;
        }
        let device = match self.writes_ahead {
            true => Arc::new(SlowHoles::new(device)),
            false => device,
        };
        let layout = match self.flush_between {
            true => between::mount(device, Arc::clone(&clock), mount)?,
            false => Arc::new(Lfs::mount(device, Arc::clone(&clock), mount)?),
        };
        FileSystem::mount(layout, clock, self.options.clone())
    }

    /// Does the same as [`Subject::mount`], and also returns the layout.
    ///
    /// # Errors
    /// The reason of the failure.
    pub fn mount_and_layout(
        &self,
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Result<(Box<dyn Mounted>, Arc<Lfs>)> {
        let system = self.system_as(device, clock, seed, false)?;
        let layout = Arc::clone(system.layout());
        Ok((self.handle(system), layout))
    }

    fn mount_as(
        &self,
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        seed: u64,
        read_only: bool,
    ) -> Result<Box<dyn Mounted>> {
        let system = self.system_as(device, clock, seed, read_only)?;
        Ok(self.handle(system))
    }

    fn handle(&self, system: FileSystem<Lfs>) -> Box<dyn Mounted> {
        let extras = Extras {
            clean: match self.cleans_by_policy {
                true => clean_by_policy,
                false => clean,
            },
            coalesce: match self.writes_ahead {
                true => |system| system.layout().write_ahead().map(drop).map_err(Into::into),
                false => coalesce,
            },
            claim,
            stranger: |system, stranger| stranger.step(system.layout()),
            switch_policy: match self.grows_from {
                None => switch_policy,
                Some(_) => grow,
            },
            damage: |system| system.layout().recovery_report().damage.clone(),
            unmount: |system| Ok(system.layout().unmount()?),
        };
        Box::new(Handle::new(system, extras))
    }
}

impl Subject for Log {
    fn format(&self, device: Arc<dyn Device>, clock: Arc<dyn Clock>) -> Result<()> {
        Lfs::format(&*device, &*clock, &self.format)?;
        let mount = MountOptions {
            seed: Some(0),
            ..self.mount.clone()
        };
        let layout = Lfs::mount(Arc::clone(&device), Arc::clone(&clock), mount)?;
        FileSystem::format(&layout, &*clock, (0, 0))?;
        layout.unmount()?;
        if let Some(bytes) = self.grows_from {
            let options = ResizeOptions {
                seed: Some(0),
                ..ResizeOptions::default()
            };
            varve_lfs::resize(&device, clock, bytes, &options)?;
        }
        Ok(())
    }

    fn mount(
        &self,
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Result<Box<dyn Mounted>> {
        self.mount_as(device, clock, seed, false)
    }

    fn mount_read_only(
        &self,
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
    ) -> Option<Result<Box<dyn Mounted>>> {
        Some(self.mount_as(device, clock, 3, true))
    }

    fn without_newest_checkpoint(&self, image: &MemoryImage) -> Option<MemoryImage> {
        let superblock = Lfs::find_superblock(&MemoryDevice::from_image(image)).ok()?;
        let slot_bytes = u64::from(superblock.record_bytes.get());
        let mut records = Vec::new();
        for slot in 0..u64::from(superblock.record_count.get()) {
            let at = superblock.ring_offset.get() + slot * slot_bytes;
            let mut bytes = vec![0; slot_bytes as usize];
            image.read(at, &mut bytes);
            if let Ok(record) = CheckpointRecord::decode(&bytes, superblock.volume_tag()) {
                records.push((record.header.serial.get(), at));
            }
        }
        let newest = records.iter().max().filter(|_| records.len() > 1)?;
        let mut image = image.clone();
        image.write(newest.1, &[0; 512]);
        Some(image)
    }

    fn check(&self, device: Arc<dyn Device>) -> Vec<String> {
        let options = CheckOptions {
            data: true,
            ..CheckOptions::default()
        };
        match check(device, new_clock(), &options) {
            // A power cut during a resize leaves older copies of the superblock, which
            // fsck reports and repair rewrites; the volume is undamaged.
            Ok(report) if report.needs_repair() => (report.errors.iter())
                .chain(&report.warnings)
                .filter(|found| found.kind != FindingKind::SuperblockCopy)
                .map(ToString::to_string)
                .collect(),
            Ok(_) => Vec::new(),
            Err(error) => vec![error.to_string()],
        }
    }

    fn device_bytes(&self) -> u64 {
        self.device_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_fs::Caller;

    #[test]
    fn coalescing_has_something_to_move_in_small_workloads() {
        let log = Log::default();
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(log.device_bytes));
        log.format(Arc::clone(&device), new_clock()).unwrap();
        let system = log.system(device, new_clock(), 1).unwrap();
        let (caller, root) = (Caller::root(), InodeNo::ROOT);
        let made = system.mknod(&caller, root, b"a", 0o100_644, 0);
        let file = made.unwrap().ino;
        for block in [1, 0] {
            let (at, data) = (block * 4096, [1; 4096]);
            system.write(&caller, file, at, &data).unwrap();
            system.fsync(file, true).unwrap();
        }
        coalesce(&system).unwrap();
        assert_eq!(system.layout().statistics().coalesced_bytes, 2 * 4096);
    }
}
