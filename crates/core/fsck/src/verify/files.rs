//! One inode: its image, its index, its attributes.

use super::known::Known;
use super::{Image, is_damage};
use crate::check::{
    FindingKind, Mapped, Subject, Tally, Visitor, content_flaw, count_flaw, plain, size_flaw, walk,
};
use std::sync::Arc;
use varve_fs::{FileKind, Inode, InodeNo, attributes_flaw};
use varve_lfs::Error;
use varve_lfs::format::inode::{InodeImage, Root};
use varve_lfs::format::node::NodeId;
use varve_lfs::format::{Pointer, SECTOR};

/// A stored block as its pointer describes it.
#[derive(Clone, Copy)]
pub struct Stored {
    pub byte: u64,
    pub length: u64,
    pub incarnation: u32,
}

impl From<&Pointer> for Stored {
    fn from(pointer: &Pointer) -> Self {
        Stored {
            byte: pointer.sector() * SECTOR,
            length: pointer.stored_bytes(),
            incarnation: pointer.incarnation(),
        }
    }
}

/// A visitor of an index that counts its blocks.
pub struct IndexVisitor<'v, 'a> {
    image: &'v mut Image<'a>,
    ino: InodeNo,
    tally: Tally,
    pub(super) damaged: bool,
    /// Every block, for the ifile only.
    pub listed: Vec<(u64, Pointer)>,
}

impl Visitor for IndexVisitor<'_, '_> {
    fn node(&mut self, id: NodeId, pointer: &Pointer) -> bool {
        let placed = self.image.place(subject_of(id), pointer.into());
        self.damaged |= !placed;
        placed
    }

    fn block(&mut self, block: u64, pointer: &Pointer) {
        let ino = self.ino.0;
        let subject = Subject::Block { ino, block };
        let most = (u64::from(self.image.lfs.geometry_of_volume().block_bytes) / SECTOR) as u8;
        if pointer.sectors() > most {
            let sectors = pointer.sectors();
            let text = format!("the pointer says {sectors} sectors, a block has {most}");
            self.image.error(FindingKind::PointerBounds, subject, text);
        }
        if !pointer.is_unwritten() {
            self.image.place(subject, pointer.into());
        }
        self.tally.add(block, pointer);
        if self.ino == InodeNo::IFILE {
            self.listed.push((block, *pointer));
        }
    }

    fn refused(&mut self, id: NodeId, _: &Pointer, error: Error) {
        self.damaged = true;
        self.image
            .error(FindingKind::IndexNode, subject_of(id), plain(&error));
    }

    fn done(&self) -> bool {
        self.image.go_on().is_err()
    }
}

fn subject_of(id: NodeId) -> Subject {
    Subject::Node {
        ino: id.ino.0,
        height: id.height,
        index: id.index,
    }
}

impl<'a> Image<'a> {
    pub(super) fn visitor<'v>(&'v mut self, ino: InodeNo) -> IndexVisitor<'v, 'a> {
        IndexVisitor {
            image: self,
            ino,
            tally: Tally::default(),
            damaged: false,
            listed: Vec::new(),
        }
    }

    /// Counts a block in its segment. Returns false if its place is impossible.
    pub(super) fn place(&mut self, subject: Subject, stored: Stored) -> bool {
        let geometry = *self.lfs.geometry_of_volume();
        let sector = stored.byte / SECTOR;
        let sectors = (stored.byte % SECTOR + stored.length).div_ceil(SECTOR);
        let segment = geometry.segment_of(sector);
        let Some(segment) = segment.filter(|_| geometry.within_segment(sector, sectors)) else {
            let text = format!("sector {sector} is outside of every segment, or crosses one's end");
            self.error(FindingKind::PointerBounds, subject, text);
            return false;
        };
        let offset = stored.byte - geometry.byte(segment, 0);
        if offset < u64::from(geometry.payload_start(segment)) {
            let text = format!("sector {sector} belongs to a copy of the superblock");
            self.error(FindingKind::PointerBounds, subject, text);
            return false;
        }
        let held = self.hold.segments[segment as usize];
        if held.clean {
            let text = format!("sector {sector} is in segment {segment}, which is marked clean");
            self.error(FindingKind::SegmentState, subject, text);
        } else if held.incarnation != stored.incarnation {
            let text = format!(
                "the pointer names incarnation {} of segment {segment}, the usage table {}",
                stored.incarnation, held.incarnation
            );
            self.error(FindingKind::PointerIncarnation, subject, text);
        }
        let (bytes, length) = (geometry.segment_bytes, stored.length);
        if !self.claimed.claim(segment, bytes, offset, length) {
            let text = format!("sector {sector} is used by another block as well");
            self.error(FindingKind::PointerOverlap, subject, text);
        }
        let live = &mut self.live[segment as usize];
        *live = live.saturating_add(stored.length as u32);
        true
    }

    /// Verifies an inode of the map.
    pub(super) fn inode(&mut self, mapped: &Mapped, known: &mut Known) {
        self.usage.inodes += 1;
        self.control.update(|p| p.inodes += 1);
        match self.image_at(mapped) {
            Some(image) => self.one_file(mapped, &image, known),
            None => {
                self.unreadable.insert(mapped.ino);
                known.insert_damaged(mapped.ino);
            }
        }
    }

    pub(super) fn image_at(&mut self, mapped: &Mapped) -> Option<Arc<InodeImage>> {
        let subject = Subject::Inode(mapped.ino);
        let place = &mapped.place;
        let geometry = *self.lfs.geometry_of_volume();
        if u32::from(place.slot) >= geometry.inodes_per_sector() {
            let text = format!("the inode map says slot {} of a sector", place.slot);
            self.error(FindingKind::InodeMap, subject, text);
            return None;
        }
        let length = u64::from(geometry.inode_bytes);
        let stored = Stored {
            byte: place.sector * SECTOR + u64::from(place.slot) * length,
            length,
            incarnation: place.incarnation,
        };
        if !self.place(subject, stored) {
            self.blind = true;
            return None;
        }
        let image = match self.reader.inode(place, InodeNo(mapped.ino)) {
            Ok(image) => image,
            Err(error) => {
                self.error(FindingKind::Inode, subject, plain(&error));
                return None;
            }
        };
        let version = image.inode.version;
        let problem = if version != mapped.version {
            let wanted = mapped.version;
            format!("its version is {version}, the inode map's {wanted}")
        } else if image.root.is_none() {
            "the inode map leads to an image without an index".into()
        } else {
            return Some(image);
        };
        self.error(FindingKind::Inode, subject, problem);
        None
    }

    fn one_file(&mut self, mapped: &Mapped, image: &InodeImage, known: &mut Known) {
        let ino = InodeNo(mapped.ino);
        let none = Root::default();
        let root = image.root.as_ref().unwrap_or(&none);
        let reader = Arc::clone(&self.reader);
        let mut visitor = self.visitor(ino);
        walk(&reader, ino, mapped.version, root, &mut visitor);
        let (tally, damaged) = (visitor.tally, visitor.damaged);
        self.attributes(&image.inode, &image.xattrs);
        self.usage.blocks = self.usage.blocks.saturating_add(tally.blocks);
        let sectors = tally.sectors.saturating_add(image.xattrs.sectors().into());
        self.usage.sectors = self.usage.sectors.saturating_add(sectors);
        let inode = &image.inode;
        let unfinished = inode.is_unfinished();
        if damaged {
            self.blind = true;
            self.unreadable.insert(mapped.ino);
        } else {
            self.shape(inode, &tally, unfinished);
        }
        if unfinished {
            self.unfinished += 1;
            if !self.hold.base.unfinished.contains(&mapped.ino) {
                let text = "has no name or is in the middle of a truncate, but is not on the list \
                            of unfinished inodes: nobody will free it";
                self.error(FindingKind::Unfinished, Subject::Inode(mapped.ino), text);
            }
        }
        if inode.kind() == FileKind::Directory {
            self.directories.insert(mapped.ino);
        }
        known.insert(mapped.ino, inode.kind(), inode.nlink);
    }

    fn shape(&mut self, inode: &Inode, tally: &Tally, unfinished: bool) {
        let block_bytes = self.lfs.geometry_of_volume().block_bytes;
        let beyond = size_flaw(inode, tally, block_bytes).filter(|_| !unfinished);
        let flaws = [
            (FindingKind::BlockCount, count_flaw(inode, tally, "")),
            (FindingKind::Inode, content_flaw(inode, tally)),
            (FindingKind::BeyondSize, beyond),
        ];
        for (kind, flaw) in flaws {
            if let Some(text) = flaw {
                self.error(kind, Subject::Inode(inode.ino.0), text);
            }
        }
    }

    fn attributes(&mut self, inode: &Inode, pointer: &Pointer) {
        let subject = Subject::Inode(inode.ino.0);
        let bytes = u64::from(inode.xattr_bytes);
        if u64::from(pointer.sectors()) != bytes.div_ceil(SECTOR) || pointer.is_unwritten() {
            let sectors = pointer.sectors();
            let text = format!("has {bytes} bytes of extended attributes in {sectors} sectors");
            self.error(FindingKind::Attributes, subject, text);
        }
        if pointer.is_none() || pointer.is_unwritten() || !self.place(subject, pointer.into()) {
            return;
        }
        let problem = match self.reader.block(pointer, inode.ino, 0) {
            Ok(mut blob) => {
                blob.truncate(inode.xattr_bytes as usize);
                attributes_flaw(&blob)
            }
            Err(error) if is_damage(&error) => {
                Some(format!("its extended attributes: {}", plain(&error)))
            }
            Err(_) => None,
        };
        if let Some(problem) = problem {
            self.error(FindingKind::Attributes, subject, problem);
        }
    }
}
