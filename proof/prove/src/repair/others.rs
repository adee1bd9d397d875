//! The extents that checksums protect on a volume of another layout than the log.
//!
//! A structure with its own checksum is recognised by it. An extent whose checksum is
//! stored elsewhere is found as up to eight sectors whose checksum occurs in the image;
//! in images of these sizes that happens by chance less than once.

use super::{Extent, Kind, SECTOR, bytes_of};
use std::collections::HashSet;
use varve_device::{Device, MemoryDevice, MemoryImage};
use varve_ffs::Ffs;
use varve_ffs::format::{Geometry, Seal};
use varve_lfs::format::crc32c;
use varve_vlfs::format::CheckpointHeader;

/// Largest number of sectors of an extent.
const SECTORS_MAX: u64 = 8;

/// Returns the extents of an image of either of the two layouts.
pub(super) fn extents(image: &MemoryImage) -> Vec<Extent> {
    let size = image.geometry().size;
    let used: Vec<u64> = (0..size / SECTOR)
        .map(|sector| sector * SECTOR)
        .filter(|at| bytes_of(image, &(*at..at + SECTOR)).iter().any(|&b| b != 0))
        .collect();
    let mut words = HashSet::new();
    for &at in &used {
        let bytes = bytes_of(image, &(at..at + SECTOR));
        let all = bytes.as_chunks::<4>().0.iter();
        words.extend(all.map(|word| u32::from_le_bytes(*word)));
    }
    words.remove(&0);
    let device = MemoryDevice::from_image(image);
    let tag = Ffs::find_superblock(&device as &dyn Device).map(|found| Geometry::of(&found).tag);
    let mut extents = Vec::new();
    for at in used {
        let last = (at + SECTORS_MAX * SECTOR).min(size);
        let bytes = bytes_of(image, &(at..last));
        match own(&bytes, at, tag.as_ref().ok().copied()) {
            Some((length, kind)) => extents.push(Extent::new(at..at + length, kind)),
            None => {
                for length in (SECTOR..=last - at).step_by(SECTOR as usize) {
                    if words.contains(&crc32c(&bytes[..length as usize])) {
                        extents.push(Extent::new(at..at + length, Kind::Referred));
                    }
                }
            }
        }
    }
    extents
}

/// Returns the length and the kind of a structure with its own checksum.
fn own(bytes: &[u8], at: u64, tag: Option<u64>) -> Option<(u64, Kind)> {
    let word = |at: usize| {
        let mut word = [0; 4];
        word.copy_from_slice(&bytes[at..at + 4]);
        u32::from_le_bytes(word)
    };
    let sector = &bytes[..SECTOR as usize];
    if let Some(tag) = tag {
        let seal = Seal {
            tag,
            sector: at / SECTOR,
            owner: word(504),
        };
        let mut content = [0; SECTOR as usize];
        content.copy_from_slice(sector);
        if seal.check(&content, "any").is_ok() {
            return Some((SECTOR, Kind::Sealed(tag)));
        }
    }
    if crc32c(&sector[12..]) == word(8) {
        return Some((SECTOR, Kind::Fixed));
    }
    // A record of the journal contains its length.
    let record = u64::from(word(40));
    for length in [SECTOR, record] {
        if length > 8
            && length <= bytes.len() as u64
            && crc32c(&bytes[8..length as usize]) == word(4)
        {
            return Some((length, Kind::Owner));
        }
    }
    let head = size_of::<CheckpointHeader>() as u64;
    let lengths = (1..=SECTORS_MAX).map(|sectors| sectors * SECTOR);
    std::iter::once(head)
        .chain(lengths)
        .filter(|&length| length <= bytes.len() as u64)
        .find(|&length| crc32c(&bytes[4..length as usize]) == word(0))
        .map(|length| (length, Kind::First))
}
