//! VLFS as a subject: the file system on the virtual log.

use crate::explorer::Plan;
use crate::generator::Profile;
use crate::mounted::{Claimed, Extras, Handle, Mounted, Subject};
use crate::runner::new_clock;
use crate::subjects::options;
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::{Clock, Device, Geometry, MemoryDevice, MemoryImage, VirtualClock};
use varve_disk::{Drive, SimulatedDisk, drives};
use varve_fs::{FileSystem, Options, Result};
use varve_vlfs::format::{CheckpointHeader, Measures};
use varve_vlfs::{
    Vlfs, VlfsFormatOptions, VlfsMountOptions, Watermarks, check, format, whole_checkpoints,
};
use varve_vlog::{InDrive, InOrder, Medium};

/// A volume on the virtual log.
#[derive(Clone, Debug)]
pub struct VirtualLog {
    /// Options for its creation.
    pub format: VlfsFormatOptions,
    /// Mount options of its layout.
    pub mount: VlfsMountOptions,
    /// Mount options of its tree.
    pub options: Options,
    /// Bytes of the device.
    pub device_bytes: u64,
    /// Number of cylinders of a simulated drive that is the device: distances are
    /// measured from the head, and records are stored among the data. 0 means no drive.
    pub cylinders: u32,
}

impl Default for VirtualLog {
    fn default() -> Self {
        VirtualLog {
            format: VlfsFormatOptions {
                seed: Some(1),
                ..VlfsFormatOptions::default()
            },
            mount: VlfsMountOptions {
                cache_bytes: 1 << 20,
                compaction: Watermarks::ALWAYS,
                ..VlfsMountOptions::default()
            },
            options: options(),
            device_bytes: 6 << 20,
            cylinders: 0,
        }
    }
}

impl VirtualLog {
    /// Returns a subject with units of a sector, in which inodes and records share
    /// blocks.
    pub fn with_small_units() -> Self {
        let mut subject = VirtualLog::default();
        subject.format.unit_bytes = 512;
        subject
    }

    /// Returns a subject so small that space is freed and reused all the time.
    pub fn small() -> Self {
        VirtualLog {
            device_bytes: 4 << 20,
            ..VirtualLog::default()
        }
    }

    /// Returns the smallest subject, with some 220 blocks for users, which churn fills
    /// again and again.
    pub fn least(self) -> Self {
        VirtualLog {
            device_bytes: 420 << 12,
            ..self
        }
    }

    /// Returns a subject with so few slots for records of changes that they are used up
    /// all the time, and each fold is forced.
    pub fn with_slots(self, slots: u64) -> Self {
        let format = VlfsFormatOptions {
            slots: Some(slots),
            ..self.format
        };
        VirtualLog { format, ..self }
    }

    /// Returns a subject inside a drive with two cylinders.
    pub fn in_drive() -> Self {
        VirtualLog {
            cylinders: 2,
            device_bytes: drive(2).geometry.bytes(),
            ..VirtualLog::with_small_units()
        }
    }

    /// Returns a subject inside a drive of about the same size.
    pub fn inside_a_drive(self) -> Self {
        let fits = |&cylinders: &u32| drive(cylinders).geometry.bytes() >= self.device_bytes;
        let cylinders = (2..1000).find(fits).unwrap_or(1000);
        VirtualLog {
            cylinders,
            device_bytes: drive(cylinders).geometry.bytes(),
            ..self
        }
    }

    /// Returns the plan for the small subject.
    pub fn churn(seed: u64) -> Plan {
        Plan {
            profile: Profile::churn(),
            may_be_full: true,
            units: vec![4096],
            ..Plan::quick(seed)
        }
    }

    /// Returns the plan for units of a sector, where short blocks take from one unit to a
    /// whole block.
    pub fn in_sectors(plan: Plan) -> Plan {
        let mut plan = Plan {
            units: vec![512],
            ..plan
        };
        plan.profile.tails = true;
        plan
    }

    fn medium(&self, device: Arc<dyn Device>) -> Arc<dyn Medium> {
        if self.cylinders > 0 {
            // The drive has its own time, so the position of the head depends only on the
            // requests since the mount.
            let clock = Arc::new(VirtualClock::new(0, 0));
            let disk = SimulatedDisk::over(Sectors(device), drive(self.cylinders), clock, 1);
            return Arc::new(InDrive(Arc::new(disk)));
        }
        match self.format.unit_bytes {
            512..4096 => Arc::new(InOrder(Sectors(device))),
            _ => Arc::new(InOrder(device)),
        }
    }

    fn mount_as(
        &self,
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        seed: u64,
        read_only: bool,
    ) -> Result<Box<dyn Mounted>> {
        let mount = VlfsMountOptions {
            seed: Some(seed),
            read_only,
            ..self.mount.clone()
        };
        let layout = Vlfs::mount(self.medium(device), Arc::clone(&clock), mount)?;
        let system = FileSystem::mount(Arc::new(layout), clock, self.options.clone())?;
        let extras: Extras<Vlfs> = Extras {
            clean: |system| compact(system, u64::MAX),
            // The compactor is stopped before it is done.
            coalesce: |system| compact(system, 5),
            claim,
            unmount: |system| Ok(system.layout().unmount()?),
            ..Extras::default()
        };
        Ok(Box::new(Handle::new(system, extras)))
    }
}

fn drive(cylinders: u32) -> Drive {
    drives::st19101().with_cylinders(cylinders)
}

/// Runs the compactor until it has moved this much or can gain nothing.
fn compact(system: &FileSystem<Vlfs>, most_units: u64) -> Result<()> {
    let layout = system.layout();
    if layout.stopped().is_some() {
        return Ok(());
    }
    layout.compact(most_units, &|_| true)?;
    Ok(())
}

/// Finds the live blocks of a region, and returns the function that moves them later, as
/// if another thread ran in between.
fn claim(system: &FileSystem<Vlfs>) -> Result<Claimed<Vlfs>> {
    let claims = system.layout().claim_region()?;
    Ok(Box::new(move |system| match claims {
        Some(claims) => Ok(system.layout().move_claims(claims)?),
        None => Ok(()),
    }))
}

/// A device that writes single sectors without reading their neighbours.
#[derive(Debug)]
struct Sectors(Arc<dyn Device>);

impl Device for Sectors {
    fn geometry(&self) -> Geometry {
        Geometry {
            logical_block: 512,
            physical_block: 512,
            ..self.0.geometry()
        }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> varve_device::Result<()> {
        self.0.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> varve_device::Result<()> {
        self.0.write(offset, buffers)
    }

    fn flush(&self) -> varve_device::Result<()> {
        self.0.flush()
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

impl Subject for VirtualLog {
    fn format(&self, device: Arc<dyn Device>, clock: Arc<dyn Clock>) -> Result<()> {
        let medium = self.medium(device);
        format(&*medium, &*clock, &self.format)?;
        let mount = VlfsMountOptions {
            seed: Some(0),
            ..self.mount.clone()
        };
        let layout = Vlfs::mount(medium, Arc::clone(&clock), mount)?;
        FileSystem::format(&layout, &*clock, (0, 0))?;
        Ok(layout.unmount()?)
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
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::from_image(image));
        let superblock = Vlfs::find_superblock(&*device).ok()?;
        // While one checkpoint is written, the other is the only valid one.
        if whole_checkpoints(self.medium(device)).ok()? != [true, true] {
            return None;
        }
        let measures = Measures::of(&superblock);
        let head = |region| {
            let at = measures.block_byte(measures.checkpoint_block(region));
            let mut bytes = [0; 512];
            image.read(at, &mut bytes);
            let header = CheckpointHeader::parse(&bytes, &measures).ok()?;
            Some((header.serial.get(), at))
        };
        let newest = head(0)?.max(head(1)?);
        let mut image = image.clone();
        image.write(newest.1, &[0; 512]);
        Some(image)
    }

    fn check(&self, device: Arc<dyn Device>) -> Vec<String> {
        match check(self.medium(device), new_clock(), true) {
            Ok(checked) => checked.problems,
            Err(error) => vec![error.to_string()],
        }
    }

    fn device_bytes(&self) -> u64 {
        self.device_bytes
    }
}
