//! The superblock and its copies: in the first block, in the last one, and at the head
//! of each cylinder group.

use crate::error::Result;
use crate::format::{Geometry, MAGIC, Superblock};
use crate::replay::{find_superblock, superblock_at};
use std::io::IoSlice;
use varve_device::Device;
use varve_format::identity::not_to_be_written;
use zerocopy::IntoBytes;

/// Bytes looked at at once.
const WINDOW_BYTES: u64 = 1 << 20;
/// Blocks are at least so large: copies begin at multiples.
const STEP_BYTES: u64 = 4096;

/// The superblock, wherever it is found.
pub(crate) fn find(device: &dyn Device) -> Result<Superblock> {
    find_superblock(device).or_else(|error| search(device).ok_or(error))
}

/// Reads the device until a copy at the head of a cylinder group is found.
pub fn search(device: &dyn Device) -> Option<Superblock> {
    let size = device.geometry().size / STEP_BYTES * STEP_BYTES;
    let mut window = vec![0; WINDOW_BYTES as usize];
    for begin in (0..size).step_by(WINDOW_BYTES as usize) {
        let length = WINDOW_BYTES.min(size - begin);
        let bytes = &mut window[..length as usize];
        if device.read(begin, bytes).is_err() {
            // Perhaps one block of it can not.
            bytes.fill(0);
            for (at, part) in (begin..)
                .step_by(STEP_BYTES as usize)
                .zip(bytes.chunks_mut(4096))
            {
                if device.read(at, part).is_err() {
                    part.fill(0);
                }
            }
        }
        for (at, part) in (begin..)
            .step_by(STEP_BYTES as usize)
            .zip(bytes.chunks(4096))
        {
            if part.starts_with(&MAGIC)
                && let Ok(Ok(found)) = superblock_at(device, at)
                && copies(&Geometry::of(&found))
                    .any(|block| Geometry::of(&found).block_byte(block) == at)
            {
                return Some(found);
            }
        }
    }
    None
}

/// The blocks that have a copy; the first one counts, so it comes last.
fn copies(geometry: &Geometry) -> impl Iterator<Item = u64> + use<> {
    let geometry = *geometry;
    let groups = (0..geometry.groups()).map(move |group| geometry.group_block(group));
    groups.chain([geometry.last_block(), 0])
}

/// Writes the copies that are not this one. Answers how many.
pub(crate) fn mend(device: &dyn Device, superblock: &Superblock) -> Result<u64> {
    let geometry = Geometry::of(superblock);
    if not_to_be_written(superblock.read_only_compat.get()).is_some() {
        return Ok(0);
    }
    let mut bytes = vec![0; geometry.block_bytes as usize];
    bytes[..512].copy_from_slice(superblock.as_bytes());
    let mut written = 0;
    for block in copies(&geometry) {
        let at = geometry.block_byte(block);
        let same = matches!(
            superblock_at(device, at),
            Ok(Ok(found)) if found.as_bytes() == superblock.as_bytes()
        );
        if !same {
            device.write(at, &[IoSlice::new(&bytes)])?;
            written += 1;
        }
    }
    if written > 0 {
        device.flush()?;
    }
    Ok(written)
}
