//! The volume mounted for repair. Changes are appended to the log like any others.
//!
//! The changes of each inode are collected in an [`Edit`] and appended as part of a
//! group. A group contains whole edits, so that names and their files change together.
//! Only an edit of very many inodes takes several groups; after each of them the volume
//! can be repaired again.

use crate::check::Survey;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use varve_device::Block;
use varve_fs::directory::{DirectoryBlocks, Key};
use varve_fs::{Inode, InodeNo, Usage};
use varve_lfs::format::{Pointer, SECTOR};
use varve_lfs::internal::{GroupKind, LogItem, MAX_BLOCK, Record};
use varve_lfs::{Error, Lfs, Result};

/// Changes of one inode.
pub(crate) struct Edit {
    pub(crate) inode: Inode,
    records: Vec<Record>,
    /// Blocks from this number on are freed, except for those in `blocks`.
    cleared_from: u64,
    freed_blocks: BTreeSet<u64>,
    blocks: BTreeMap<u64, Arc<Block>>,
    xattrs: Option<Arc<Block>>,
    /// True if the number is free, with the next version for its next file.
    freed: bool,
}

/// The mounted volume with the edits that are not appended yet.
pub(crate) struct Session {
    pub(crate) lfs: Lfs,
    edits: BTreeMap<u64, Edit>,
    usage: Usage,
    bytes: u64,
}

impl Session {
    pub(crate) fn new(lfs: Lfs, survey: &Survey) -> Self {
        Session {
            lfs,
            edits: BTreeMap::new(),
            usage: survey.usage,
            bytes: 0,
        }
    }

    /// Returns the edit of an inode, made from its newest image.
    ///
    /// # Errors
    /// If there is no such inode, or it cannot be read.
    pub(crate) fn edit(&mut self, ino: u64) -> Result<&mut Edit> {
        if !self.edits.contains_key(&ino) {
            let (image, _) = self.lfs.layers().lookup().inode(InodeNo(ino))?;
            self.edits.insert(ino, Edit::of(image.inode.clone()));
        }
        let edit = self.edits.get_mut(&ino).expect("just inserted");
        if edit.freed {
            return Err(Error::NoInode(InodeNo(ino)));
        }
        self.bytes += 64;
        Ok(edit)
    }

    /// Creates an inode that does not exist yet.
    pub(crate) fn create(&mut self, inode: Inode) {
        self.usage.inodes += 1;
        let records = match self.edits.remove(&inode.ino.0) {
            Some(edit) => edit.records,
            None => Vec::new(),
        };
        let edit = Edit {
            records,
            cleared_from: 0,
            ..Edit::of(inode)
        };
        self.edits.insert(edit.inode.ino.0, edit);
    }

    /// Frees an existing inode.
    ///
    /// # Errors
    /// The same as [`Session::edit`].
    pub(crate) fn free(&mut self, ino: u64) -> Result<()> {
        let edit = self.edit(ino)?;
        edit.freed = true;
        edit.records = vec![Record::Freed(edit.inode.version.wrapping_add(1))];
        edit.blocks.clear();
        edit.xattrs = None;
        self.usage.inodes = self.usage.inodes.saturating_sub(1);
        Ok(())
    }

    /// Frees a number of which no file is known.
    pub(crate) fn free_number(&mut self, ino: u64, next_version: u32) {
        let mut inode = super::images::new_directory(InodeNo(ino), next_version.wrapping_sub(1));
        inode.nlink = 0;
        let edit = Edit {
            records: vec![Record::Freed(next_version)],
            freed: true,
            ..Edit::of(inode)
        };
        self.edits.insert(ino, edit);
    }

    /// Returns the stored pointer of `block`, without the edits.
    fn below(&self, ino: u64, block: u64) -> Result<Option<Pointer>> {
        match self
            .lfs
            .layers()
            .lookup()
            .blocks(InodeNo(ino), block, block + 1)
        {
            Ok((blocks, _)) => Ok(blocks.first().map(|(_, pointer)| *pointer)),
            Err(Error::NoInode(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the sectors of the block with the edits; `None` for a hole.
    fn sectors(&self, ino: u64, block: u64) -> Result<Option<u64>> {
        if let Some(edit) = self.edits.get(&ino) {
            if let Some(bytes) = edit.blocks.get(&block) {
                return Ok(Some((bytes.len() as u64).div_ceil(SECTOR)));
            }
            if edit.hides(block) {
                return Ok(None);
            }
        }
        Ok(self
            .below(ino, block)?
            .map(|pointer| u64::from(pointer.sectors())))
    }

    /// Returns the pointer of `block`, and its content.
    ///
    /// # Errors
    /// If the index cannot be read. The inner result says whether the block can be read.
    pub(crate) fn stored(&self, ino: u64, block: u64) -> Result<Option<(Pointer, Result<Block>)>> {
        let Some(pointer) = self.below(ino, block)? else {
            return Ok(None);
        };
        let bytes = self.lfs.reader().block(&pointer, InodeNo(ino), block);
        Ok(Some((pointer, bytes)))
    }

    /// Replaces a block's content, or creates the block.
    ///
    /// # Errors
    /// The same as [`Session::edit`].
    pub(crate) fn put_block(&mut self, ino: u64, block: u64, bytes: Block) -> Result<()> {
        let former = self.sectors(ino, block)?;
        let sectors = (bytes.len() as u64).div_ceil(SECTOR);
        self.bytes += bytes.len() as u64;
        let edit = self.edit(ino)?;
        edit.blocks.insert(block, Arc::new(bytes));
        self.count(ino, former, Some(sectors));
        Ok(())
    }

    /// Replaces a block by a hole.
    ///
    /// # Errors
    /// The same as [`Session::edit`].
    pub(crate) fn drop_block(&mut self, ino: u64, block: u64) -> Result<()> {
        let former = self.sectors(ino, block)?;
        let edit = self.edit(ino)?;
        edit.blocks.remove(&block);
        if edit.freed_blocks.insert(block) && !edit.hidden_by_truncate(block) {
            edit.records.push(Record::Punched(block, block + 1));
        }
        self.count(ino, former, None);
        Ok(())
    }

    /// Drops every block from `from` on.
    ///
    /// # Errors
    /// The same as [`Session::edit`].
    pub(crate) fn truncate(&mut self, ino: u64, from: u64) -> Result<()> {
        let (blocks, _) = self
            .lfs
            .layers()
            .lookup()
            .blocks(InodeNo(ino), from, MAX_BLOCK)?;
        for (block, _) in blocks {
            let former = self.sectors(ino, block)?;
            self.count_edit(ino, former)?;
        }
        let edit = self.edit(ino)?;
        edit.records.push(Record::Truncated(from));
        edit.cleared_from = edit.cleared_from.min(from);
        edit.blocks.retain(|block, _| *block < from);
        Ok(())
    }

    fn count_edit(&mut self, ino: u64, former: Option<u64>) -> Result<()> {
        self.edit(ino)?;
        self.count(ino, former, None);
        Ok(())
    }

    /// Replaces the extended attributes.
    ///
    /// # Errors
    /// The same as [`Session::edit`].
    pub(crate) fn put_xattrs(&mut self, ino: u64, blob: Vec<u8>) -> Result<()> {
        self.bytes += blob.len() as u64;
        let edit = self.edit(ino)?;
        let former = u64::from(edit.inode.xattr_bytes).div_ceil(SECTOR);
        edit.inode.xattr_bytes = blob.len() as u32;
        let now = (blob.len() as u64).div_ceil(SECTOR);
        edit.xattrs = Some(Arc::new(blob.into()));
        self.usage.sectors = self.usage.sectors.saturating_sub(former) + now;
        Ok(())
    }

    fn count(&mut self, ino: u64, former: Option<u64>, now: Option<u64>) {
        let change = |blocks: &mut u64, sectors: &mut u64| {
            // The counts of a damaged inode are arbitrary.
            let (more, fewer) = (u64::from(now.is_some()), u64::from(former.is_some()));
            *blocks = blocks.saturating_add(more).saturating_sub(fewer);
            let (more, fewer) = (now.unwrap_or(0), former.unwrap_or(0));
            *sectors = sectors.saturating_add(more).saturating_sub(fewer);
        };
        if let Some(edit) = self.edits.get_mut(&ino) {
            change(&mut edit.inode.blocks, &mut edit.inode.sectors);
        }
        change(&mut self.usage.blocks, &mut self.usage.sectors);
    }

    /// Returns the blocks of a directory, for reading and changing.
    pub(crate) fn directory(&mut self, ino: u64) -> EditedBlocks<'_> {
        EditedBlocks {
            session: self,
            ino,
            failed: None,
        }
    }

    /// Returns the parameters for reading a directory.
    ///
    /// # Errors
    /// The same as [`Session::edit`].
    pub(crate) fn key(&mut self, ino: u64) -> Result<Key> {
        let hash_seed = self.lfs.superblock().hash_seed.get();
        let case_fold = self.lfs.superblock().case_fold();
        let version = self.edit(ino)?.inode.version;
        Ok(Key {
            hash_seed,
            case_fold,
            ino: InodeNo(ino),
            version,
        })
    }

    /// Appends the edits if they fill a group.
    ///
    /// # Errors
    /// If there is no space, or the device fails.
    pub(crate) fn flush_if_full(&mut self) -> Result<()> {
        if self.bytes >= self.lfs.geometry_of_volume().group_bytes() {
            self.flush()?;
        }
        Ok(())
    }

    /// Appends the edits.
    ///
    /// # Errors
    /// The same as [`Session::flush_if_full`].
    pub(crate) fn flush(&mut self) -> Result<()> {
        let edits = std::mem::take(&mut self.edits);
        self.bytes = 0;
        let items: Vec<LogItem> = edits.into_values().flat_map(Edit::items).collect();
        if items.is_empty() {
            return Ok(());
        }
        self.lfs
            .writer()
            .write_group(items, GroupKind::User, Some(self.usage))?;
        Ok(())
    }
}

impl Edit {
    fn of(inode: Inode) -> Self {
        Edit {
            inode,
            records: Vec::new(),
            cleared_from: u64::MAX,
            freed_blocks: BTreeSet::new(),
            blocks: BTreeMap::new(),
            xattrs: None,
            freed: false,
        }
    }

    fn hidden_by_truncate(&self, block: u64) -> bool {
        block >= self.cleared_from
    }

    /// Returns true if the edit makes the stored block invalid.
    fn hides(&self, block: u64) -> bool {
        self.hidden_by_truncate(block) || self.freed_blocks.contains(&block)
    }

    /// Returns the items in the order of every group: records, attributes, blocks, image.
    fn items(self) -> Vec<LogItem> {
        let (ino, version) = (self.inode.ino, self.inode.version);
        let written = self.inode.mtime;
        let mut items: Vec<LogItem> = self
            .records
            .into_iter()
            .map(|record| LogItem::Record {
                ino,
                version,
                record,
            })
            .collect();
        if self.freed {
            return items;
        }
        items.extend(self.xattrs.map(|data| LogItem::Xattrs {
            ino,
            version,
            data: data.into(),
            source: None,
        }));
        items.extend(self.blocks.into_iter().map(|(block, data)| LogItem::Block {
            ino,
            version,
            block,
            data: data.into(),
            written,
            source: None,
        }));
        let inode = Box::new(self.inode);
        items.push(LogItem::Image { inode });
        items
    }
}

/// A directory's blocks with the session's edits.
pub(crate) struct EditedBlocks<'s> {
    session: &'s mut Session,
    ino: u64,
    /// The error of a change that could not be recorded.
    failed: Option<Error>,
}

impl EditedBlocks<'_> {
    /// Ends the use of the blocks.
    ///
    /// # Errors
    /// The first change that could not be recorded.
    pub(crate) fn finish(self) -> Result<()> {
        self.failed.map_or(Ok(()), Err)
    }

    fn note(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.failed.get_or_insert(error);
        }
    }

    fn damaged(&self, detail: String) -> varve_fs::Error {
        varve_fs::Error::Damaged {
            ino: Some(InodeNo(self.ino)),
            detail,
        }
    }
}

impl DirectoryBlocks for EditedBlocks<'_> {
    fn read(&mut self, block: u64) -> varve_fs::Result<Arc<Block>> {
        if let Some(edit) = self.session.edits.get(&self.ino) {
            if let Some(bytes) = edit.blocks.get(&block) {
                return Ok(Arc::clone(bytes));
            }
            if edit.hides(block) {
                return Err(self.damaged(format!("directory block {block} does not exist")));
            }
        }
        match self.session.stored(self.ino, block) {
            Ok(Some((_, Ok(bytes)))) => Ok(Arc::new(bytes)),
            Ok(Some((_, Err(error)))) | Err(error) => Err(self.damaged(error.to_string())),
            Ok(None) => Err(self.damaged(format!("directory block {block} does not exist"))),
        }
    }

    fn prepare(&mut self, block: u64) -> varve_fs::Result<()> {
        let ready = self.session.sectors(self.ino, block);
        ready
            .and_then(|_| self.session.edit(self.ino).map(drop))
            .map_err(|error| self.damaged(error.to_string()))
    }

    fn write(&mut self, block: u64, data: Vec<u8>) {
        let done = self.session.put_block(self.ino, block, data.into());
        self.note(done);
    }

    fn free(&mut self, block: u64) {
        let done = self.session.drop_block(self.ino, block);
        self.note(done);
    }

    fn exists(&mut self, block: u64) -> varve_fs::Result<bool> {
        self.session
            .sectors(self.ino, block)
            .map(|sectors| sectors.is_some())
            .map_err(|error| self.damaged(error.to_string()))
    }
}
