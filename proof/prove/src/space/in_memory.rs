//! Volumes in memory, served within this process.

use super::Wrong;
use super::served::{Served, Service, Volume};
use crate::mounted::{Mounted, Subject, Tree};
use crate::runner::new_clock;
use std::sync::Arc;
use varve_device::{MemoryDevice, VirtualClock};
use varve_fs::{InodeNo, Result};

/// A volume, and its service.
pub struct InMemory {
    device: Arc<MemoryDevice>,
    /// One clock for all mounts, so that time never goes back.
    clock: Arc<VirtualClock>,
    subject: Box<dyn Fn(Service) -> Box<dyn Subject> + Send + Sync>,
}

impl InMemory {
    /// Makes a volume of the subject that `subject` returns for a service.
    ///
    /// # Errors
    /// The reason of the failure.
    pub fn make(
        subject: impl Fn(Service) -> Box<dyn Subject> + Send + Sync + 'static,
    ) -> std::result::Result<Box<dyn Volume>, Wrong> {
        let made = subject(Service::default());
        let device = Arc::new(MemoryDevice::new(made.device_bytes()));
        let clock = new_clock();
        let formatted = made.format(device.clone(), clock.clone());
        formatted.map_err(|error| format!("mkfs: {error}"))?;
        Ok(Box::new(InMemory {
            device,
            clock,
            subject: Box::new(subject),
        }))
    }
}

impl Volume for InMemory {
    fn serve(&self, service: Service, nth: u64) -> std::result::Result<Box<dyn Served>, Wrong> {
        let subject = (self.subject)(service);
        let mounted = subject.mount(self.device.clone(), self.clock.clone(), nth);
        let mounted = mounted.map_err(|error| format!("mount: {error}"))?;
        match mounted.damage() {
            damage if damage.is_empty() => Ok(Box::new(mounted)),
            damage => Err(format!("mount: {damage:?}")),
        }
    }

    fn check(&self) -> Vec<String> {
        (self.subject)(Service::default()).check(self.device.clone())
    }
}

impl Served for Box<dyn Mounted> {
    fn tree(&self) -> &dyn Tree {
        &**self
    }

    fn block_bytes(&self) -> u32 {
        self.measures().0
    }

    fn attribute_bytes(&self) -> usize {
        (**self).attribute_bytes()
    }

    fn step(&self) -> Result<()> {
        self.write_back().map(drop)
    }

    fn pause(&self, which: u64) -> (&'static str, Result<()>) {
        match which % 7 {
            0 => ("sync", self.sync()),
            1 => ("write-back", self.write_back().map(drop)),
            2 => ("maintenance", self.maintain()),
            3 => ("a checkpoint", self.checkpoint()),
            4 => ("a checkpoint of the layout", self.layout_checkpoint()),
            5 => ("cleaning", self.clean()),
            _ => {
                self.drop_caches();
                ("listing", self.readdir(InodeNo::ROOT, 0, 64).map(drop))
            }
        }
    }

    fn settle(&self) -> std::result::Result<bool, Wrong> {
        let told = |what: &'static str| move |error| format!("{what}: {error}");
        self.sync().map_err(told("sync"))?;
        while self.write_back().map_err(told("write-back"))? {}
        self.checkpoint().map_err(told("checkpoint"))?;
        self.maintain().map_err(told("maintenance"))?;
        Ok(true)
    }

    fn unmount(self: Box<Self>) -> std::result::Result<(), Wrong> {
        let ended = (**self).unmount();
        ended.map_err(|error| format!("unmount: {error}"))
    }
}
