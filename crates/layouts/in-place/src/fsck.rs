//! The repair of a volume that is not mounted: a mount that examines everything
//! (`repair`), then the superblocks.

use crate::error::Result;
use crate::options::{Examine, FfsMountOptions};
use crate::repair::superblocks::mend;
use crate::{Ffs, FfsRecovery};
use std::sync::Arc;
use varve_device::{Clock, Device};

/// The result of a repair.
#[derive(Clone, Debug, Default)]
pub struct Repaired {
    /// Number of copies of the superblock that were rewritten.
    pub superblocks: u64,
    /// The findings, which were repaired.
    pub recovery: FfsRecovery,
}

/// Checks a volume that is not mounted, and repairs it.
///
/// # Errors
/// If no copy of the superblock is found, if the space does not suffice for the
/// repairs, or if the device fails.
pub fn repair(
    device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    options: FfsMountOptions,
) -> Result<Repaired> {
    let options = FfsMountOptions {
        read_only: false,
        examine: Examine::Always,
        ..options
    };
    let volume = Ffs::mount(Arc::clone(&device), clock, options)?;
    volume.writable()?;
    // The copies are rewritten only now, because they might belong to another volume.
    let superblocks = mend(&*device, volume.superblock())?;
    volume.unmount()?;
    Ok(Repaired {
        superblocks,
        recovery: volume.recovery.clone(),
    })
}
