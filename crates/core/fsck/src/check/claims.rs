//! Map of used sectors: one bitmap per segment that contains live blocks.
//!
//! A bit represents [`UNIT`] bytes, the smallest inode, so that inodes in one sector are
//! distinguished. In addition each segment has a sum over its live blocks (owner, place,
//! checksum, birth), combined by exclusive or; the entries of the summaries must give the
//! same sum. This compares every pointer with the summary entry of its block in constant
//! memory.

use std::collections::HashSet;
use varve_fs::{InodeNo, Version};
use varve_lfs::Geometry;
use varve_lfs::format::ifile::InodePlace;
use varve_lfs::format::node::NodeId;
use varve_lfs::format::{Pointer, SECTOR};

/// Bytes per bit.
pub const UNIT: u64 = 256;

/// The kind of a stored block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A data block of a file or of the ifile, by block number.
    Data(u64),
    /// Extended attributes.
    Attributes,
    /// An index node, by height and number.
    Node(u8, u64),
    /// An inode.
    Inode,
}

/// A stored block with all properties on which its pointer and its summary entry must
/// agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Byte address on the device.
    pub byte: u64,
    /// Length in bytes.
    pub length: u64,
    /// Number of the file.
    pub ino: InodeNo,
    /// Version of the file.
    pub version: Version,
    /// Kind of the block.
    pub role: Role,
    /// Serial of the partial that first wrote it.
    pub birth: u64,
    /// CRC of the block.
    pub crc: u32,
    /// Incarnation of its segment.
    pub incarnation: u32,
}

impl Stored {
    /// Describes the block to which `pointer` leads.
    pub fn block(ino: InodeNo, version: Version, role: Role, pointer: &Pointer) -> Self {
        Stored {
            byte: pointer.sector() * SECTOR,
            length: pointer.stored_bytes(),
            ino,
            version,
            role,
            birth: pointer.birth(),
            crc: pointer.crc(),
            incarnation: pointer.incarnation(),
        }
    }

    /// Describes the index node `id` at `pointer`.
    pub fn node(id: NodeId, version: Version, pointer: &Pointer) -> Self {
        Stored::block(id.ino, version, Role::Node(id.height, id.index), pointer)
    }

    /// Describes the inode at `place`.
    pub fn inode(geometry: &Geometry, ino: InodeNo, version: Version, place: &InodePlace) -> Self {
        let inode_bytes = u64::from(geometry.inode_bytes);
        Stored {
            byte: place.sector * SECTOR + u64::from(place.slot) * inode_bytes,
            length: inode_bytes,
            ino,
            version,
            role: Role::Inode,
            birth: place.birth,
            crc: place.crc,
            incarnation: place.incarnation,
        }
    }

    /// Returns true if recovery reads the block before the log is replayed.
    fn is_metadata(&self) -> bool {
        match self.role {
            Role::Node(..) | Role::Inode => true,
            Role::Data(_) | Role::Attributes => self.ino == InodeNo::IFILE,
        }
    }

    /// Returns a hash that two different blocks share with negligible probability.
    fn identity(&self) -> u64 {
        let (role, height, index) = match self.role {
            Role::Data(block) => (1, 0, block),
            Role::Attributes => (2, 0, 0),
            Role::Node(height, index) => (3, height, index),
            Role::Inode => (4, 0, 0),
        };
        let words = [
            self.byte,
            self.length << 32 | u64::from(self.version),
            self.ino.0,
            index,
            self.birth,
            u64::from(self.crc) << 32 | role << 8 | u64::from(height),
        ];
        words.iter().fold(0x9e37_79b9_7f4a_7c15, |sum, word| {
            let product = u128::from(sum ^ word) * 0xa076_1d64_78bd_642f_u128;
            product as u64 ^ (product >> 64) as u64 ^ sum.rotate_left(23)
        })
    }
}

/// The reason why sectors cannot belong to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// They are not within one segment.
    Outside,
    /// They overlap a superblock copy.
    Superblock,
    /// Another block uses them.
    Overlap,
}

/// Use of one segment.
#[derive(Clone, Debug, Default)]
pub struct Use {
    bits: Vec<u64>,
    /// Live bytes in the checkpoint's image.
    pub base_live: u64,
    /// True if the image has an inode, an index node or a block of the ifile in the
    /// segment.
    pub metadata: bool,
    /// Combined identities of the live blocks.
    sum: u64,
    /// Incarnation named by the first block found.
    pub incarnation: Option<u32>,
    /// A block that names another incarnation.
    pub stray: Option<Stored>,
    /// Identities of the live blocks, kept for a segment with plugs, because blocks that
    /// its summaries describe may have been overwritten.
    names: Option<HashSet<u64>>,
}

/// Use of all segments.
#[derive(Debug)]
pub struct Claims {
    geometry: Geometry,
    segments: Vec<Use>,
}

impl Claims {
    pub fn new(geometry: Geometry) -> Self {
        Claims {
            geometry,
            segments: vec![Use::default(); geometry.segment_count as usize],
        }
    }

    /// Marks segments with plugs, whose blocks are compared by identity and not only by
    /// place.
    pub fn plugged(&mut self, segments: impl Iterator<Item = u32>) {
        for segment in segments {
            self.segments[segment as usize].names = Some(HashSet::new());
        }
    }

    pub fn get(&self, segment: u32) -> &Use {
        &self.segments[segment as usize]
    }

    /// Returns the segment of a block, and its byte offset there.
    fn place(&self, stored: &Stored) -> Result<(u32, u64), Refusal> {
        let geometry = self.geometry;
        let sectors = (stored.byte % SECTOR + stored.length).div_ceil(SECTOR);
        let sector = stored.byte / SECTOR;
        if !geometry.within_segment(sector, sectors) {
            return Err(Refusal::Outside);
        }
        let segment = geometry.segment_of(sector).ok_or(Refusal::Outside)?;
        let offset = stored.byte - geometry.byte(segment, 0);
        if offset < u64::from(geometry.payload_start(segment)) {
            return Err(Refusal::Superblock);
        }
        Ok((segment, offset))
    }

    /// Counts a block of the checkpoint's image for the usage table without taking its
    /// sectors. The log has displaced the block, so another one may be stored there by
    /// now (`docs/design/reuse.md`).
    pub fn count(&mut self, stored: &Stored) -> Result<(), Refusal> {
        let (segment, _) = self.place(stored)?;
        self.segments[segment as usize].base_live += stored.length;
        Ok(())
    }

    /// Takes the sectors of a live block. `base` also counts it for the usage table of
    /// the checkpoint.
    pub fn claim(&mut self, stored: &Stored, base: bool) -> Result<u32, Refusal> {
        let (segment, offset) = self.place(stored)?;
        let geometry = self.geometry;
        let entry = &mut self.segments[segment as usize];
        if entry.bits.is_empty() {
            let units = u64::from(geometry.segment_bytes) / UNIT;
            entry.bits = vec![0; units.div_ceil(64) as usize];
        }
        let first = offset / UNIT;
        let end = (offset + stored.length).div_ceil(UNIT);
        if any(&entry.bits, first, end) {
            return Err(Refusal::Overlap);
        }
        set(&mut entry.bits, first, end);
        entry.sum ^= stored.identity();
        if let Some(names) = &mut entry.names {
            names.insert(stored.identity());
        }
        if base {
            entry.base_live += stored.length;
            entry.metadata |= stored.is_metadata();
        }
        if *entry.incarnation.get_or_insert(stored.incarnation) != stored.incarnation {
            entry.stray.get_or_insert(*stored);
        }
        Ok(segment)
    }

    /// Returns the sector of the first live block of `segment` at or behind byte
    /// `offset`.
    pub fn first_at(&self, segment: u32, offset: u32) -> Option<u64> {
        let bits = &self.get(segment).bits;
        let from = u64::from(offset) / UNIT;
        let unit = first_set(bits, from)?;
        Some((self.geometry.byte(segment, 0) + unit * UNIT) / SECTOR)
    }
}

impl Use {
    /// Returns true if blocks were written into holes of the segment.
    pub fn is_plugged(&self) -> bool {
        self.names.is_some()
    }

    /// Returns true if the segment contains live blocks.
    pub fn used(&self) -> bool {
        !self.bits.is_empty()
    }
}

/// Comparison of one segment's summaries with its live blocks.
#[derive(Debug, Default)]
pub struct Described {
    bits: Vec<u64>,
    sum: u64,
    /// Identities already noted in a segment with plugs, whose blocks may be described
    /// twice.
    noted: HashSet<u64>,
}

impl Described {
    pub fn begin(&mut self, wanted: &Use) {
        self.bits.clear();
        self.bits.resize(wanted.bits.len(), 0);
        self.sum = 0;
        self.noted.clear();
    }

    /// Notes an entry of a summary. Returns true if a live block is stored at its place.
    /// `start` is the byte address of the segment.
    pub fn note(&mut self, wanted: &Use, start: u64, stored: &Stored) -> bool {
        let Some(offset) = stored.byte.checked_sub(start) else {
            return false;
        };
        let first = offset / UNIT;
        let end = (offset + stored.length).div_ceil(UNIT);
        if first >= end || end > wanted.bits.len() as u64 * 64 || !any(&wanted.bits, first, end) {
            return false;
        }
        let identity = stored.identity();
        if let Some(names) = &wanted.names
            && !(names.contains(&identity) && self.noted.insert(identity))
        {
            return false;
        }
        set(&mut self.bits, first, end);
        self.sum ^= identity;
        true
    }

    /// Returns the unit of the first live block that no entry describes.
    pub fn missing(&self, wanted: &Use) -> Option<u64> {
        let left: Vec<u64> = wanted
            .bits
            .iter()
            .zip(&self.bits)
            .map(|(wanted, described)| wanted & !described)
            .collect();
        first_set(&left, 0)
    }

    /// Returns true if entries and pointers agree on every live block.
    pub fn agrees(&self, wanted: &Use) -> bool {
        self.sum == wanted.sum
    }
}

/// Returns the bits of word `word` that are in `first..end`.
fn mask(word: u64, first: u64, end: u64) -> u64 {
    let low = first.saturating_sub(word * 64).min(64);
    let high = (end - word * 64).min(64);
    let below = |bits: u64| {
        if bits >= 64 {
            u64::MAX
        } else {
            (1 << bits) - 1
        }
    };
    below(high) & !below(low)
}

fn any(bits: &[u64], first: u64, end: u64) -> bool {
    (first / 64..end.div_ceil(64)).any(|word| bits[word as usize] & mask(word, first, end) != 0)
}

fn set(bits: &mut [u64], first: u64, end: u64) {
    for word in first / 64..end.div_ceil(64) {
        bits[word as usize] |= mask(word, first, end);
    }
}

fn first_set(bits: &[u64], from: u64) -> Option<u64> {
    (from / 64..bits.len() as u64).find_map(|word| {
        let here = bits[word as usize] & mask(word, from, u64::MAX);
        (here != 0).then(|| word * 64 + u64::from(here.trailing_zeros()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cross_words() {
        let mut bits = vec![0; 3];
        set(&mut bits, 60, 130);
        assert_eq!(first_set(&bits, 0), Some(60));
        assert_eq!(first_set(&bits, 61), Some(61));
        assert_eq!(first_set(&bits, 130), None);
        assert!(any(&bits, 0, 61) && !any(&bits, 0, 60));
        assert!(any(&bits, 129, 192) && !any(&bits, 130, 192));
        assert_eq!(bits.iter().map(|w| w.count_ones()).sum::<u32>(), 70);
    }
}
