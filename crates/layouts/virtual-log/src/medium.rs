//! What a virtual log disk stands on: a device, and what is near on it.
//!
//! On a simulated drive the log runs inside: it knows the head's place and the
//! platter's phase, and the host pays for one command, however many requests
//! follow from it. On any other device "near" means the next place in order.

use std::fmt::Debug;
use std::io::IoSlice;
use std::sync::Arc;

use varve_device::{Clock, Device, Geometry, Result, SECTOR};
use varve_disk::{Drive, SimulatedDisk, TrackId};

pub use varve_disk::Access;

use crate::free_space::Regions;

/// Blocks of a region where there are no tracks.
const EVEN_REGION: u32 = 64;

/// Where the head is, at one moment.
#[derive(Debug, Clone)]
pub struct HeadPosition {
    /// The drive it belongs to.
    pub drive: Arc<Drive>,
    /// The track it is over.
    pub track: TrackId,
    /// The platter's time: its phase is what [`varve_disk::Rotation`] makes of it.
    pub platter_ns: u64,
}

/// A device with a notion of nearness.
pub trait Medium: Device {
    /// Called once for each command of the host, before its requests.
    fn command(&self, access: Access) {
        let _ = access;
    }

    /// Called with the data of a write, before its requests: it comes from the
    /// host.
    fn receive(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Called after the requests of a read that began at `begun_ns` of
    /// [`Medium::now_ns`]: its data goes to the host.
    fn deliver(&self, begun_ns: u64, bytes: u64) {
        let _ = (begun_ns, bytes);
    }

    /// Where the head is now; `None` if the device does not say.
    fn head(&self) -> Option<HeadPosition> {
        None
    }

    /// The regions of the first `blocks` blocks of `block_bytes` bytes.
    fn regions(&self, blocks: u32, block_bytes: u32) -> Regions {
        let _ = block_bytes;
        Regions::even(blocks, EVEN_REGION)
    }

    /// Virtual time, for idle work that has a limit; `None` without a clock.
    fn now_ns(&self) -> Option<u64> {
        None
    }
}

/// Any device: near is next.
#[derive(Debug)]
pub struct InOrder<D: Device>(pub D);

impl<D: Device> Device for InOrder<D> {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        self.0.write(offset, buffers)
    }

    fn read_many(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        self.0.read_many(reads)
    }

    fn write_many(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.0.write_many(writes)
    }

    fn flush(&self) -> Result<()> {
        self.0.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.0.discard(offset, length)
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

impl<D: Device> Medium for InOrder<D> {}

/// A simulated drive, from inside.
#[derive(Debug)]
pub struct InDrive<D: Device>(pub Arc<SimulatedDisk<D>>);

impl<D: Device> Device for InDrive<D> {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.inside().read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        self.0.inside().write(offset, buffers)
    }

    fn flush(&self) -> Result<()> {
        self.0.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.0.discard(offset, length)
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

impl<D: Device> Medium for InDrive<D> {
    fn command(&self, access: Access) {
        self.0.command(access);
    }

    fn receive(&self, bytes: u64) {
        self.0.receive(bytes);
    }

    fn deliver(&self, begun_ns: u64, bytes: u64) {
        self.0.deliver(begun_ns, bytes);
    }

    fn head(&self) -> Option<HeadPosition> {
        Some(self.0.look(|mechanism, now_ns| HeadPosition {
            drive: Arc::clone(mechanism.drive()),
            track: mechanism.track(),
            platter_ns: mechanism.platter_ns(now_ns.max(mechanism.free_ns())),
        }))
    }

    fn regions(&self, blocks: u32, block_bytes: u32) -> Regions {
        self.0
            .look(|mechanism, _| tracks(mechanism.drive(), blocks, block_bytes))
    }

    fn now_ns(&self) -> Option<u64> {
        Some(self.0.clock().monotonic_ns())
    }
}

macro_rules! forward {
    ($pointer:ident) => {
        impl<M: Medium + ?Sized> Medium for $pointer<M> {
            fn command(&self, access: Access) {
                (**self).command(access);
            }

            fn receive(&self, bytes: u64) {
                (**self).receive(bytes);
            }

            fn deliver(&self, begun_ns: u64, bytes: u64) {
                (**self).deliver(begun_ns, bytes);
            }

            fn head(&self) -> Option<HeadPosition> {
                (**self).head()
            }

            fn regions(&self, blocks: u32, block_bytes: u32) -> Regions {
                (**self).regions(blocks, block_bytes)
            }

            fn now_ns(&self) -> Option<u64> {
                (**self).now_ns()
            }
        }
    };
}

forward!(Arc);
forward!(Box);

/// A region for each track of a drive, as far as `blocks` blocks reach.
pub fn tracks(drive: &Drive, blocks: u32, block_bytes: u32) -> Regions {
    let block_sectors = u64::from(block_bytes) / SECTOR;
    let geometry = &drive.geometry;
    let mut starts = Vec::new();
    'all: for cylinder in 0..geometry.cylinders() {
        for head in 0..geometry.heads() {
            let track = geometry.track(TrackId { cylinder, head });
            let start = track.first_sector.div_ceil(block_sectors);
            if start >= u64::from(blocks) {
                break 'all;
            }
            starts.push(start as u32);
        }
    }
    Regions::new(starts, blocks)
}
