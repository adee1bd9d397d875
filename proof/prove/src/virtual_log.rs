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
    /// How it is made.
    pub format: VlfsFormatOptions,
    /// How its layout is mounted.
    pub mount: VlfsMountOptions,
    /// How its tree is mounted.
    pub options: Options,
    /// Bytes of the device.
    pub device_bytes: u64,
    /// So many cylinders of a simulated drive are the device: near is by the
    /// head, and records lie among the data. 0: there is no drive.
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
    /// With units of a sector: inodes and records share blocks.
    pub fn with_small_units() -> Self {
        let mut subject = VirtualLog::default();
        subject.format.unit_bytes = 512;
        subject
    }

    /// So small that room is given up and reused all the time.
    pub fn small() -> Self {
        VirtualLog {
            device_bytes: 4 << 20,
            ..VirtualLog::default()
        }
    }

    /// As small as there are, with some 220 blocks for users: churn fills it
    /// again and again.
    pub fn least(self) -> Self {
        VirtualLog {
            device_bytes: 420 << 12,
            ..self
        }
    }

    /// With so few records of changes that they are taken all the time, and
    /// each fold is forced.
    pub fn with_slots(self, slots: u64) -> Self {
        let format = VlfsFormatOptions {
            slots: Some(slots),
            ..self.format
        };
        VirtualLog { format, ..self }
    }

    /// Inside a drive, of whose cylinders it has two.
    pub fn in_drive() -> Self {
        VirtualLog {
            cylinders: 2,
            device_bytes: drive(2).geometry.bytes(),
            ..VirtualLog::with_small_units()
        }
    }

    /// Inside a drive of about as many bytes.
    pub fn inside_a_drive(self) -> Self {
        let fits = |&cylinders: &u32| drive(cylinders).geometry.bytes() >= self.device_bytes;
        let cylinders = (2..1000).find(fits).unwrap_or(1000);
        VirtualLog {
            cylinders,
            device_bytes: drive(cylinders).geometry.bytes(),
            ..self
        }
    }

    /// How the small one is explored.
    pub fn churn(seed: u64) -> Plan {
        Plan {
            profile: Profile::churn(),
            may_be_full: true,
            units: vec![4096],
            ..Plan::quick(seed)
        }
    }

    /// How one with units of a sector is explored: short blocks take from one
    /// unit to all of a block.
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
            // Its time is its own: where the head is depends on the requests
            // since it was mounted, and on nothing else.
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
            // Stopped before it is done.
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

/// The compactor works, until it has moved so much or nothing is to be gained.
fn compact(system: &FileSystem<Vlfs>, most_units: u64) -> Result<()> {
    let layout = system.layout();
    if layout.stopped().is_some() {
        return Ok(());
    }
    layout.compact(most_units, &|_| true)?;
    Ok(())
}

/// The compactor finds what lives in a region, and moves it later: as if
/// another thread had come between.
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
        // While one is written the other is alone.
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
