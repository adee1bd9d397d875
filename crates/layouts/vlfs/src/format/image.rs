//! An inode: one unit. The attributes are those of [`varve_format::inode`]; behind them
//! is the file's content, if it fits, or the root of its index.

use super::place::{DiskPlace, PLACE_BYTES};
use super::{Fork, Malformed, Measures, Place, entries};
use std::mem::offset_of;
use varve_format::inode::{DiskInode, HEADER_BYTES, InodeImage, MAX_HEIGHT};
use varve_format::{Pointer, SECTOR};
use varve_fs::{Inode, InodeNo, flags};
use zerocopy::IntoBytes;

/// Offset of the height of the attributes' index in an inode. The log has a zero there.
const XATTRS_HEIGHT: usize = offset_of!(DiskInode, spare);

/// Returns the number of places in the root of an index, in an inode of `unit_bytes`
/// bytes.
pub(super) fn root_slots(unit_bytes: u32) -> usize {
    (unit_bytes as usize - HEADER_BYTES) / PLACE_BYTES
}

/// An inode with its roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The attributes that the shared file system uses.
    pub inode: Inode,
    /// The root of the extended attributes' index, which has one place.
    pub xattrs: Place,
    /// Height of the attributes' index; 0 if `xattrs` is the only block.
    pub xattrs_height: u8,
    /// Height of the content's index; 0 if the slots lead to data.
    pub height: u8,
    /// The root of the content's index.
    pub slots: Box<[Place]>,
}

impl Image {
    /// Creates an inode without blocks.
    pub fn new(inode: Inode, measures: &Measures) -> Self {
        Image {
            inode,
            xattrs: Place::NONE,
            xattrs_height: 0,
            height: 0,
            slots: vec![Place::NONE; measures.root_slots()].into(),
        }
    }

    /// Returns height and places of the root of one index.
    pub fn root(&self, fork: Fork) -> (u8, &[Place]) {
        match fork {
            Fork::Content => (self.height, &self.slots),
            Fork::Attributes => (self.xattrs_height, std::slice::from_ref(&self.xattrs)),
        }
    }

    /// Returns height and places of the root of one index, mutable.
    pub fn root_mut(&mut self, fork: Fork) -> (&mut u8, &mut [Place]) {
        match fork {
            Fork::Content => (&mut self.height, &mut self.slots),
            Fork::Attributes => (
                &mut self.xattrs_height,
                std::slice::from_mut(&mut self.xattrs),
            ),
        }
    }

    /// Returns the stored form: one unit.
    pub fn encode(&self, measures: &Measures) -> Vec<u8> {
        let mut bytes = vec![0; measures.unit_bytes as usize];
        let attributes = InodeImage {
            inode: self.inode.clone(),
            root: None,
            xattrs: match self.xattrs.is_none() {
                true => Pointer::NONE,
                false => Pointer::new(
                    self.xattrs.sector,
                    self.xattrs.sectors as u8,
                    self.xattrs.crc,
                    0,
                    0,
                ),
            },
        };
        attributes.encode(&mut bytes);
        bytes[XATTRS_HEIGHT] = self.xattrs_height;
        if self.inode.flags & flags::INLINE == 0 {
            bytes[offset_of!(DiskInode, height)] = self.height;
            let tail = bytes[HEADER_BYTES..].chunks_exact_mut(PLACE_BYTES);
            for (bytes, slot) in tail.zip(&self.slots) {
                bytes.copy_from_slice(slot.to_disk().as_bytes());
            }
        }
        bytes
    }

    /// Parses the stored form of inode `ino`.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    pub fn decode(bytes: &[u8], measures: &Measures, ino: InodeNo) -> Result<Self, Malformed> {
        let bad = |problem: String| Malformed::new("inode", format!("{ino}: {problem}"));
        if bytes.len() != measures.unit_bytes as usize {
            return Err(bad("cut short".into()));
        }
        let InodeImage {
            mut inode, xattrs, ..
        } = InodeImage::decode(bytes, ino)?;
        let xattrs = match xattrs.is_none() {
            true => Place::NONE,
            false => Place {
                sector: xattrs.sector(),
                sectors: xattrs.sectors().into(),
                crc: xattrs.crc(),
            },
        };
        xattrs.check(measures).map_err(|e| bad(e.problem))?;
        let xattrs_height = bytes[XATTRS_HEIGHT];
        let most = match xattrs_height {
            0 => usize::from(xattrs.sectors) * SECTOR as usize,
            1 if measures.long_xattrs => measures.xattr_bytes(),
            _ => return Err(bad(format!("attributes of height {xattrs_height}"))),
        };
        if xattrs.is_unwritten() || inode.xattr_bytes as usize > most {
            return Err(bad("extended attributes exceed their blocks".into()));
        }
        // The counts are limited, so that sums do not overflow in a damaged inode.
        let most = measures.blocks * measures.block_sectors();
        (inode.blocks, inode.sectors) = (inode.blocks.min(most), inode.sectors.min(most));
        let mut image = Image::new(inode, measures);
        (image.xattrs, image.xattrs_height) = (xattrs, xattrs_height);
        if image.inode.flags & flags::INLINE != 0 {
            return Ok(image);
        }
        image.height = bytes[offset_of!(DiskInode, height)];
        let stored = entries::<DiskPlace>(&bytes[HEADER_BYTES..]);
        for (slot, stored) in image.slots.iter_mut().zip(stored) {
            *slot = Place::of_disk(stored);
            slot.check(measures).map_err(|e| bad(e.problem))?;
            if image.height > 0 && slot.is_unwritten() {
                return Err(bad("an unwritten node".into()));
            }
        }
        if image.height > MAX_HEIGHT {
            return Err(bad(format!("an index of height {}", image.height)));
        }
        Ok(image)
    }
}
