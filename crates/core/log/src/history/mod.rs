//! Snapshots of the volume: which there are, and what they have that the tree does not
//! (`docs/design/snapshots.md`).
//!
//! The *history* is the table of snapshots and the *runs*: sorted arrays of displaced
//! blocks and displaced inode images, written once, youngest first. A snapshot is read
//! as the image of the last checkpoint, corrected by the history.
//!
//! Invariants:
//! - Snapshots ascend by number and by position.
//! - Within a run keys ascend strictly; runs do not overlap in the file.
//! - An entry of a younger run replaces an entry of an older run with the same identity,
//!   birth and `last`: the block was moved.
//! - The usage table counts the bytes of an entry exactly if the table of snapshots has
//!   one that keeps the entry.

mod array;
mod directory;
mod merge;
mod search;
#[cfg(test)]
mod tests;

pub(crate) use array::Pages;
pub(crate) use directory::limit as directory_limit;
pub use directory::{Directory, Run, Snapshot};
pub(crate) use merge::{MergedBlocks, MergedImages, RunEntries};
pub(crate) use search::History;

use crate::delta::Delta;
use crate::error::{Error, Result};
use crate::format::history::{DisplacedBlock, HISTORY, HistoryHeader};
use crate::format::inode::{InodeImage, Root};
use crate::format::{Malformed, Pointer};
use crate::geometry::Geometry;
use crate::reader::{Reader, Tree};
use std::sync::Arc;
use varve_device::Block;
use varve_fs::InodeNo;
use zerocopy::FromBytes;

/// What a checkpoint changes in the table of snapshots.
#[derive(Clone, Debug, Default)]
pub(crate) struct HistoryChanges {
    /// The checkpoint is a snapshot with this name.
    pub create: Option<String>,
    /// Snapshots that are deleted.
    pub delete: Vec<u32>,
    /// A snapshot that gets a name.
    pub rename: Option<(u32, String)>,
}

/// The history at a checkpoint.
#[derive(Debug, Default)]
pub struct HistoryImage {
    /// Snapshots and runs.
    pub directory: Directory,
    /// The inode of the history file; none on a volume that never had a snapshot.
    pub inode: Option<Arc<InodeImage>>,
    /// Why the history cannot be read, if so: the volume takes no writes then, as they
    /// could overwrite what snapshots have.
    pub problem: Option<String>,
}

impl HistoryImage {
    /// Reads the directory of the history file with this inode.
    ///
    /// # Errors
    /// If the file cannot be read, or its directory is malformed.
    pub fn load(
        inode: Option<Arc<InodeImage>>,
        reader: &Reader,
        geometry: &Geometry,
    ) -> Result<Self> {
        let Some(inode) = inode else {
            return Ok(HistoryImage::default());
        };
        let file = HistoryFile {
            reader,
            root: inode.root.as_ref(),
            moved: &|_| None,
        };
        let first = file.page(0)?;
        let header = HistoryHeader::read_from_prefix(&first);
        let bytes = header.map_or(0, |(header, _)| header.bytes.get());
        let mut directory = first.to_vec();
        let limit = crate::format::history::RUNS_FROM * u64::from(geometry.block_bytes);
        for block in 1..bytes.min(limit).div_ceil(u64::from(geometry.block_bytes)) {
            directory.extend_from_slice(&file.page(block)?);
        }
        directory.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
        let directory = Directory::decode(&directory)?;
        // Every block of a run is stored, so there are no more than the volume has.
        let sizes = (geometry.inode_bytes as usize, geometry.block_bytes as usize);
        let pages: u64 = (directory.runs.iter())
            .map(|run| run.pages(sizes.0, sizes.1))
            .fold(0, u64::saturating_add);
        if pages > geometry.volume_bytes() / u64::from(geometry.block_bytes) {
            let problem = format!("its runs have {pages} blocks");
            return Err(Malformed::new("history directory", problem).into());
        }
        Ok(HistoryImage {
            directory,
            inode: Some(inode),
            problem: None,
        })
    }

    /// Shows `look` each block that snapshots keep, once, at its place at the checkpoint.
    /// `log` is what the log behind the checkpoint says.
    ///
    /// # Errors
    /// If a run cannot be read.
    pub fn kept_blocks(
        &self,
        reader: &Reader,
        log: &Delta,
        look: &mut dyn FnMut(&DisplacedBlock),
    ) -> Result<()> {
        let file = HistoryFile {
            reader,
            root: self.inode.as_ref().and_then(|inode| inode.root.as_ref()),
            moved: &|block| log.inode(HISTORY.0)?.blocks.get(block),
        };
        let history = History {
            directory: &self.directory,
            pages: &file,
            inode_bytes: reader.geometry.inode_bytes as usize,
        };
        let mut blocks = MergedBlocks::new(&history, &self.directory.runs)?;
        while let Some(entry) = blocks.next()? {
            if self
                .directory
                .keeps(entry.pointer.birth(), entry.last.get())
            {
                look(&entry);
            }
        }
        // What images there are must be such.
        let mut images = MergedImages::new(&history, &self.directory.runs)?;
        while let Some((header, inode)) = images.next()? {
            InodeImage::decode(&inode, InodeNo(header.ino.get()))?;
        }
        Ok(())
    }

    /// Bytes on the device that only the history has: blocks that snapshots keep, and
    /// the blocks of the history file.
    pub fn bytes(&self) -> u64 {
        let file = self.inode.as_ref().map_or(0, |image| image.inode.sectors);
        self.directory.kept_bytes.saturating_add(file * 512)
    }
}

/// The blocks of the history file at a checkpoint.
pub(crate) struct HistoryFile<'a> {
    pub reader: &'a Reader,
    /// The root of its index at the checkpoint.
    pub root: Option<&'a Root>,
    /// Where the cleaner has moved a block since, if it has.
    pub moved: &'a dyn Fn(u64) -> Option<Pointer>,
}

impl Pages for HistoryFile<'_> {
    fn page(&self, block: u64) -> Result<Arc<Block>> {
        let root = self.root.ok_or_else(|| missing(block))?;
        let tree = Tree {
            reader: self.reader,
            ino: HISTORY,
            root,
        };
        let pointer = tree.get(block)?.ok_or_else(|| missing(block))?;
        let place = || {
            let moved = (self.moved)(block).filter(|moved| moved.birth() == pointer.birth());
            moved.unwrap_or(pointer)
        };
        loop {
            let at = place();
            match self.reader.page(&at, HISTORY, block) {
                // The cleaner moved it meanwhile, and the place was written over.
                Err(error) if error.is_of_the_medium() && place() != at => {}
                read => return read,
            }
        }
    }

    fn page_bytes(&self) -> usize {
        self.reader.geometry.block_bytes as usize
    }
}

fn missing(block: u64) -> Error {
    Malformed::new("history", format!("block {block} is missing")).into()
}
