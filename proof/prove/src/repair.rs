//! Makes the checksums of a mutated volume right again, so that mutations reach the code
//! behind them.
//!
//! The extents that checksums protect are read from the image before the mutation: blocks
//! and inodes from the summaries, the summaries themselves, checkpoint records,
//! superblocks, the owner record; those of the other two layouts from their checksums
//! (`others`). A structure that refers to an extent stores its checksum at an unknown
//! place. So the old checksum is replaced by the new one in all used sectors, which
//! changes other extents, and so on until nothing changes.

mod others;

use crate::images::Repair;
use std::collections::HashMap;
use std::ops::Range;
use varve_device::MemoryImage;
use varve_ffs::format::Seal;
use varve_lfs::format::summary::{Entries, Entry, HEADER_BYTES, SummaryHeader};
use varve_lfs::format::{Superblock, crc32c, crc32c_of};

/// Kind of an extent, and the place of its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The checksum is stored with the references to the extent.
    Referred,
    /// A summary with this number of bytes of entries: a checksum at 0 over the rest, and
    /// another one over its header in its successor.
    Summary,
    /// A checksum at 8 over everything from 12.
    Fixed,
    /// A checksum at 4 over everything from 8.
    Owner,
    /// A checksum at 0 over everything from 4, and possibly in the structure that refers
    /// to it.
    First,
    /// A sector with a seal of the volume with this tag.
    Sealed(u64),
}

struct Extent {
    range: Range<u64>,
    kind: Kind,
    /// The checksum in references to it; 0 if there are none.
    known_as: u32,
    /// Places of these references.
    holders: Vec<u64>,
}

/// Largest number of rounds of replacement.
const ROUNDS: usize = 40;
const SECTOR: u64 = 512;

fn bytes_of(image: &MemoryImage, range: &Range<u64>) -> Vec<u8> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    image.read(range.start, &mut bytes);
    bytes
}

fn parse_superblock(image: &MemoryImage) -> Option<Superblock> {
    Superblock::parse(&bytes_of(image, &(0..4096)), 0).ok()
}

/// Repairs mutants of one image of any layout.
pub struct Checksums {
    extents: Vec<Extent>,
}

impl Checksums {
    /// Finds the extents that checksums protect in `original`.
    pub fn new(original: &MemoryImage) -> Self {
        let mut extents = match parse_superblock(original) {
            Some(superblock) => extents(original, &superblock),
            None => others::extents(original),
        };
        let mut by_sum: HashMap<u32, Vec<usize>> = HashMap::new();
        for (index, extent) in extents.iter_mut().enumerate() {
            extent.known_as = match extent.kind {
                Kind::Referred | Kind::First => crc32c(&bytes_of(original, &extent.range)),
                Kind::Summary => crc32c(&bytes_of(original, &extent.range)[..HEADER_BYTES]),
                Kind::Fixed | Kind::Owner | Kind::Sealed(_) => 0,
            };
            if extent.known_as != 0 {
                by_sum.entry(extent.known_as).or_default().push(index);
            }
        }
        let mut chunk = vec![0; 4096];
        for offset in (0..original.geometry().size).step_by(chunk.len()) {
            let length = (original.geometry().size - offset).min(chunk.len() as u64) as usize;
            original.read(offset, &mut chunk[..length]);
            for (word, at) in chunk[..length]
                .as_chunks::<4>()
                .0
                .iter()
                .zip((offset..).step_by(4))
            {
                for &index in by_sum.get(&u32::from_le_bytes(*word)).into_iter().flatten() {
                    extents[index].holders.push(at);
                }
            }
        }
        Checksums { extents }
    }

    /// Returns the byte addresses of the sectors that checksums protect.
    pub fn sectors(&self) -> Vec<u64> {
        let all = self.extents.iter().map(|extent| extent.range.clone());
        let mut sectors: Vec<u64> = all.flat_map(|range| range.step_by(512)).collect();
        sectors.sort_unstable();
        sectors.dedup();
        sectors
    }

    /// Repairs `image`, which equals the original except for the ranges `changed`.
    pub fn repair(&self, image: &mut MemoryImage, changed: &[Range<u64>]) {
        let mut dirty: Vec<Range<u64>> = changed.to_vec();
        for _ in 0..ROUNDS {
            let mut next = Vec::new();
            for extent in &self.extents {
                let touched = |range: &Range<u64>| {
                    range.start < extent.range.end && extent.range.start < range.end
                };
                if dirty.iter().any(touched) {
                    extent.reseal(image, &mut next);
                }
            }
            if next.is_empty() {
                break;
            }
            dirty = next;
        }
    }
}

impl Extent {
    fn new(range: Range<u64>, kind: Kind) -> Self {
        Extent {
            range,
            kind,
            known_as: 0,
            holders: Vec::new(),
        }
    }

    /// Updates the checksum of a changed extent, and of the references to it.
    fn reseal(&self, image: &mut MemoryImage, dirty: &mut Vec<Range<u64>>) {
        let mut bytes = bytes_of(image, &self.range);
        let start = self.range.start;
        let mut put = |at: u64, sum: u32| {
            let mut present = [0; 4];
            image.read(at, &mut present);
            if present != sum.to_le_bytes() {
                image.write(at, &sum.to_le_bytes());
                dirty.push(at..at + 4);
            }
        };
        let known_as = match self.kind {
            Kind::Referred => crc32c(&bytes),
            Kind::Fixed => return put(start + 8, crc32c(&bytes[12..])),
            Kind::Owner => return put(start + 4, crc32c(&bytes[8..])),
            Kind::Sealed(tag) => {
                let mut sector = [0; SECTOR as usize];
                sector.copy_from_slice(&bytes);
                let mut owner = [0; 4];
                owner.copy_from_slice(&sector[504..508]);
                let seal = Seal {
                    tag,
                    sector: start / SECTOR,
                    owner: u32::from_le_bytes(owner),
                };
                seal.close(&mut sector);
                let mut sum = [0; 4];
                sum.copy_from_slice(&sector[508..]);
                return put(start + 508, u32::from_le_bytes(sum));
            }
            Kind::First => {
                let sum = crc32c(&bytes[4..]);
                put(start, sum);
                bytes[..4].copy_from_slice(&sum.to_le_bytes());
                crc32c(&bytes)
            }
            Kind::Summary => {
                let sum = crc32c_of(&[&bytes[4..]]);
                put(start, sum);
                bytes[..4].copy_from_slice(&sum.to_le_bytes());
                crc32c(&bytes[..HEADER_BYTES])
            }
        };
        for &holder in &self.holders {
            put(holder, known_as);
        }
    }
}

fn extents(image: &MemoryImage, superblock: &Superblock) -> Vec<Extent> {
    let size = image.geometry().size;
    let unit = u64::from(superblock.write_unit.get());
    let fixed = |start: u64, length: u64, kind| Extent::new(start..start + length, kind);
    let mut extents = vec![fixed(superblock.owner_offset.get(), SECTOR, Kind::Owner)];
    let record = u64::from(superblock.record_bytes.get());
    for slot in 0..u64::from(superblock.record_count.get()) {
        extents.push(fixed(
            superblock.ring_offset.get() + slot * record,
            record,
            Kind::Fixed,
        ));
    }
    for offset in (0..size / unit * unit).step_by(unit as usize) {
        let start = bytes_of(image, &(offset..offset + SECTOR));
        if Superblock::parse(&start, offset / SECTOR).is_ok() {
            extents.push(fixed(offset, SECTOR, Kind::Fixed));
        }
        let tag = superblock.volume_tag();
        if let Ok(header) = SummaryHeader::parse(&start, tag, offset / SECTOR) {
            summary_extents(image, superblock, offset, &header, &mut extents);
        }
    }
    extents
}

fn summary_extents(
    image: &MemoryImage,
    superblock: &Superblock,
    offset: u64,
    header: &SummaryHeader,
    extents: &mut Vec<Extent>,
) {
    let entries_at = offset + HEADER_BYTES as u64;
    let entries_end = entries_at + u64::from(header.entry_bytes.get());
    if entries_end > image.geometry().size {
        return;
    }
    extents.push(Extent::new(offset..entries_end, Kind::Summary));
    let entries = bytes_of(image, &(entries_at..entries_end));
    let (mut blocks, mut inodes) = (Vec::new(), 0);
    for entry in Entries::new(&entries).map_while(Result::ok) {
        match entry {
            Entry::Block(block) => blocks.push(u64::from(block.sectors) * SECTOR),
            Entry::Inode(_) => inodes += 1,
            _ => {}
        }
    }
    let mut at = offset + header.summary_sectors() * SECTOR;
    let inode_bytes = u64::from(superblock.inode_bytes.get());
    for length in blocks
        .into_iter()
        .chain(std::iter::repeat_n(inode_bytes, inodes))
    {
        if at + length <= image.geometry().size {
            extents.push(Extent::new(at..at + length, Kind::Referred));
        }
        at += length;
    }
}

/// Finds the checksums of `original`, and returns their repair.
pub fn learn_repair(original: &MemoryImage) -> Repair {
    let repair = Checksums::new(original);
    Box::new(move |image: &mut MemoryImage, changed: &[Range<u64>]| repair.repair(image, changed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explorer::Plan;
    use crate::generator::Generator;
    use crate::model::Model;
    use crate::mounted::Subject;
    use crate::random::Random;
    use crate::runner::{Runner, new_clock};
    use crate::subjects::Log;
    use crate::tree::{Bounds, walk};
    use std::sync::Arc;
    use varve_device::MemoryDevice;

    /// Returns an image with a log that has been written.
    fn used_image(subject: &Log) -> MemoryImage {
        let device = Arc::new(MemoryDevice::new(subject.device_bytes));
        subject.format(device.clone(), new_clock()).unwrap();
        let mounted = subject.mount(device.clone(), new_clock(), 1).unwrap();
        let mut runner = Runner::new(mounted, new_clock(), Model::new(4096));
        for operation in Generator::new(Plan::quick(1).profile, Random::new(1)).take(60) {
            let _ = runner.step(&operation).unwrap();
        }
        runner.mounted().unmount().unwrap();
        device.snapshot()
    }

    #[test]
    fn changed_content_passes_for_right() {
        let subject = Log::default();
        let original = used_image(&subject);
        let superblock = parse_superblock(&original).unwrap();
        let extents = extents(&original, &superblock);
        let repair = Checksums::new(&original);
        let (mut mounted, mut tried) = (0, 0);
        let referred = extents
            .iter()
            .filter(|extent| extent.kind == Kind::Referred);
        for extent in referred.step_by(5) {
            let mut image = original.clone();
            let at = extent.range.end - 1;
            let mut byte = [0];
            image.read(at, &mut byte);
            image.write(at, &[byte[0] ^ 1]);
            repair.repair(&mut image, std::slice::from_ref(&(at..at + 1)));
            let device = Arc::new(MemoryDevice::from_image(&image));
            tried += 1;
            if let Ok(fs) = subject.mount(device, new_clock(), 2) {
                mounted += u64::from(walk(&*fs, Bounds::damaged()).is_ok());
            }
        }
        assert!(tried > 5);
        assert!(
            mounted * 2 > tried,
            "{mounted} of {tried} mounted and walked"
        );
    }
}
