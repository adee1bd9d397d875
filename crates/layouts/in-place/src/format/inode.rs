//! An inode at its fixed place, one sealed sector: attributes as in the other layouts
//! (`varve-format`), then content, or the places of blocks. A free inode keeps the
//! version of the number's next file.

use super::place::PLACE_BYTES;
use super::{CONTENT_BYTES, Geometry, Place, Seal, Sector};
use varve_format::inode::{HEADER_BYTES, InodeImage};
use varve_format::{Malformed, Pointer};
use varve_fs::{FileKind, Inode, InodeNo, Version, flags};

/// Number of direct places in an inode.
pub const DIRECT: usize = 12;
/// Number of indirect blocks of an inode: of one level, of two, of three.
pub const INDIRECT: usize = 3;
/// Maximum number of bytes of content in an inode.
pub const INLINE_BYTES: usize = CONTENT_BYTES - HEADER_BYTES;

const FREE_MAGIC: [u8; 4] = *b"VFRE";
const _: () = assert!((DIRECT + INDIRECT) * PLACE_BYTES <= INLINE_BYTES);

/// An inode with all parts that are stored in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The attributes that the shared file system uses.
    pub inode: Inode,
    /// The places of the first blocks.
    pub direct: [Place; DIRECT],
    /// The places of the indirect blocks.
    pub indirect: [Place; INDIRECT],
    /// Pointer to the extended attributes.
    pub xattrs: Pointer,
}

/// The content of an inode's sector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The inode of a file.
    Used(Box<Image>),
    /// No file; the next one has this version.
    Free(Version),
}

fn seal(geometry: &Geometry, ino: InodeNo) -> Seal {
    geometry.seal(geometry.inode_sector(ino.0), ino.0 as u32)
}

impl Image {
    /// Creates the image of a regular file without content and with default attributes.
    pub fn blank(ino: InodeNo, version: Version) -> Self {
        let mode = FileKind::Regular.mode_bits();
        Image {
            inode: Inode::new(ino, version, mode, varve_fs::Timestamp::default()),
            direct: [Place::NONE; DIRECT],
            indirect: [Place::NONE; INDIRECT],
            xattrs: Pointer::NONE,
        }
    }

    /// Returns true if this image differs from another one in nothing but times.
    pub fn is_but_for_times(mut self, other: &Image) -> bool {
        let (to, of) = (&mut self.inode, &other.inode);
        (to.atime, to.mtime, to.ctime) = (of.atime, of.mtime, of.ctime);
        self == *other
    }

    /// Returns the stored form.
    ///
    /// # Panics
    /// If the content does not fit: the file system knows the limit.
    pub fn encode(&self, geometry: &Geometry) -> Sector {
        let mut sector = [0; 512];
        let shared = InodeImage {
            inode: self.inode.clone(),
            root: None,
            xattrs: self.xattrs,
        };
        shared.encode(&mut sector[..CONTENT_BYTES]);
        if self.inode.flags & flags::INLINE == 0 {
            let places = self.direct.iter().chain(&self.indirect);
            let slots = sector[HEADER_BYTES..CONTENT_BYTES].chunks_exact_mut(PLACE_BYTES);
            for (slot, place) in slots.zip(places) {
                place.encode(slot);
            }
        }
        seal(geometry, self.inode.ino).close(&mut sector);
        sector
    }
}

impl Slot {
    /// Parses the sector of inode `ino`.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    pub fn decode(sector: &Sector, geometry: &Geometry, ino: InodeNo) -> Result<Slot, Malformed> {
        seal(geometry, ino).check(sector, "inode")?;
        if sector[..4] == FREE_MAGIC {
            let mut version = [0; 4];
            version.copy_from_slice(&sector[4..8]);
            return Ok(Slot::Free(u32::from_le_bytes(version)));
        }
        let shared = InodeImage::decode(&sector[..CONTENT_BYTES], ino)?;
        let mut image = Image {
            inode: shared.inode,
            xattrs: shared.xattrs,
            ..Image::blank(ino, 0)
        };
        if image.inode.flags & flags::INLINE == 0 {
            let slots = sector[HEADER_BYTES..CONTENT_BYTES].chunks_exact(PLACE_BYTES);
            let places = image.direct.iter_mut().chain(&mut image.indirect);
            for (slot, place) in slots.zip(places) {
                *place = Place::decode(slot);
                place.check(geometry)?;
            }
        }
        for place in &image.indirect {
            geometry.check_indirect(place)?;
        }
        let xattrs = &image.xattrs;
        let stored = u64::from(image.inode.xattr_bytes).div_ceil(512);
        let fits = match xattrs.is_none() {
            true => stored == 0,
            false => {
                stored == u64::from(xattrs.sectors())
                    && xattrs.flags() == 0
                    && geometry.may_hold(xattrs.sector(), stored)
            }
        };
        match fits {
            true => Ok(Slot::Used(Box::new(image))),
            false => Err(Malformed::new(
                "inode",
                format!("{ino}: attributes at {xattrs:?}"),
            )),
        }
    }

    /// Returns the stored form of an inode that has no file.
    pub fn free(geometry: &Geometry, ino: InodeNo, next_version: Version) -> Sector {
        let mut sector = [0; 512];
        sector[..4].copy_from_slice(&FREE_MAGIC);
        sector[4..8].copy_from_slice(&next_version.to_le_bytes());
        seal(geometry, ino).close(&mut sector);
        sector
    }
}
