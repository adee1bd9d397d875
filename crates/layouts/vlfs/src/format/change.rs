//! A change as a record of changes stores it: the effect of an item of a group, with
//! places where the item has data.
//!
//! It consists of a tag, then numbers of one to ten bytes, seven bits in each, the
//! lowest first. An inode is stored like that of the tree, without the root and the
//! place of the attributes, as the words of eight bytes that are not zero.

use super::place::{DiskPlace, PLACE_BYTES};
use super::{Malformed, Measures, Place};
use varve_format::Pointer;
use varve_format::inode::{HEADER_BYTES, InodeImage};
use varve_fs::{Inode, InodeNo, Version};
use zerocopy::{FromBytes, IntoBytes};

/// Bit of a tag: the change was made by the transaction of the record.
const FRESH: u8 = 1 << 7;
/// Maximum size of a file, in bytes.
const FILE_MAX: u64 = 1 << 60;

/// One change of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A block has a new place.
    Block {
        /// The inode.
        ino: u64,
        /// Version of the inode.
        version: Version,
        /// Number of the block in the file.
        block: u64,
        /// The new place, which is stored.
        place: Place,
    },
    /// The extended attributes are one block, or there are none.
    Xattrs {
        /// The inode.
        ino: u64,
        /// Version of the inode.
        version: Version,
        /// The new place.
        place: Place,
    },
    /// A block of extended attributes has a new place. If the attributes take several
    /// blocks, each of these changes follows a change of the kind `Xattrs` without a
    /// place.
    XattrBlock {
        /// The inode.
        ino: u64,
        /// Version of the inode.
        version: Version,
        /// Number of the block.
        block: u64,
        /// The new place, which is stored.
        place: Place,
    },
    /// The inode has these attributes.
    Inode(Box<Inode>),
    /// The inode is freed.
    Freed {
        /// The inode.
        ino: u64,
        /// The version of the number's next file.
        next_version: Version,
    },
    /// Blocks `from..to` are removed.
    Cut {
        /// The inode.
        ino: u64,
        /// Version of the inode.
        version: Version,
        /// The first block.
        from: u64,
        /// One past the last block; all ones for all that follow.
        to: u64,
    },
    /// Blocks `from..to` exist and read as zeros.
    Reserved {
        /// The inode.
        ino: u64,
        /// Version of the inode.
        version: Version,
        /// The first block.
        from: u64,
        /// One past the last block.
        to: u64,
    },
}

impl Change {
    /// Returns the inode that the change is about.
    pub fn ino(&self) -> u64 {
        match self {
            Change::Inode(inode) => inode.ino.0,
            Change::Block { ino, .. }
            | Change::Xattrs { ino, .. }
            | Change::XattrBlock { ino, .. }
            | Change::Freed { ino, .. }
            | Change::Cut { ino, .. }
            | Change::Reserved { ino, .. } => *ino,
        }
    }

    /// Returns the place of the data that the change wrote, if it wrote any.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Change::Block { place, .. }
            | Change::Xattrs { place, .. }
            | Change::XattrBlock { place, .. } => place.is_stored().then_some(place),
            _ => None,
        }
    }

    /// Returns the stored form. `fresh` is true if the transaction of the record made
    /// the change.
    pub fn encode(&self, fresh: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        let (tag, numbers): (u8, &[u64]) = match self {
            Change::Block {
                ino,
                version,
                block,
                ..
            } => (1, &[*ino, (*version).into(), *block]),
            Change::Xattrs { ino, version, .. } => (2, &[*ino, (*version).into()]),
            Change::Inode(inode) => (3, &[inode.ino.0, inode.inline.len() as u64]),
            Change::Freed { ino, next_version } => (4, &[*ino, (*next_version).into()]),
            Change::Cut {
                ino,
                version,
                from,
                to,
            } => (5, &[*ino, (*version).into(), *from, *to]),
            Change::Reserved {
                ino,
                version,
                from,
                to,
            } => (6, &[*ino, (*version).into(), *from, *to]),
            Change::XattrBlock {
                ino,
                version,
                block,
                ..
            } => (7, &[*ino, (*version).into(), *block]),
        };
        bytes.push(tag | if fresh { FRESH } else { 0 });
        numbers.iter().for_each(|&number| put(&mut bytes, number));
        match self {
            Change::Block { place, .. }
            | Change::Xattrs { place, .. }
            | Change::XattrBlock { place, .. } => {
                bytes.extend_from_slice(place.to_disk().as_bytes());
            }
            Change::Inode(inode) => put_words(&mut bytes, &image_of(inode)),
            _ => {}
        }
        bytes
    }

    /// Returns the number of blocks that the change reserves.
    pub fn reserved(&self) -> u64 {
        match self {
            Change::Reserved { from, to, .. } => to.saturating_sub(*from),
            _ => 0,
        }
    }

    /// Parses the change at the beginning of `bytes`. Returns it, whether it is fresh,
    /// and the remaining bytes.
    ///
    /// # Errors
    /// If the bytes are not a change that the volume can have.
    pub fn decode<'b>(
        bytes: &'b [u8],
        measures: &Measures,
    ) -> Result<(Change, bool, &'b [u8]), Malformed> {
        let bad = |problem: String| Malformed::new("change", problem);
        let mut rest = Rest(bytes);
        let tag = rest.byte()?;
        let kind = tag & !FRESH;
        let ino = rest.number()?;
        if ino >= measures.inodes {
            return Err(bad(format!("inode {ino}, beyond {}", measures.inodes)));
        }
        let second = rest.number()?;
        let version = Version::try_from(second).map_err(|_| bad(format!("version {second}")))?;
        let blocks = FILE_MAX / u64::from(measures.block_bytes);
        let change = match kind {
            1 => Change::Block {
                ino,
                version,
                block: rest.number()?,
                place: rest.place(measures)?,
            },
            2 => Change::Xattrs {
                ino,
                version,
                place: rest.place(measures)?,
            },
            3 => Change::Inode(Box::new(rest.inode(ino, second, measures)?)),
            4 => Change::Freed {
                ino,
                next_version: version,
            },
            5 | 6 => {
                let (from, to) = (rest.number()?, rest.number()?);
                match kind {
                    5 => Change::Cut {
                        ino,
                        version,
                        from,
                        to,
                    },
                    _ => Change::Reserved {
                        ino,
                        version,
                        from,
                        to,
                    },
                }
            }
            7 if measures.long_xattrs => Change::XattrBlock {
                ino,
                version,
                block: rest.number()?,
                place: rest.place(measures)?,
            },
            _ => return Err(bad(format!("of kind {kind}"))),
        };
        let believable = match &change {
            Change::Block { block, place, .. } => *block < blocks && place.is_stored(),
            Change::Xattrs { place, .. } => !place.is_unwritten(),
            Change::XattrBlock { block, place, .. } => {
                *block < measures.fanout() as u64 && place.is_stored()
            }
            Change::Reserved { from, to, .. } => {
                from <= to && *to <= blocks && to - from <= measures.reserved_max()
            }
            _ => true,
        };
        match believable {
            true => Ok((change, tag & FRESH != 0, rest.0)),
            false => Err(bad(format!("{change:?} cannot be"))),
        }
    }
}

/// Returns an inode's bytes, without the root and the place of the attributes.
fn image_of(inode: &Inode) -> Vec<u8> {
    let mut bytes = vec![0; (HEADER_BYTES + inode.inline.len()).next_multiple_of(8)];
    let image = InodeImage {
        inode: inode.clone(),
        root: None,
        xattrs: Pointer::NONE,
    };
    image.encode(&mut bytes);
    bytes
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 1 << 7 {
        bytes.push(number as u8 | 1 << 7);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Appends a bit for each word, and the words that are not zero.
fn put_words(bytes: &mut Vec<u8>, image: &[u8]) {
    let (words, _) = image.as_chunks::<8>();
    for eight in words.chunks(8) {
        let bits = (0..).zip(eight).filter(|(_, word)| **word != [0; 8]);
        bytes.push(bits.fold(0, |bits, (nth, _)| bits | 1u8 << nth));
    }
    for word in words.iter().filter(|word| **word != [0; 8]) {
        bytes.extend_from_slice(word);
    }
}

/// The bytes that are not yet parsed.
struct Rest<'b>(&'b [u8]);

impl<'b> Rest<'b> {
    fn take(&mut self, length: usize) -> Result<&'b [u8], Malformed> {
        let (taken, rest) = (self.0.split_at_checked(length))
            .ok_or_else(|| Malformed::new("change", "cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                break;
            }
            number |= part << shift;
            if byte < 1 << 7 {
                return Ok(number);
            }
        }
        Err(Malformed::new("change", "a number of more than 64 bits"))
    }

    fn place(&mut self, measures: &Measures) -> Result<Place, Malformed> {
        let bytes = self.take(PLACE_BYTES)?;
        let disk = DiskPlace::read_from_bytes(bytes);
        let disk = disk.map_err(|_| Malformed::new("change", "cut short"))?;
        let place = Place::of_disk(&disk);
        place.check(measures).map(|()| place)
    }

    fn inode(&mut self, ino: u64, inline: u64, measures: &Measures) -> Result<Inode, Malformed> {
        let unit = measures.unit_bytes as usize;
        let length = usize::try_from(inline).ok().filter(|&bytes| bytes < unit);
        let length = length.ok_or_else(|| Malformed::new("change", "an inode too long"))?;
        let mut image = vec![0; (HEADER_BYTES + length).next_multiple_of(8)];
        let (words, _) = image.as_chunks_mut::<8>();
        let bits = self.take(words.len().div_ceil(8))?;
        for (nth, word) in words.iter_mut().enumerate() {
            if bits[nth / 8] & 1 << (nth % 8) != 0 {
                word.copy_from_slice(self.take(8)?);
            }
        }
        let decoded = InodeImage::decode(&image, InodeNo(ino))?;
        match decoded.root.is_none() && decoded.inode.inline.len() == length {
            true => Ok(decoded.inode),
            false => Err(Malformed::new("change", "an inode with a root")),
        }
    }
}
