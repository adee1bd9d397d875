//! The medium of a virtual log disk: an image, memory, or a simulated drive over one of
//! the two.

use crate::cli::output::Failure;
use std::path::Path;
use std::sync::Arc;
use varve_device::{Device, Geometry, IoMode, MemoryDevice, OpenMode, VirtualClock};
use varve_disk::{Drive, SimulatedDisk, drives};
use varve_vlog::{InDrive, InOrder, Medium};

/// The clap parser of a drive's name.
pub fn drive(name: &str) -> Result<Drive, String> {
    drives::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = drives::all().iter().map(|drive| drive.name).collect();
        format!("there are: {}", names.join(", "))
    })
}

/// A simulated drive, and its clock.
#[derive(Debug, Clone)]
pub struct Simulation {
    pub drive: Drive,
    pub clock: Arc<VirtualClock>,
}

impl Simulation {
    pub fn new(drive: Drive) -> Self {
        let clock = Arc::new(VirtualClock::new(0, 0));
        Simulation { drive, clock }
    }

    fn over<D: Device>(&self, inner: D) -> Arc<SimulatedDisk<D>> {
        let clock = Arc::clone(&self.clock);
        // The platter begins at the same phase each time, so runs can be repeated.
        Arc::new(SimulatedDisk::over(inner, self.drive.clone(), clock, 1))
    }
}

/// Opens an image or block device, for discards as well if `discard` is set.
pub fn open_image(
    path: &Path,
    read_only: bool,
    io: IoMode,
    discard: bool,
) -> Result<Arc<dyn Device>, Failure> {
    let mode = match read_only {
        true => OpenMode::ReadOnly,
        false => OpenMode::ReadWrite,
    };
    Ok(varve::admin::open_served(path, mode, io, discard)?)
}

/// Memory for the `size` bytes of a drive, in whole blocks; the contents are lost at the
/// end.
pub fn memory(size: u64) -> MemoryDevice {
    MemoryDevice::with_geometry(Geometry {
        size: size / 4096 * 4096,
        // A drive writes single sectors.
        logical_block: 512,
        physical_block: 512,
    })
}

/// The medium for a virtual log disk.
pub fn for_log<D: Device + 'static>(bytes: D, simulation: Option<&Simulation>) -> Arc<dyn Medium> {
    match simulation {
        Some(simulation) => Arc::new(InDrive(simulation.over(bytes))),
        None => Arc::new(InOrder(bytes)),
    }
}

/// The medium itself as a device: blocks stay in their places.
pub fn plain<D: Device + 'static>(bytes: D, simulation: Option<&Simulation>) -> Arc<dyn Device> {
    match simulation {
        Some(simulation) => simulation.over(bytes),
        None => Arc::new(bytes),
    }
}
