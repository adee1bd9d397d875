//! The medium of a virtual log disk: a device, and a notion of nearness.
//!
//! On a simulated drive the log runs inside of the drive: it knows the position of the
//! head and the phase of the platter, and the host pays for one command, however many
//! requests follow from it. On any other device "near" means the next place in order.

use std::fmt::Debug;
use std::io::IoSlice;
use std::sync::Arc;

use varve_device::{Clock, Device, Geometry, Result, SECTOR};
use varve_disk::{Drive, SimulatedDisk, TrackId};

pub use varve_disk::Access;

use crate::free_space::Regions;

/// Number of blocks in a region of a device without tracks.
const EVEN_REGION: u32 = 64;

/// The position of the head at one moment.
#[derive(Debug, Clone)]
pub struct HeadPosition {
    /// The drive of the head.
    pub drive: Arc<Drive>,
    /// The track that the head is over.
    pub track: TrackId,
    /// The platter's time, from which [`varve_disk::Rotation`] computes its phase.
    pub platter_ns: u64,
}

/// A device with a notion of nearness.
pub trait Medium: Device {
    /// Announces a command of the host, once for each, before its requests.
    fn command(&self, access: Access) {
        let _ = access;
    }

    /// Announces the data of a write, which the host sends, before its requests.
    fn receive(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Announces the data of a read, which the host receives, after its requests. The
    /// read began at `begun_ns` of [`Medium::now_ns`].
    fn deliver(&self, begun_ns: u64, bytes: u64) {
        let _ = (begun_ns, bytes);
    }

    /// Returns the position of the head; `None` if the device does not know it.
    fn head(&self) -> Option<HeadPosition> {
        None
    }

    /// Returns the regions of the first `blocks` blocks of `block_bytes` bytes.
    fn regions(&self, blocks: u32, block_bytes: u32) -> Regions {
        let _ = block_bytes;
        Regions::even(blocks, EVEN_REGION)
    }

    /// Returns the virtual time, which limits idle work; `None` without a clock.
    fn now_ns(&self) -> Option<u64> {
        None
    }
}

/// Any device as a medium: the nearest place is the next one.
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

/// A simulated drive as a medium, for code that runs inside of the drive.
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

/// Returns one region for each track of a drive, for the first `blocks` blocks.
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
