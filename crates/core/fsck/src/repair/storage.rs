//! Remedies for storage: blocks, attributes, counts, shapes.

use super::evidence::Evidence;
use super::remedies::Remedies;
use crate::check::Fix;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use varve_device::Block;
use varve_fs::{FileKind, InodeNo, attributes_flaw, flags};
use varve_lfs::format::Pointer;
use varve_lfs::{Error, Result};

/// Largest number of numbers without an entry that one session frees.
const MAX_UNMAPPED: u64 = 1 << 16;

impl Remedies<'_> {
    /// Applies the remedies for storage.
    ///
    /// # Errors
    /// If there is no space, or the device fails.
    pub(super) fn mend_storage(
        &mut self,
        fixes: &[Fix],
        evidence: &OnceCell<Evidence>,
    ) -> Result<()> {
        self.lost_blocks(fixes, evidence)?;
        for fix in fixes {
            let done = match *fix {
                Fix::Attributes { ino } => self.attributes(ino),
                Fix::Shape { ino } => self.shape(ino),
                Fix::BeyondSize { ino } => self.beyond_size(ino),
                Fix::Counts {
                    ino,
                    blocks,
                    sectors,
                } => {
                    // The next round counts the blocks dropped above.
                    let what = self.name(ino);
                    self.session.edit(ino).map(|edit| {
                        edit.inode.blocks = blocks;
                        edit.inode.sectors = sectors;
                        self.actions
                            .mended(format!("{what}: its counts of blocks and sectors"));
                    })
                }
                Fix::Rewrite { ino } => self.session.edit(ino).map(drop),
                Fix::Forget { ino } => {
                    self.actions
                        .lost(format!("inode {ino}: the log changes a file that is gone"));
                    self.session.free_number(ino, 1);
                    Ok(())
                }
                Fix::Unmapped { from, to } => {
                    for ino in from..to.min(from + MAX_UNMAPPED) {
                        self.session.free_number(ino, 1);
                    }
                    self.actions
                        .mended(format!("inode numbers {from} to {} are free", to - 1));
                    Ok(())
                }
                Fix::Root => self.root(),
                Fix::Guard => self.session.edit(InodeNo::ROOT.0).map(|edit| {
                    edit.inode.flags |= flags::GUARDED;
                    self.actions
                        .mended("the root directory tells of flagged files".to_owned());
                }),
                _ => Ok(()),
            };
            self.settle(done)?;
        }
        Ok(())
    }

    /// Handles blocks that cannot stay at their place. A readable block is stored again;
    /// otherwise another copy of the same version is searched for; otherwise the block
    /// becomes a hole.
    fn lost_blocks(&mut self, fixes: &[Fix], evidence: &OnceCell<Evidence>) -> Result<()> {
        let block_sectors = self.session.lfs.geometry_of_volume().block_bytes / 512;
        let unit = u64::from(self.session.lfs.geometry_of_volume().block_bytes);
        let mut lost: HashMap<(u64, u64), Pointer> = HashMap::new();
        for fix in fixes {
            let &Fix::Block { ino, block } = fix else {
                continue;
            };
            match self.session.stored(ino, block) {
                Ok(Some((pointer, Ok(bytes)))) if u32::from(pointer.sectors()) <= block_sectors => {
                    if !pointer.is_unwritten() {
                        self.session.put_block(ino, block, bytes)?;
                        let what = self.name(ino);
                        self.actions
                            .mended(format!("{what}: block {block} is stored elsewhere now"));
                        self.session.flush_if_full()?;
                    }
                }
                Ok(Some((pointer, _))) => {
                    lost.insert((ino, block), pointer);
                }
                Ok(None) | Err(Error::NoInode(_)) => {}
                Err(error) => return Err(error),
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        let mut copies = self.other_copies(evidence, &lost);
        let mut ranges: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for &(ino, block) in lost.keys() {
            ranges.entry(ino).or_default().push(block);
        }
        for (ino, mut blocks) in ranges {
            blocks.sort_unstable();
            let mut holes: Vec<std::ops::Range<u64>> = Vec::new();
            for block in blocks {
                match copies.remove(&(ino, block)) {
                    Some(bytes) => {
                        self.session.put_block(ino, block, bytes)?;
                        let what = self.name(ino);
                        self.actions
                            .mended(format!("{what}: block {block}, from another copy"));
                    }
                    None => {
                        self.session.drop_block(ino, block)?;
                        match holes.last_mut().filter(|hole| hole.end == block) {
                            Some(hole) => hole.end += 1,
                            None => holes.push(block..block + 1),
                        }
                    }
                }
                self.session.flush_if_full()?;
            }
            for hole in holes {
                self.actions.lost(format!(
                    "{}: bytes {} to {} cannot be read and are a hole now",
                    self.name(ino),
                    hole.start.saturating_mul(unit),
                    hole.end.saturating_mul(unit) - 1
                ));
            }
        }
        Ok(())
    }

    /// Finds copies of the same version of a block that the cleaner left.
    fn other_copies(
        &self,
        evidence: &OnceCell<Evidence>,
        lost: &HashMap<(u64, u64), Pointer>,
    ) -> HashMap<(u64, u64), Block> {
        let mut copies = HashMap::new();
        let (reader, geometry) = (
            self.session.lfs.reader(),
            self.session.lfs.geometry_of_volume(),
        );
        let tag = self.session.lfs.superblock().volume_tag();
        let gather = || Evidence::gather(reader, geometry, tag, &|_, _| {});
        let evidence = evidence.get_or_init(gather);
        evidence.visit(reader, geometry, tag, &mut |_, item| {
            if let varve_lfs::internal::ChainItem::Block {
                ino,
                block,
                pointer,
                xattrs: false,
                ..
            } = item
                && let Some(wanted) = lost.get(&(ino.0, *block))
                && wanted.sector() != pointer.sector()
                && (wanted.birth(), wanted.crc(), wanted.sectors())
                    == (pointer.birth(), pointer.crc(), pointer.sectors())
                && let Ok(bytes) = reader.block(pointer, *ino, *block)
            {
                copies.insert((ino.0, *block), bytes);
            }
        });
        copies
    }

    fn attributes(&mut self, ino: u64) -> Result<()> {
        let bytes = self.session.edit(ino)?.inode.xattr_bytes as usize;
        let pointer = self.session.lfs.layers().lookup().xattrs(InodeNo(ino))?;
        let blob = self.session.lfs.reader().block(&pointer, InodeNo(ino), 0);
        let fits =
            !pointer.is_none() && pointer.stored_bytes() == bytes.next_multiple_of(512) as u64;
        match blob {
            Ok(mut blob) if fits && bytes > 0 => {
                blob.truncate(bytes);
                if attributes_flaw(&blob).is_none() {
                    self.actions.mended(format!(
                        "{}: its extended attributes are stored elsewhere now",
                        self.name(ino)
                    ));
                    return self.session.put_xattrs(ino, blob.into_vec());
                }
            }
            _ => {}
        }
        self.actions
            .lost(format!("{}: its extended attributes", self.name(ino)));
        self.session.put_xattrs(ino, Vec::new())
    }

    /// Makes the inode and its content agree on its kind.
    fn shape(&mut self, ino: u64) -> Result<()> {
        let inode = self.session.edit(ino)?.inode.clone();
        let inline = inode.flags & flags::INLINE != 0;
        let has_blocks = inode.blocks > 0
            || self
                .session
                .lfs
                .layers()
                .lookup()
                .next_block(InodeNo(ino), 0)?
                .is_some();
        self.actions.lost(format!(
            "{}: what of its content does not fit its kind",
            self.name(ino)
        ));
        match inode.kind() {
            FileKind::Symlink if !inline && !has_blocks => return self.session.free(ino),
            FileKind::Regular | FileKind::Symlink if inline => self.session.truncate(ino, 0)?,
            FileKind::Regular => {}
            FileKind::Directory | FileKind::Symlink => {
                for block in self.unwritten_blocks(ino)? {
                    self.session.drop_block(ino, block)?;
                }
            }
            _ => self.session.truncate(ino, 0)?,
        }
        let edit = self.session.edit(ino)?;
        edit.inode.flags &= flags::KNOWN;
        if !matches!(inode.kind(), FileKind::Regular | FileKind::Symlink) {
            edit.inode.flags &= !flags::INLINE;
            edit.inode.inline.clear();
        }
        Ok(())
    }

    fn unwritten_blocks(&self, ino: u64) -> Result<Vec<u64>> {
        let lookup = self.session.lfs.layers().lookup();
        let (blocks, _) = lookup.blocks(InodeNo(ino), 0, varve_lfs::internal::MAX_BLOCK)?;
        Ok(blocks
            .into_iter()
            .filter(|(_, pointer)| pointer.is_unwritten())
            .map(|(block, _)| block)
            .collect())
    }

    fn beyond_size(&mut self, ino: u64) -> Result<()> {
        let unit = u64::from(self.session.lfs.geometry_of_volume().block_bytes);
        let end = self.session.edit(ino)?.inode.size.div_ceil(unit);
        self.actions.mended(format!(
            "{}: blocks behind its end are gone",
            self.name(ino)
        ));
        self.session.truncate(ino, end)
    }

    /// Creates the missing root directory.
    fn root(&mut self) -> Result<()> {
        let ino = InodeNo::ROOT;
        let mut version = 1;
        match self.session.edit(ino.0) {
            Ok(edit) => {
                version = edit.inode.version.wrapping_add(1);
                self.session.free(ino.0)?;
            }
            Err(Error::NoInode(_)) => {
                let base = self.session.lfs.base();
                let (reader, geometry) = (
                    self.session.lfs.reader(),
                    self.session.lfs.geometry_of_volume(),
                );
                let state = base.imap(reader, geometry, ino)?;
                if let varve_lfs::format::ifile::ImapState::Free { next_version, .. } = state {
                    version = next_version;
                }
            }
            Err(error) => return Err(error),
        }
        let inode = self.new_directory(ino, version);
        self.session.create(inode);
        self.actions
            .lost("the root directory: a new one was made; what it led to is in lost+found");
        Ok(())
    }
}
