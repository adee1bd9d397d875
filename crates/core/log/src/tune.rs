//! Another label or UUID for a volume that nobody has mounted.
//!
//! Only superblocks change: what tells the volume's structures from those of
//! others, its tag, stays (`docs/design/resize.md`).

use crate::error::{Error, Result};
use crate::format::Superblock;
use crate::format::superblock::{KNOWN_READ_ONLY_COMPAT, incompat_flags};
use crate::superblocks;
use varve_device::Device;
use varve_format::identity::{Tune, not_to_be_written, padded_label};
use zerocopy::little_endian::U64;

/// The superblock that an offline change begins with: of all whole copies one of
/// the highest generation, so that a change which was interrupted is completed.
///
/// # Errors
/// `NoVolume`, or `Unfit` if this program must not write the volume.
pub(crate) fn to_be_changed(device: &dyn Device) -> Result<Superblock> {
    let superblock = superblocks::newest(device)?;
    let unknown = superblock.read_only_compat.get() & !KNOWN_READ_ONLY_COMPAT;
    not_to_be_written(unknown).map_or(Ok(superblock), |reason| Err(Error::Unfit(reason)))
}

/// Changes the label or the UUID, or lets the volume have snapshots: their history is the
/// inode 0, which no volume has used, and inode map entries of older versions have the epoch 0.
/// A power cut leaves the old values or the new ones.
///
/// # Errors
/// `Unfit` for a label that is too long, `NoVolume`, or device errors.
pub fn tune(device: &dyn Device, tune: &Tune) -> Result<Superblock> {
    let mut superblock = to_be_changed(device)?;
    if let Some(label) = &tune.label {
        superblock.label = padded_label(label).map_err(Error::Unfit)?;
    }
    if let Some(uuid) = tune.uuid {
        superblock = superblock.with_uuid(uuid);
    }
    if tune.snapshots {
        superblock.incompat |= U64::new(incompat_flags::SNAPSHOTS);
    }
    let present = superblocks::find(device)?.superblock;
    if superblock.sealed_for(0) == present.sealed_for(0) {
        return Ok(present);
    }
    superblocks::replace(device, superblock)
}
