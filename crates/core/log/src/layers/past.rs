//! Reading a snapshot of the volume: the image of the last checkpoint, corrected by the
//! history (`docs/design/snapshots.md`, "Reading").
//!
//! Each answer is read of one image. A place in it may be stale by the time it is read,
//! as any place may: the reader then asks again.

use crate::base::Base;
use crate::error::{Error, Result};
use crate::format::Pointer;
use crate::format::history::{HISTORY, Identity};
use crate::format::index::Index;
use crate::format::inode::InodeImage;
use crate::history::{History, HistoryFile, Snapshot};
use crate::kept::{attributes, data_block};
use crate::layers::Layers;
use crate::reader::Tree;
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_fs::InodeNo;

/// A snapshot, and the image that it is read of.
struct Past<'a> {
    layers: &'a Layers,
    base: &'a Base,
    snapshot: &'a Snapshot,
    history: &'a History<'a>,
}

impl Layers {
    /// Reads the history of a base image: `look` gets it with the image.
    pub(crate) fn with_history<T>(
        &self,
        base: &Base,
        look: impl FnOnce(&History<'_>) -> Result<T>,
    ) -> Result<T> {
        let inode = base.history.inode.as_ref();
        let file = HistoryFile {
            reader: &self.reader,
            root: inode.and_then(|inode| inode.root.as_ref()),
            moved: &|block| self.committed.read().moved_to(HISTORY, block),
        };
        look(&History {
            directory: &base.history.directory,
            pages: &file,
            inode_bytes: self.geometry.inode_bytes as usize,
        })
    }

    /// Looks into snapshot `number` of the volume. If the image is replaced meanwhile, its
    /// blocks may be written over: a look that fails for that begins anew.
    ///
    /// # Errors
    /// `Aborted` if there is no such snapshot any more; what `look` fails with.
    fn look_back<T>(
        &self,
        number: u32,
        look: impl Fn(&Past<'_>) -> Result<T>,
    ) -> varve_fs::Result<T> {
        let found = self.lookup().steady(|| {
            let base = Arc::clone(&self.committed.read().base);
            let Some(snapshot) = base.history.directory.get(number) else {
                return Ok(None);
            };
            let found = self.with_history(&base, |history| {
                look(&Past {
                    layers: self,
                    base: &base,
                    snapshot,
                    history,
                })
            });
            found.map(Some)
        });
        found?.ok_or(varve_fs::Error::Aborted)
    }

    /// The image of an inode in a snapshot. Its root is not to be used.
    pub(crate) fn past_inode(&self, number: u32, ino: InodeNo) -> varve_fs::Result<InodeImage> {
        self.look_back(number, |past| past.inode(ino))
    }

    /// Where the extended attributes of an inode in a snapshot are.
    pub(crate) fn past_xattrs(&self, number: u32, ino: InodeNo) -> varve_fs::Result<Pointer> {
        self.look_back(number, |past| past.xattrs(ino))
    }

    /// The blocks `from..to` of an inode in a snapshot that exist, ascending.
    pub(crate) fn past_blocks(
        &self,
        number: u32,
        ino: InodeNo,
        (from, to): (u64, u64),
    ) -> varve_fs::Result<Vec<(u64, Pointer)>> {
        self.look_back(number, |past| past.blocks(ino, from, to))
    }

    /// The first block at or after `from` of an inode in a snapshot.
    pub(crate) fn past_next(
        &self,
        number: u32,
        ino: InodeNo,
        from: u64,
    ) -> varve_fs::Result<Option<u64>> {
        self.look_back(number, |past| past.next(ino, from))
    }
}

impl Past<'_> {
    fn inode(&self, ino: InodeNo) -> Result<InodeImage> {
        if ino == HISTORY || ino == InodeNo::IFILE {
            return Err(Error::NoInode(ino));
        }
        let number = self.snapshot.number;
        if let Some(displaced) = self.history.image_at(ino.0, number)? {
            return match displaced.after < number {
                true => Ok(displaced.image),
                false => Err(Error::NoInode(ino)),
            };
        }
        let (reader, geometry) = (&self.layers.reader, &self.layers.geometry);
        let epoch = self.base.epoch(reader, geometry, ino)?;
        let image = match epoch.is_some_and(|epoch| epoch < number) {
            true => self.base.inode(reader, geometry, ino)?,
            false => None,
        };
        let image = image.ok_or(Error::NoInode(ino))?;
        Ok((*image).clone())
    }

    /// The inode of the image, if it is the same file.
    fn present(&self, image: &InodeImage) -> Result<Option<Arc<InodeImage>>> {
        let (reader, geometry) = (&self.layers.reader, &self.layers.geometry);
        let present = self.base.inode(reader, geometry, image.inode.ino)?;
        Ok(present.filter(|present| present.inode.version == image.inode.version))
    }

    fn xattrs(&self, ino: InodeNo) -> Result<Pointer> {
        let image = self.inode(ino)?;
        if image.inode.xattr_bytes == 0 {
            return Ok(Pointer::NONE);
        }
        let first = attributes(ino, image.inode.version);
        let present = self.present(&image)?.map(|present| (0, present.xattrs));
        let found = self.corrected(first, 1, present.into_iter().collect())?;
        Ok(found.first().map_or(Pointer::NONE, |(_, pointer)| *pointer))
    }

    fn blocks(&self, ino: InodeNo, from: u64, to: u64) -> Result<Vec<(u64, Pointer)>> {
        let image = self.inode(ino)?;
        let mut present = Vec::new();
        if let Some(now) = self.present(&image)?
            && let Some(root) = &now.root
        {
            self.tree(ino, root)
                .blocks(from, to, &mut |block, pointer| {
                    present.push((block, pointer));
                    true
                })?;
        }
        let first = data_block(ino, image.inode.version, from);
        self.corrected(first, to, present)
    }

    fn tree<'t>(&'t self, ino: InodeNo, root: &'t crate::format::inode::Root) -> Tree<'t> {
        Tree {
            reader: &self.layers.reader,
            ino,
            root,
        }
    }

    /// What the snapshot has of `first.block..to` of a file, of which the image has
    /// these blocks.
    fn corrected(
        &self,
        first: Identity,
        to: u64,
        present: Vec<(u64, Pointer)>,
    ) -> Result<Vec<(u64, Pointer)>> {
        let Snapshot {
            number, position, ..
        } = *self.snapshot;
        let displaced = self.history.blocks_at(first, to, number)?;
        let mut blocks: BTreeMap<u64, Pointer> = displaced
            .into_iter()
            .filter(|(_, entry)| entry.pointer.birth() <= position)
            .map(|(block, entry)| (block, entry.pointer))
            .collect();
        let unchanged =
            |(_, pointer): &(u64, Pointer)| !pointer.is_none() && pointer.birth() <= position;
        blocks.extend(present.into_iter().filter(unchanged));
        let committed = self.layers.committed.read();
        let placed = blocks.into_iter().map(|(block, pointer)| {
            let identity = Identity { block, ..first };
            let moved = committed.moved(identity, pointer.birth());
            (block, moved.unwrap_or(pointer))
        });
        Ok(placed.collect())
    }

    fn next(&self, ino: InodeNo, mut from: u64) -> Result<Option<u64>> {
        let image = self.inode(ino)?;
        let present = self.present(&image)?;
        loop {
            let mut next = None;
            if let Some(root) = present.as_ref().and_then(|now| now.root.as_ref()) {
                self.tree(ino, root)
                    .blocks(from, u64::MAX, &mut |block, _| {
                        next = Some(block);
                        false
                    })?;
            }
            let first = data_block(ino, image.inode.version, from);
            let displaced = self.history.next_displaced(first, self.snapshot.number)?;
            let Some(candidate) = [next, displaced].into_iter().flatten().min() else {
                return Ok(None);
            };
            if !self.blocks(ino, candidate, candidate + 1)?.is_empty() {
                return Ok(Some(candidate));
            }
            from = candidate + 1;
        }
    }
}
