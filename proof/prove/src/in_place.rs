//! FFS as a subject: the layout that updates in place.

use crate::explorer::Plan;
use crate::generator::Profile;
use crate::mounted::{Extras, Handle, Mounted, Subject};
use crate::runner::new_clock;
use crate::subjects::options;
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::{Clock, Device, Geometry};
use varve_ffs::allocate::{Fit, Policy};
use varve_ffs::format::Metadata;
use varve_ffs::{Ffs, FfsFormatOptions, FfsMountOptions, Repaired, check, format, repair};
use varve_fs::{FileSystem, Options, Result};

/// A volume that is updated in place.
#[derive(Clone, Debug)]
pub struct InPlace {
    /// Options for its creation.
    pub format: FfsFormatOptions,
    /// Mount options of its layout.
    pub mount: FfsMountOptions,
    /// Mount options of its tree.
    pub options: Options,
    /// Bytes of the device.
    pub device_bytes: u64,
    /// True if the device writes single sectors.
    pub sectors: bool,
}

impl Default for InPlace {
    fn default() -> Self {
        InPlace {
            format: FfsFormatOptions {
                seed: Some(1),
                group_blocks: 512,
                ..FfsFormatOptions::default()
            },
            mount: FfsMountOptions {
                cache_bytes: 1 << 20,
                ..FfsMountOptions::default()
            },
            options: options(),
            device_bytes: 8 << 20,
            sectors: false,
        }
    }
}

impl InPlace {
    /// Returns a subject with fragments of a sector, in which tails of files share
    /// blocks.
    pub fn with_fragments() -> Self {
        InPlace {
            sectors: true,
            ..InPlace::default()
        }
    }

    /// Selects metadata updates in place, in the order that makes a check sufficient.
    pub fn ordered(mut self) -> Self {
        self.format.metadata = Metadata::Synchronous;
        self
    }

    /// Selects metadata updates in place, in any order.
    pub fn unordered(mut self) -> Self {
        self.format.metadata = Metadata::Asynchronous;
        self
    }

    /// Returns a subject with an allocation policy other than FFS's own; blocks are not
    /// divided.
    pub fn with_policy(policy: Policy) -> Self {
        let mut subject = InPlace::default();
        subject.format.policy = policy;
        subject
    }

    /// Returns one subject per other policy, in small sizes: extents of a few blocks,
    /// buddies, blocks of 1, 2 and 8 in regions, a shuffled list, and FFS with gaps.
    pub fn of_every_policy() -> Vec<Self> {
        let policies = [
            Policy::Extents {
                fit: Fit::First,
                sizes: vec![3, 9],
            },
            Policy::Extents {
                fit: Fit::Best,
                sizes: vec![5],
            },
            Policy::Buddy,
            Policy::Restricted {
                sizes: vec![1, 2, 8],
                grow: 1,
                region: Some(64),
            },
            Policy::Fixed { shuffled: Some(3) },
            Policy::Fixed { shuffled: None },
            Policy::named("ffs-m8r2").expect("a name of the papers"),
        ];
        policies.map(InPlace::with_policy).into()
    }

    /// Returns a subject so small that space is freed and reused all the time.
    pub fn small(self) -> Self {
        let mut subject = self;
        subject.device_bytes = 3 << 20;
        subject.format.group_blocks = 160;
        subject
    }

    /// Returns the plan for the small subject.
    pub fn churn(seed: u64) -> Plan {
        let mut plan = Plan {
            profile: Profile::churn(),
            may_be_full: true,
            units: vec![4096],
            ..Plan::quick(seed)
        };
        plan.profile.tails = true;
        plan
    }

    /// Repairs the volume on a device, and returns the findings of a check afterwards.
    ///
    /// # Errors
    /// If it cannot be repaired.
    pub fn repair(&self, device: Arc<dyn Device>) -> Result<Vec<String>> {
        self.repaired(Arc::clone(&device))?;
        Ok(self.check(device))
    }

    /// Repairs the volume on a device, and returns the report.
    ///
    /// # Errors
    /// If it cannot be repaired.
    pub fn repaired(&self, device: Arc<dyn Device>) -> Result<Repaired> {
        let options = FfsMountOptions {
            seed: Some(7),
            ..self.mount.clone()
        };
        Ok(repair(self.device(device), new_clock(), options)?)
    }

    fn device(&self, device: Arc<dyn Device>) -> Arc<dyn Device> {
        match self.sectors {
            true => Arc::new(Sectors(device)),
            false => device,
        }
    }

    fn mount_as(
        &self,
        device: Arc<dyn Device>,
        clock: Arc<dyn Clock>,
        seed: u64,
        read_only: bool,
    ) -> Result<Box<dyn Mounted>> {
        let mount = FfsMountOptions {
            seed: Some(seed),
            read_only,
            ..self.mount.clone()
        };
        let layout = Ffs::mount(self.device(device), Arc::clone(&clock), mount)?;
        let system = FileSystem::mount(Arc::new(layout), clock, self.options.clone())?;
        let extras: Extras<Ffs> = Extras {
            unmount: |system| Ok(system.layout().unmount()?),
            damage: |system| system.layout().recovery_report().losses.clone(),
            ..Extras::default()
        };
        Ok(Box::new(Handle::new(system, extras)))
    }
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

impl Subject for InPlace {
    fn format(&self, device: Arc<dyn Device>, clock: Arc<dyn Clock>) -> Result<()> {
        let device = self.device(device);
        format(&*device, &*clock, &self.format)?;
        let mount = FfsMountOptions {
            seed: Some(0),
            ..self.mount.clone()
        };
        let layout = Ffs::mount(device, Arc::clone(&clock), mount)?;
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

    fn check(&self, device: Arc<dyn Device>) -> Vec<String> {
        match check(self.device(device), new_clock(), true) {
            Ok(checked) => checked.problems,
            Err(error) => vec![error.to_string()],
        }
    }

    fn device_bytes(&self) -> u64 {
        self.device_bytes
    }
}
