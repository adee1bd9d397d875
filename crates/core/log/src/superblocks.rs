//! Copies of the superblock: which one counts, and writing them.
//!
//! Invariants (`docs/design/resize.md`):
//! - The primary counts if it is whole.
//! - S1: every copy says at least as many segments as the primary. So [`replace`]
//!   writes the primary last, unless the volume shrinks.
//! - The commit point is the write of the primary, one write unit.

use crate::error::{Error, Result};
use crate::format::{Malformed, SECTOR, Superblock};
use crate::geometry::Geometry;
use std::io::IoSlice;
use varve_device::Device;
use zerocopy::IntoBytes;

/// Copies that are looked at where the primary is damaged, beside the last.
const LOOKED_AT: usize = 64;

/// A superblock, and what is to be known of it.
#[derive(Clone, Debug)]
pub struct FoundSuperblock {
    /// The one that counts.
    pub superblock: Superblock,
    /// It took the place of a damaged primary, and copies are of several
    /// generations: why the volume must not be written.
    pub disagreement: Option<String>,
}

/// Byte addresses of every superblock copy, the primary first.
pub fn superblock_offsets(superblock: &Superblock) -> impl Iterator<Item = u64> + use<> {
    let geometry = Geometry::from(superblock);
    let last = superblock.device_bytes.get() - u64::from(geometry.write_unit);
    let in_segments = (0..geometry.segment_count)
        .step_by(geometry.copy_stride as usize)
        .map(move |segment| geometry.byte(segment, 0));
    std::iter::once(0)
        .chain(in_segments)
        .chain(std::iter::once(last))
}

/// Bytes that hold a copy on this device at least.
fn unit_of(device: &dyn Device) -> u64 {
    u64::from(device.geometry().logical_block).max(4096)
}

fn read(device: &dyn Device, offset: u64) -> std::result::Result<Superblock, Malformed> {
    let mut bytes = vec![0; unit_of(device) as usize];
    device
        .read(offset, &mut bytes)
        .map_err(|error| Malformed::new("superblock", error.to_string()))?;
    Superblock::parse(&bytes, offset / SECTOR)
}

fn no_volume(device: &dyn Device, reason: Malformed) -> Error {
    let device = device.name();
    Error::NoVolume { device, reason }
}

/// The superblock that counts, and whether the volume may be written.
///
/// # Errors
/// `NoVolume` says why the primary was refused.
pub fn find(device: &dyn Device) -> Result<FoundSuperblock> {
    let size = device.geometry().size;
    let unit = unit_of(device);
    if size < 2 * unit {
        let problem = format!("the device has only {size} bytes");
        return Err(no_volume(device, Malformed::new("superblock", problem)));
    }
    // Once more before a copy takes its place.
    let reason = match read(device, 0).or_else(|_| read(device, 0)) {
        Ok(superblock) => {
            check_size(device, &superblock)?;
            return Ok(FoundSuperblock {
                superblock,
                disagreement: None,
            });
        }
        Err(reason) => reason,
    };
    // The last unit of the device, then every megabyte: copies stand at
    // the start of segments, which are aligned to that or finer.
    let last = (size / unit - 1) * unit;
    let candidates = std::iter::once(last)
        .chain((1..64).map(|i| i * (64 << 10)))
        .chain((1..size >> 20).map(|i| i << 20).take(1 << 16))
        .filter(|offset| offset + unit <= size);
    let mut too_large = None;
    for offset in candidates {
        let Ok(copy) = read(device, offset) else {
            continue;
        };
        let (superblock, disagreement) = settle(device, copy);
        match check_size(device, &superblock) {
            Ok(()) => {
                tracing::warn!(%reason, offset, "using a copy of the superblock");
                return Ok(FoundSuperblock {
                    superblock,
                    disagreement,
                });
            }
            // What a shrunk volume has left behind, perhaps.
            Err(error) => too_large = too_large.or(Some(error)),
        }
    }
    Err(too_large.unwrap_or_else(|| no_volume(device, reason)))
}

/// Of the copies that `first` leads to, itself among them, one of the highest
/// generation, and what is to be said if they do not agree.
fn settle(device: &dyn Device, first: Superblock) -> (Superblock, Option<String>) {
    let looked_at = |superblock: &Superblock| -> Vec<Superblock> {
        let offsets = superblock_offsets(superblock).skip(1).take(LOOKED_AT);
        let last = superblock.device_bytes.get() - u64::from(superblock.write_unit.get());
        let copies = offsets.chain(std::iter::once(last));
        let copies = copies.filter_map(|offset| read(device, offset).ok());
        copies.filter(|copy| is_of(device, copy, &first)).collect()
    };
    let mut newest = first;
    let mut oldest = u64::MAX;
    // A younger one may name others; crafted ones do not lead on for ever.
    for _ in 0..LOOKED_AT {
        let copies = looked_at(&newest);
        let generation = |copy: &Superblock| copy.generation.get();
        oldest = copies.iter().map(generation).min().unwrap_or(u64::MAX);
        match copies.iter().max_by_key(|copy| generation(copy)) {
            Some(copy) if generation(copy) > generation(&newest) => newest = *copy,
            _ => break,
        }
    }
    let youngest = newest.generation.get();
    let disagreement = (oldest < youngest).then(|| {
        format!(
            "its first superblock is damaged, and the copies are of generations {oldest} to \
             {youngest}: a change of its size or name was interrupted; varve fsck --repair \
             completes it"
        )
    });
    (newest, disagreement)
}

/// True if `copy` is of the same volume, as it could stand on this device.
fn is_of(device: &dyn Device, copy: &Superblock, volume: &Superblock) -> bool {
    copy.volume_tag() == volume.volume_tag()
        && copy.write_unit == volume.write_unit
        && copy.device_bytes.get() <= device.geometry().size
}

/// Of all whole copies of the volume, the primary among them, one of the highest
/// generation: what a change that was interrupted was going to.
///
/// # Errors
/// `NoVolume` if no copy is whole.
pub fn newest(device: &dyn Device) -> Result<Superblock> {
    let mut newest = find(device)?.superblock;
    for offset in superblock_offsets(&newest) {
        if let Ok(copy) = read(device, offset)
            && is_of(device, &copy, &newest)
            && copy.generation.get() > newest.generation.get()
        {
            newest = copy;
        }
    }
    Ok(newest)
}

/// True if every copy is whole and says what this one says.
pub fn agree(device: &dyn Device, superblock: &Superblock) -> bool {
    superblock_offsets(superblock).all(|offset| {
        let copy = read(device, offset);
        copy.is_ok_and(|copy| copy.sealed_for(0) == superblock.sealed_for(0))
    })
}

/// Bytes that the volume has by the copy that says the most of those that count
/// now or would if the first were lost.
///
/// # Errors
/// `NoVolume` if no copy is whole.
pub fn newest_bytes(device: &dyn Device) -> Result<u64> {
    let (present, newest) = (find(device)?.superblock, newest(device)?);
    Ok(present.device_bytes.get().max(newest.device_bytes.get()))
}

fn check_size(device: &dyn Device, superblock: &Superblock) -> Result<()> {
    let size = device.geometry().size;
    let unit = superblock.write_unit.get();
    let problem = if superblock.device_bytes.get() > size {
        format!(
            "the volume needs {} bytes, the device has {size}",
            superblock.device_bytes
        )
    } else if unit < device.geometry().logical_block {
        format!(
            "the write unit of {unit} bytes is finer than the device's block of {}",
            device.geometry().logical_block
        )
    } else {
        return Ok(());
    };
    Err(no_volume(device, Malformed::new("superblock", problem)))
}

/// Writes the copies at these byte addresses, the last first; that of the primary
/// comes after a flush. Another flush ends it.
///
/// # Errors
/// If the device fails.
pub fn write(device: &dyn Device, superblock: &Superblock, offsets: Vec<u64>) -> Result<()> {
    let mut offsets = offsets;
    offsets.sort_unstable();
    for &offset in offsets.iter().rev() {
        if offset == 0 {
            device.flush()?;
        }
        write_one(device, superblock, offset)?;
    }
    device.flush()?;
    Ok(())
}

fn write_one(device: &dyn Device, superblock: &Superblock, offset: u64) -> Result<()> {
    let mut bytes = vec![0; superblock.write_unit.get() as usize];
    bytes[..512].copy_from_slice(superblock.sealed_for(offset / SECTOR).as_bytes());
    device.write(offset, &[IoSlice::new(&bytes)])?;
    Ok(())
}

/// Puts `new` in the place of the superblock there is, on all copies. Its
/// generation is one above the highest there is.
///
/// # Errors
/// If the device fails; old or new counts then.
pub fn replace(device: &dyn Device, mut new: Superblock) -> Result<Superblock> {
    let present = find(device)?.superblock;
    let highest = newest(device)?.generation.get();
    new.generation = (highest.max(present.generation.get()) + 1).into();
    let copies: Vec<u64> = superblock_offsets(&new).skip(1).collect();
    if new.segment_count.get() < present.segment_count.get() {
        write_one(device, &new, 0)?;
        device.flush()?;
        write(device, &new, copies)?;
    } else {
        write(device, &new, [vec![0], copies].concat())?;
    }
    Ok(new.sealed_for(0))
}

#[cfg(test)]
mod tests;
