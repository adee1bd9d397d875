//! A repair of a volume that nobody has mounted: a mount that examines everything
//! (`repair`), then its superblocks.

use crate::error::Result;
use crate::options::{Examine, FfsMountOptions};
use crate::repair::superblocks::mend;
use crate::{Ffs, FfsRecovery};
use std::sync::Arc;
use varve_device::{Clock, Device};

/// What a repair has done.
#[derive(Clone, Debug, Default)]
pub struct Repaired {
    /// Copies of the superblock that were written again.
    pub superblocks: u64,
    /// What was found and mended.
    pub recovery: FfsRecovery,
}

/// Checks a volume that nobody has mounted, and repairs it.
///
/// # Errors
/// If there is no superblock in any place, no room for what has to be written, or the
/// device fails.
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
    // Not before the rest has been looked at: it may be another volume's.
    let superblocks = mend(&*device, volume.superblock())?;
    volume.unmount()?;
    Ok(Repaired {
        superblocks,
        recovery: volume.recovery.clone(),
    })
}
