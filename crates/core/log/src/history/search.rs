//! Questions about a history: what a snapshot had, and whether a snapshot has a block.

use super::array::{Array, Pages};
use super::{Directory, Run};
use crate::error::Result;
use crate::format::Malformed;
use crate::format::history::{DisplacedBlock, Identity, ImageHeader};
use crate::format::inode::InodeImage;
use std::collections::BTreeMap;
use varve_fs::InodeNo;
use zerocopy::FromBytes;

/// The runs of a history, and where their blocks are read.
pub(crate) struct History<'a> {
    pub directory: &'a Directory,
    pub pages: &'a dyn Pages,
    pub inode_bytes: usize,
}

/// An inode image that was displaced.
#[derive(Clone, Debug)]
pub(crate) struct DisplacedImage {
    /// Snapshots up to this number do not have it.
    pub after: u32,
    /// Attributes and inline content; its root is not to be used.
    pub image: InodeImage,
}

impl Run {
    /// Its entries of blocks.
    pub(crate) fn blocks_array(&self) -> Array {
        Array {
            first_block: self.first_block,
            count: self.blocks,
            entry_bytes: size_of::<DisplacedBlock>(),
        }
    }

    /// Its entries of images.
    pub(crate) fn images_array(&self, inode_bytes: usize, page_bytes: usize) -> Array {
        Array {
            first_block: self.first_block + self.blocks_array().pages(page_bytes),
            count: self.images,
            entry_bytes: size_of::<ImageHeader>() + inode_bytes,
        }
    }

    /// Blocks of the history file that it takes.
    pub(crate) fn pages(&self, inode_bytes: usize, page_bytes: usize) -> u64 {
        let images = self.images_array(inode_bytes, page_bytes);
        self.blocks_array().pages(page_bytes) + images.pages(page_bytes)
    }
}

/// A stored entry of a block.
///
/// # Errors
/// If no writer makes it.
pub(crate) fn decode_block(bytes: &[u8]) -> Result<DisplacedBlock> {
    let Ok(entry) = DisplacedBlock::read_from_bytes(bytes) else {
        return Err(Malformed::new("history entry", "it is cut off").into());
    };
    entry.check()?;
    Ok(entry)
}

/// The header of a stored image.
///
/// # Errors
/// If the bytes are too few.
pub(crate) fn image_header(bytes: &[u8]) -> Result<ImageHeader> {
    match ImageHeader::read_from_prefix(bytes) {
        Ok((header, _)) => Ok(header),
        Err(_) => Err(Malformed::new("history image", "it is cut off").into()),
    }
}

impl History<'_> {
    pub(super) fn images_of(&self, run: &Run) -> Array {
        run.images_array(self.inode_bytes, self.pages.page_bytes())
    }

    /// For each block of `first.block..to` of a file that was displaced behind snapshot
    /// `number`: the entry that was displaced first behind it. The other fields of
    /// `first` name the file.
    ///
    /// # Errors
    /// If a run cannot be read.
    pub fn blocks_at(
        &self,
        first: Identity,
        to: u64,
        number: u32,
    ) -> Result<BTreeMap<u64, DisplacedBlock>> {
        let mut found: BTreeMap<u64, DisplacedBlock> = BTreeMap::new();
        let end = Identity { block: to, ..first };
        for run in self
            .directory
            .runs
            .iter()
            .filter(|run| run.span.1 >= number)
        {
            let array = run.blocks_array();
            let mut cursor = array.seek(self.pages, |bytes| {
                Ok(decode_block(bytes)?.key() < (first, 0, 0))
            })?;
            while let Some(bytes) = cursor.next()? {
                let entry = decode_block(bytes)?;
                if entry.identity() >= end {
                    break;
                }
                if entry.last.get() < number {
                    continue;
                }
                // Of two entries with the same key the younger run has the place.
                let known = found.entry(entry.block.get()).or_insert(entry);
                if entry.last.get() < known.last.get() {
                    *known = entry;
                }
            }
        }
        Ok(found)
    }

    /// The first block at or after `first.block` of a file that was displaced behind
    /// snapshot `number`.
    ///
    /// # Errors
    /// If a run cannot be read.
    pub fn next_displaced(&self, first: Identity, number: u32) -> Result<Option<u64>> {
        let mut next: Option<u64> = None;
        for run in self
            .directory
            .runs
            .iter()
            .filter(|run| run.span.1 >= number)
        {
            let array = run.blocks_array();
            let mut cursor = array.seek(self.pages, |bytes| {
                Ok(decode_block(bytes)?.key() < (first, 0, 0))
            })?;
            while let Some(bytes) = cursor.next()? {
                let entry = decode_block(bytes)?;
                let of_file = Identity {
                    block: first.block,
                    ..entry.identity()
                };
                let block = entry.block.get();
                if of_file != first || next.is_some_and(|next| next <= block) {
                    break;
                }
                if entry.last.get() >= number {
                    next = Some(block);
                    break;
                }
            }
        }
        Ok(next)
    }

    /// The entry of a block with this birth, which has its present place.
    ///
    /// # Errors
    /// If a run cannot be read.
    pub fn entry_of(&self, identity: Identity, birth: u64) -> Result<Option<DisplacedBlock>> {
        for run in &self.directory.runs {
            let array = run.blocks_array();
            let mut cursor = array.seek(self.pages, |bytes| {
                Ok(decode_block(bytes)?.key() < (identity, 0, 0))
            })?;
            while let Some(bytes) = cursor.next()? {
                let entry = decode_block(bytes)?;
                if entry.identity() != identity {
                    break;
                }
                if entry.pointer.birth() == birth {
                    return Ok(Some(entry));
                }
            }
        }
        Ok(None)
    }

    /// The image of `ino` that was displaced first behind snapshot `number`, if one was.
    ///
    /// # Errors
    /// If a run cannot be read, or an image is malformed.
    pub fn image_at(&self, ino: u64, number: u32) -> Result<Option<DisplacedImage>> {
        let mut first: Option<(u32, Vec<u8>)> = None;
        for run in self
            .directory
            .runs
            .iter()
            .filter(|run| run.span.1 >= number)
        {
            let mut cursor = self.images_of(run).seek(self.pages, |bytes| {
                let header = image_header(bytes)?;
                Ok((header.ino.get(), header.last.get()) < (ino, number))
            })?;
            let Some(bytes) = cursor.next()? else {
                continue;
            };
            let header = image_header(bytes)?;
            let last = header.last.get();
            if header.ino.get() == ino && first.as_ref().is_none_or(|first| last < first.0) {
                first = Some((last, bytes.to_vec()));
            }
        }
        let Some((_, bytes)) = first else {
            return Ok(None);
        };
        let image = InodeImage::decode(&bytes[size_of::<ImageHeader>()..], InodeNo(ino))?;
        Ok(Some(DisplacedImage {
            after: image_header(&bytes)?.after.get(),
            image,
        }))
    }
}
