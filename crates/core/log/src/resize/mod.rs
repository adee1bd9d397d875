//! Another size for a volume (`docs/design/resize.md`).
//!
//! Invariants:
//! - S1: no superblock copy ever says fewer segments than the primary.
//! - S2: in segments that one says and the primary does not, nothing lives, no
//!   retained record names them, and the usage table has nothing on them.
//! - The commit point is the write of the primary ([`crate::superblocks`]).
//!
//! The device has its new size before a volume grows, and gets it after a volume
//! has shrunk: that is the caller's.

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
use crate::lfs::{Lfs, MountOptions};
use crate::recovery::read_ring;
use crate::superblocks::{self, superblock_offsets};
use crate::tune::to_be_changed;
use std::sync::Arc;
use varve_device::size::Bytes;
use varve_device::{Clock, Device};

/// How a size is changed, and whom to tell how far it is.
pub struct ResizeOptions<'a> {
    /// Recorded in the owner record while what lives is moved.
    pub owner: OwnerIdentity,
    /// Fixes the mount's random identity, for reproducible runs.
    pub seed: Option<u64>,
    /// Called with the segments that have been emptied, and those that must be.
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

/// Gives a volume that nobody has mounted another size. A power cut leaves it with
/// the old size or the new one, and whole; the same call completes what was cut
/// short.
///
/// # Errors
/// `Unfit` for a size that cannot be, `DoesNotFit` for one that is too small for
/// what lives, `NoVolume` and what else a mount may say, device errors.
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

/// Writes the superblocks, if they do not say so already. What else an
/// interrupted change was going to change is completed.
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

/// Empties what is behind the new end, and sees to it that nothing names it.
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
    // What was moved is moved, whatever came of it.
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

/// Bytes of superblock copies that a volume has, which growing writes.
fn copy_bytes(superblock: &Superblock) -> u64 {
    superblock_offsets(superblock).count() as u64 * u64::from(superblock.write_unit.get())
}
