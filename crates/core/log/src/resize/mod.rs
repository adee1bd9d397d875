//! Changing the size of a volume (`docs/design/resize.md`).
//!
//! Invariants:
//! - S1: no superblock copy ever states fewer segments than the primary.
//! - S2: in segments that a copy states and the primary does not, there is no live data,
//!   no retained record names them, and the usage table has nothing on them.
//! - The commit point is the write of the primary ([`crate::superblocks`]).
//!
//! The caller changes the size of the device: before a volume grows, and after a volume
//! has shrunk.

mod evacuate;
mod online;
mod plan;
#[cfg(test)]
mod tests;

pub use online::Grown;
pub use plan::plan as plan_resize;

use crate::error::{Error, Result};
use crate::format::owner::OwnerIdentity;
use crate::format::superblock::incompat_flags;
use crate::format::{Malformed, Superblock};
use crate::geometry::Geometry;
use crate::heads::LogEnd;
use crate::lfs::Lfs;
use crate::options::MountOptions;
use crate::recovery::read_ring;
use crate::superblocks::{self, superblock_offsets};
use crate::tune::to_be_changed;
use std::sync::Arc;
use varve_device::size::Bytes;
use varve_device::{Clock, Device};

/// Options of a change of size.
pub struct ResizeOptions<'a> {
    /// Recorded in the owner record while live data is moved.
    pub owner: OwnerIdentity,
    /// Fixes the mount's random identity, for reproducible runs.
    pub seed: Option<u64>,
    /// Called with the number of segments emptied, and of those to be emptied.
    pub progress: &'a dyn Fn(u64, u64),
}

impl Default for ResizeOptions<'_> {
    fn default() -> Self {
        ResizeOptions {
            owner: OwnerIdentity::default(),
            seed: None,
            progress: &|_, _| {},
        }
    }
}

impl std::fmt::Debug for ResizeOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResizeOptions")
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// Changes the size of a volume that is not mounted. After a power cut it has the old
/// size or the new one, and is whole; the same call completes an interrupted change.
///
/// # Errors
/// `Unfit` for an impossible size, `DoesNotFit` for one that is too small for the live
/// data, `NoVolume` and other errors of a mount, device errors.
pub fn resize(
    device: &Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    bytes: u64,
    options: &ResizeOptions<'_>,
) -> Result<Superblock> {
    let found = superblocks::find(&**device)?;
    if let Some(reason) = found.disagreement {
        return Err(Error::Unfit(reason));
    }
    let present = found.superblock;
    let planned = plan::plan(&present, bytes)?;
    let size = device.geometry().size;
    if planned.device_bytes.get() > size {
        return Err(Error::Unfit(format!(
            "{} has {}, the volume would need {}",
            device.name(),
            Bytes(size),
            Bytes(planned.device_bytes.get())
        )));
    }
    if planned.segment_count < present.segment_count {
        shrink(device, clock, &planned, options)?;
    }
    commit(&**device, &present, &planned)
}

/// Writes the superblocks, unless they have these values already. Other changes of an
/// interrupted call are completed.
fn commit(device: &dyn Device, present: &Superblock, planned: &Superblock) -> Result<Superblock> {
    let before = to_be_changed(device)?;
    let shrunk = planned.incompat.get() & incompat_flags::SHRUNK;
    let superblock = Superblock {
        incompat: (before.incompat.get() | shrunk).into(),
        segment_count: planned.segment_count,
        reserve_segments: planned.reserve_segments,
        device_bytes: planned.device_bytes,
        ..before
    };
    if superblock.sealed_for(0) == present.sealed_for(0) && superblocks::agree(device, present) {
        return Ok(*present);
    }
    superblocks::replace(device, superblock)
}

/// Empties the segments beyond the new end, and ensures that nothing names them.
fn shrink(
    device: &Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    planned: &Superblock,
    options: &ResizeOptions<'_>,
) -> Result<()> {
    let mount = MountOptions {
        heads: 1,
        holes: false,
        seed: options.seed,
        owner: options.owner.clone(),
        ..MountOptions::default()
    };
    let lfs = Lfs::mount(Arc::clone(device), clock, mount)?;
    if let Some(reason) = lfs.stopped() {
        return Err(Error::Unfit(reason));
    }
    let emptied = lfs.empty_behind(planned, options.progress);
    // Moved data stays moved, even after an error.
    let unmounted = lfs.unmount();
    emptied.and(unmounted)?;
    let geometry = Geometry::from(planned);
    for record in read_ring(&**device, planned) {
        let fits = record
            .map_err(Error::from)
            .and_then(|record| LogEnd::from(&record.header).check(&geometry));
        if let Err(error) = fits {
            let problem = format!("a record does not fit the new size: {error}");
            return Err(Malformed::new("checkpoint ring", problem).into());
        }
    }
    Ok(())
}

/// Bytes of a volume's superblock copies, which growing writes.
fn copy_bytes(superblock: &Superblock) -> u64 {
    superblock_offsets(superblock).count() as u64 * u64::from(superblock.write_unit.get())
}
