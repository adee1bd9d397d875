//! The image of the last completed checkpoint, read page by page.
//!
//! Immutable: a new checkpoint makes a new `Base` that shares what did not
//! change. Nothing of it is loaded whole but the segment usage table.

use crate::error::{Error, Result};
use crate::format::ifile::{ImapEntry, ImapState};
use crate::format::inode::{InodeImage, Root};
use crate::format::{Malformed, Mark, entries};
use crate::geometry::Geometry;
use crate::history::HistoryImage;
use crate::reader::{Reader, Tree};
use std::collections::BTreeSet;
use std::sync::Arc;
use varve_fs::{Inode, InodeNo, Usage, Version};

/// Project of the ifile's inode if its other fields have a mark.
const REPLAYED: u32 = 1;

/// Puts it where [`Base::replayed`] finds it.
pub fn set_replayed(ifile: &mut Inode, mark: Option<Mark>) {
    let present = mark.is_some();
    let mark = mark.unwrap_or_default();
    ifile.project = if present { REPLAYED } else { 0 };
    (ifile.rdev, ifile.uid) = (mark.serial, mark.check);
}

/// The state of the volume at a checkpoint.
#[derive(Debug)]
pub struct Base {
    /// The checkpoint's number.
    pub serial: u64,
    /// The ifile, root included.
    pub ifile: InodeImage,
    /// One more than the highest inode number ever used.
    pub next_ino: u64,
    /// Version of the first file of a number that is not in the map.
    pub first_version: Version,
    /// Head of the free list; 0 is none.
    pub free_head: u64,
    /// Numbers on it.
    pub free_count: u64,
    /// Inodes without names, or in the middle of a truncate.
    pub unfinished: BTreeSet<u64>,
    /// What lives on the volume.
    pub usage: Usage,
    /// Live bytes of index nodes and of the ifile.
    pub metadata_bytes: u64,
    /// Height of the tallest index there ever was.
    pub tallest: u8,
    /// Snapshots, and what they have that this image does not lead to.
    pub history: Arc<HistoryImage>,
}

impl Base {
    /// The ifile's root.
    ///
    /// # Panics
    /// If it has none: a record without one is refused before it becomes a base.
    pub fn ifile_root(&self) -> &Root {
        self.ifile
            .root
            .as_ref()
            .expect("a checkpoint's ifile has a root")
    }

    /// Where the volume stands as a copy of another, if it is one.
    pub fn replayed(&self) -> Option<Mark> {
        let inode = &self.ifile.inode;
        let mark = Mark {
            serial: inode.rdev,
            check: inode.uid,
        };
        (inode.project == REPLAYED).then_some(mark)
    }

    /// The ifile's index.
    pub fn ifile_tree<'a>(&'a self, reader: &'a Reader) -> Tree<'a> {
        Tree {
            reader,
            ino: InodeNo::IFILE,
            root: self.ifile_root(),
        }
    }

    /// The map entry of `ino`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn imap(&self, reader: &Reader, geometry: &Geometry, ino: InodeNo) -> Result<ImapState> {
        if ino.0 >= self.next_ino {
            return Ok(ImapState::Unused);
        }
        let per_block = geometry.entries_per_block();
        let block = geometry.imap_block(ino.0);
        let Some((pointer, bytes)) = reader.ifile_page(self.ifile_root(), block)? else {
            return Ok(ImapState::Unused);
        };
        let at = (ino.0 % per_block) as usize;
        let entry = entries::<ImapEntry>(&bytes).get(at);
        entry
            .map_or(Ok(ImapState::Unused), ImapEntry::state)
            .map_err(|source| {
                Error::damaged(
                    geometry.segment_of(pointer.sector()),
                    pointer.sector(),
                    source,
                )
            })
    }

    /// Number of the newest snapshot when `ino` last changed, if it exists at this
    /// checkpoint.
    ///
    /// # Errors
    /// If the inode map cannot be read.
    pub fn epoch(&self, reader: &Reader, geometry: &Geometry, ino: InodeNo) -> Result<Option<u32>> {
        match self.imap(reader, geometry, ino)? {
            ImapState::Used { epoch, .. } => Ok(Some(epoch)),
            ImapState::Unused | ImapState::Free { .. } => Ok(None),
        }
    }

    /// The image of `ino`, if it exists at this checkpoint.
    ///
    /// # Errors
    /// If it cannot be read, or carries no root: a checkpoint's images do.
    pub fn inode(
        &self,
        reader: &Reader,
        geometry: &Geometry,
        ino: InodeNo,
    ) -> Result<Option<Arc<InodeImage>>> {
        let ImapState::Used { version, place, .. } = self.imap(reader, geometry, ino)? else {
            return Ok(None);
        };
        let image = reader.inode(&place, ino)?;
        let refused = |problem: &str| {
            let problem = format!("{ino}: {problem}");
            Error::damaged(
                geometry.segment_of(place.sector),
                place.sector,
                Malformed::new("inode", problem),
            )
        };
        if image.inode.version != version {
            return Err(refused("its version differs from the inode map's"));
        }
        if image.root.is_none() {
            return Err(refused("the inode map leads to an image without a root"));
        }
        Ok(Some(image))
    }
}
