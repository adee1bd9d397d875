//! The superblock and its copies: in the first block, in the last one, and at the head
//! of each cylinder group.

use crate::error::{Error, Result};
use crate::format::{Geometry, MAGIC, Superblock};
use crate::replay::{find_superblock, newest_head, superblock_at};
use std::io::IoSlice;
use varve_device::Device;
use varve_format::Malformed;
use varve_format::identity::not_to_be_written;
use zerocopy::IntoBytes;

/// Number of bytes that are read at once.
const WINDOW_BYTES: u64 = 1 << 20;
/// Smallest block size, in bytes: copies begin at multiples of it.
const STEP_BYTES: u64 = 4096;

/// Finds the superblock, if necessary by a search of the whole device.
pub(crate) fn find(device: &dyn Device) -> Result<Superblock> {
    match find_superblock(device) {
        Ok(found) => Ok(found),
        Err(error) => search(device)?.ok_or(error),
    }
}

/// Searches the whole device for copies at the heads of cylinder groups. Copies of an
/// earlier volume do not count, because its journal heads are overwritten.
///
/// # Errors
/// `NoVolume` if copies that count differ.
pub fn search(device: &dyn Device) -> Result<Option<Superblock>> {
    let size = device.geometry().size / STEP_BYTES * STEP_BYTES;
    let mut window = vec![0; WINDOW_BYTES as usize];
    let mut found: Option<Superblock> = None;
    for begin in (0..size).step_by(WINDOW_BYTES as usize) {
        let length = WINDOW_BYTES.min(size - begin);
        let bytes = &mut window[..length as usize];
        read_what_can_be(device, begin, bytes);
        let parts = bytes.chunks(STEP_BYTES as usize);
        for (at, part) in (begin..).step_by(STEP_BYTES as usize).zip(parts) {
            let Some(copy) = copy_at(device, at, part) else {
                continue;
            };
            if found.is_some_and(|found| found.as_bytes() != copy.as_bytes()) {
                return Err(Error::NoVolume {
                    device: device.name(),
                    reason: Malformed::new("superblock", "copies are left that differ"),
                });
            }
            found = Some(copy);
        }
    }
    Ok(found)
}

/// Reads bytes, with zeros in place of blocks that cannot be read.
fn read_what_can_be(device: &dyn Device, begin: u64, bytes: &mut [u8]) {
    if device.read(begin, bytes).is_ok() {
        return;
    }
    let parts = bytes.chunks_mut(STEP_BYTES as usize);
    for (at, part) in (begin..).step_by(STEP_BYTES as usize).zip(parts) {
        if device.read(at, part).is_err() {
            part.fill(0);
        }
    }
}

/// Returns the copy at this address, if it belongs to a volume with valid journal
/// heads.
fn copy_at(device: &dyn Device, at: u64, bytes: &[u8]) -> Option<Superblock> {
    if !bytes.starts_with(&MAGIC) {
        return None;
    }
    let copy = superblock_at(device, at).ok()?.ok()?;
    let geometry = Geometry::of(&copy);
    let is_in_place = copies(&geometry).any(|block| geometry.block_byte(block) == at);
    (is_in_place && newest_head(device, &geometry).is_ok()).then_some(copy)
}

/// Returns the blocks of the copies. The first block is last, because its copy is the
/// one that counts.
fn copies(geometry: &Geometry) -> impl Iterator<Item = u64> + use<> {
    let geometry = *geometry;
    let groups = (0..geometry.groups()).map(move |group| geometry.group_block(group));
    groups.chain([geometry.last_block(), 0])
}

/// Returns the byte addresses of the copies that differ from this superblock, and the
/// reason for each.
pub(crate) fn differing(device: &dyn Device, superblock: &Superblock) -> Vec<(u64, String)> {
    let geometry = Geometry::of(superblock);
    let problem = |at: u64| match superblock_at(device, at) {
        Ok(Ok(found)) if found.as_bytes() == superblock.as_bytes() => None,
        Ok(Ok(_)) => Some("it differs from the one in use".to_owned()),
        Ok(Err(problem)) => Some(problem.to_string()),
        Err(error) => Some(error.to_string()),
    };
    let all = copies(&geometry).map(|block| geometry.block_byte(block));
    all.filter_map(|at| Some((at, problem(at)?))).collect()
}

/// Rewrites the copies that differ from this superblock. Returns their number.
pub(crate) fn mend(device: &dyn Device, superblock: &Superblock) -> Result<u64> {
    let geometry = Geometry::of(superblock);
    if not_to_be_written(superblock.read_only_compat.get()).is_some() {
        return Ok(0);
    }
    let mut bytes = vec![0; geometry.block_bytes as usize];
    bytes[..512].copy_from_slice(superblock.as_bytes());
    let differing = differing(device, superblock);
    for &(at, _) in &differing {
        device.write(at, &[IoSlice::new(&bytes)])?;
    }
    if !differing.is_empty() {
        device.flush()?;
    }
    Ok(differing.len() as u64)
}
