//! Another label or UUID for a volume that nobody has mounted.
//!
//! The copy in the last block is written first, then, after a flush, the first
//! block: the commit point. If the power goes while that is written, the copy
//! takes its place. The tag of all other structures stays (`docs/resize.md`).

use crate::Vlfs;
use crate::error::{Error, Result};
use crate::format::{Measures, Superblock};
use std::io::IoSlice;
use varve_device::Device;
use varve_format::identity::padded_label;
use zerocopy::IntoBytes;

/// What is to change.
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// Name for people, at most 64 bytes of UTF-8.
    pub label: Option<String>,
    /// Identity.
    pub uuid: Option<[u8; 16]>,
}

/// Changes the label or the UUID. A power cut leaves the old ones or the new
/// ones.
///
/// # Errors
/// `Unfit` for a label that is too long or a volume that this program must not
/// write, `NoVolume`, or device errors.
pub fn tune(device: &dyn Device, tuning: &Tuning) -> Result<Superblock> {
    let present = Vlfs::find_superblock(device)?;
    let unknown = present.read_only_compat.get();
    if unknown != 0 {
        return Err(Error::Unfit(format!(
            "the volume uses features {unknown:#x} that this program can only read"
        )));
    }
    let mut superblock = present;
    if let Some(label) = &tuning.label {
        superblock.label = padded_label(label).map_err(Error::Unfit)?;
    }
    if let Some(uuid) = tuning.uuid {
        superblock = superblock.with_uuid(uuid);
    }
    let superblock = superblock.sealed();
    if superblock.as_bytes() == present.as_bytes() {
        return Ok(present);
    }
    let measures = Measures::of(&superblock);
    let mut bytes = vec![0; measures.block_bytes as usize];
    bytes[..512].copy_from_slice(superblock.as_bytes());
    for block in [measures.last_block(), 0] {
        device.write(measures.block_byte(block), &[IoSlice::new(&bytes)])?;
        device.flush()?;
    }
    Ok(superblock)
}
