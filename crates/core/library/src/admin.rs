//! Interfaces for programs that administer volumes: the `varve` program, front ends,
//! measurements.
//!
//! A program that only uses files does not need this module. Most of its items are
//! defined by the layers below and change with them.

pub use crate::change::{NewSize, ResizeStage, Resized, resize, tune};
pub use crate::devices::{Superblock, layout_of, open_device, open_served, read_superblock};
pub use crate::format::{Progress, format};
pub use crate::host::{Holder, holder, identity, is_locked};
pub use crate::options::Tuning;
pub use crate::shipping::{Copy, ReplayEnd, Shipped, copy_of, replay, replay_on, ship};
pub use crate::signature::{Found, probe};
pub use crate::statistics::Statistics;
pub use crate::store::is_url;
pub use crate::tree::Tree;
pub use crate::verifier::{JobStatus, ScrubOptions, Verifier};
pub use varve_format::identity::{Tune, parse_uuid, random_uuid, uuid_text};
pub use varve_lfs::cleaner::Pace;
pub use varve_lfs::format::Mark;
pub use varve_lfs::policy::PolicyKind;
pub use varve_lfs::shipping::{Replayed, ShipError};

use crate::error::Result;
use crate::options::VolumeOptions;
use crate::volume::Volume;
use std::sync::Arc;
use varve_device::Device;

/// Makes a volume on any device and overwrites the content of the device.
///
/// # Errors
/// The same as [`VolumeOptions::create`].
pub fn format_on(device: Arc<dyn Device>, options: &VolumeOptions) -> Result<Superblock> {
    crate::format::format_device(device, options)
}

/// Opens the volume on any device: a simulated disk, a device that injects faults, an
/// array.
///
/// ```
/// use std::sync::Arc;
/// use varve::{Layout, VolumeOptions, admin};
/// use varve_device::MemoryDevice;
/// let device = Arc::new(MemoryDevice::new(32 << 20));
/// let mut options = VolumeOptions::new();
/// admin::format_on(device.clone(), options.layout(Layout::VirtualLog))?;
/// let volume = admin::open_on(device, &options)?;
/// assert_eq!(volume.layout(), Layout::VirtualLog);
/// # Ok::<(), varve::Error>(())
/// ```
///
/// # Errors
/// The same as [`VolumeOptions::open`].
pub fn open_on(device: Arc<dyn Device>, options: &VolumeOptions) -> Result<Volume> {
    Volume::open_on(device, options)
}

/// Returns the file system below a volume, for front ends that do not work by path.
///
/// ```
/// use varve::admin::{self, Statistics};
/// let volume = varve::Volume::in_memory(16 << 20)?;
/// let fs = admin::tree(&volume).log().expect("the default");
/// assert_eq!(Statistics::of(fs).layout.groups, 0);
/// # Ok::<(), varve::Error>(())
/// ```
pub fn tree(volume: &Volume) -> &Tree {
    volume.tree()
}

/// Returns the verification thread of a volume on the segmented log; scrubs are requested
/// from it. The thread runs only while the volume is open, and only if the volume was
/// opened with background threads.
pub fn verifier(volume: &Volume) -> &Arc<Verifier> {
    volume.mounted().running().verifier()
}
