//! Superblock copies: which counts, and writing the others.

use std::io::IoSlice;
use varve_device::Device;
use varve_lfs::format::Superblock;
use varve_lfs::{Lfs, Result, superblock_offsets};
use zerocopy::IntoBytes;

/// The superblock that counts: of the whole copies of one volume, one of the
/// highest generation. Copies of another volume, left by an mkfs that never
/// finished or that came before, do not count.
///
/// # Errors
/// `NoVolume` if no copy is whole.
pub(crate) fn newest(device: &dyn Device) -> Result<Superblock> {
    let mut newest = Lfs::find_superblock(device)?;
    let size = device.geometry().size;
    let mut bytes = vec![0; newest.write_unit.get() as usize];
    for offset in superblock_offsets(&newest) {
        if device.read(offset, &mut bytes).is_err() {
            continue;
        }
        if let Ok(copy) = Superblock::parse(&bytes, offset / 512)
            && copy.uuid == newest.uuid
            && copy.generation.get() > newest.generation.get()
            && copy.device_bytes.get() <= size
            && copy.write_unit == newest.write_unit
        {
            newest = copy;
        }
    }
    Ok(newest)
}

/// Writes the copies at these byte addresses. Each is one write unit; that of
/// the primary comes last, after a flush, as at mkfs.
///
/// # Errors
/// If the device fails.
pub(crate) fn write(device: &dyn Device, superblock: &Superblock, offsets: &[u64]) -> Result<()> {
    let mut bytes = vec![0; superblock.write_unit.get() as usize];
    let mut offsets = offsets.to_vec();
    offsets.sort_unstable();
    for &offset in offsets.iter().rev() {
        let sealed = superblock.sealed_for(offset / 512);
        bytes[..512].copy_from_slice(sealed.as_bytes());
        if offset == 0 {
            device.flush()?;
        }
        device.write(offset, &[IoSlice::new(&bytes)])?;
    }
    device.flush()?;
    Ok(())
}
