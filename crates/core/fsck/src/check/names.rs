//! Phase II: directories, in the order of their addresses.

use super::fixes::Fix;
use super::report::{FindingKind, Phase, Subject};
use super::table::known;
use super::{Checker, plain};
use std::collections::HashMap;
use std::sync::Arc;
use varve_device::Block;
use varve_fs::directory::{self, DirectoryBlocks, Key};
use varve_fs::{FileKind, InodeNo};
use varve_lfs::format::Pointer;
use varve_lfs::format::ifile::{ImapState, InodePlace};
use varve_lfs::format::inode::{InodeImage, Root};
use varve_lfs::internal::{Answer, Base, Delta, Index, InodeDelta, Reader, Tree};
use varve_lfs::{Geometry, Result};

/// Number of directory blocks cached while one directory is read twice.
const KEPT: usize = 4096;

/// The blocks of one file in the newest state.
pub struct FileView<'a> {
    reader: &'a Reader,
    ino: InodeNo,
    image: Option<Arc<InodeImage>>,
    place: Option<InodePlace>,
    delta: Option<&'a InodeDelta>,
    block_sectors: u8,
}

impl<'a> FileView<'a> {
    /// Returns the view of `ino`.
    ///
    /// # Errors
    /// If its checkpointed image cannot be read.
    pub fn new(
        reader: &'a Reader,
        geometry: &Geometry,
        base: &Base,
        live: &'a Delta,
        ino: InodeNo,
    ) -> Result<Self> {
        let delta = live.inode(ino.0);
        let mut image = None;
        let mut place = None;
        if !delta.is_some_and(|d| d.reborn || d.freed.is_some()) {
            image = base.inode(reader, geometry, ino)?;
            if let ImapState::Used { place: at, .. } = base.imap(reader, geometry, ino)? {
                place = Some(at);
            }
        }
        Ok(FileView {
            reader,
            ino,
            image,
            place,
            delta,
            block_sectors: (geometry.block_bytes / 512) as u8,
        })
    }

    /// Returns the checkpointed image and its index root, unless the log has replaced
    /// them.
    pub fn image(&self) -> Option<(&InodeImage, &Root)> {
        let image = self.image.as_deref()?;
        Some((image, image.root.as_ref()?))
    }

    /// Returns the place of that image.
    pub fn place(&self) -> Option<InodePlace> {
        self.place
    }

    /// Returns the changes of the replayed log.
    pub fn delta(&self) -> Option<&'a InodeDelta> {
        self.delta
    }

    fn tree(&self) -> Option<Tree<'_>> {
        let root = self.image.as_ref()?.root.as_ref()?;
        Some(Tree {
            reader: self.reader,
            ino: self.ino,
            root,
        })
    }

    /// Returns the pointer of `block`.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn get(&self, block: u64) -> Result<Option<Pointer>> {
        match self.delta.map(|d| d.block(block, self.block_sectors)) {
            Some(Answer::At(pointer)) => return Ok(Some(pointer)),
            Some(Answer::Hole) => return Ok(None),
            Some(Answer::Pass) | None => {}
        }
        self.tree().map_or(Ok(None), |tree| tree.get(block))
    }

    /// Returns the first written block at or behind `from`.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn next(&self, from: u64) -> Result<Option<u64>> {
        let mut next = self
            .delta
            .and_then(|d| d.blocks.range(from, u64::MAX).next())
            .map(|(block, _)| block);
        if let Some(tree) = self.tree() {
            tree.blocks(from, next.unwrap_or(u64::MAX), &mut |block, _| {
                let answer = self.delta.map(|d| d.block(block, self.block_sectors));
                let here = !matches!(answer, Some(Answer::Hole));
                if here {
                    next = Some(block);
                }
                !here
            })?;
        }
        Ok(next)
    }
}

/// The blocks of a directory for `varve_fs::directory`.
pub struct Blocks<'a> {
    view: FileView<'a>,
    kept: HashMap<u64, Arc<Block>>,
}

impl<'a> Blocks<'a> {
    pub fn new(view: FileView<'a>) -> Self {
        Blocks {
            view,
            kept: HashMap::new(),
        }
    }

    /// Makes an error of the device a flaw of this directory alone.
    fn damaged(&self, detail: String) -> varve_fs::Error {
        varve_fs::Error::Damaged {
            ino: Some(self.view.ino),
            detail,
        }
    }

    fn pointer(&self, block: u64) -> varve_fs::Result<Option<Pointer>> {
        self.view
            .get(block)
            .map_err(|error| self.damaged(format!("directory block {block}: {}", plain(&error))))
    }
}

impl DirectoryBlocks for Blocks<'_> {
    fn read(&mut self, block: u64) -> varve_fs::Result<Arc<Block>> {
        if let Some(bytes) = self.kept.get(&block) {
            return Ok(Arc::clone(bytes));
        }
        let Some(pointer) = self.pointer(block)? else {
            return Err(self.damaged(format!("directory block {block} does not exist")));
        };
        let bytes = self
            .view
            .reader
            .block(&pointer, self.view.ino, block)
            .map_err(|error| self.damaged(format!("directory block {block}: {}", plain(&error))))?;
        if self.kept.len() >= KEPT {
            self.kept.clear();
        }
        let bytes = Arc::new(bytes);
        self.kept.insert(block, Arc::clone(&bytes));
        Ok(bytes)
    }

    fn exists(&mut self, block: u64) -> varve_fs::Result<bool> {
        Ok(self.kept.contains_key(&block) || self.pointer(block)?.is_some())
    }

    fn next_existing(&mut self, from: u64) -> varve_fs::Result<Option<u64>> {
        self.view
            .next(from)
            .map_err(|error| self.damaged(plain(&error)))
    }

    fn write(&mut self, _block: u64, _data: Vec<u8>) {
        unreachable!("a check changes nothing");
    }

    fn free(&mut self, _block: u64) {
        unreachable!("a check changes nothing");
    }
}

impl Checker<'_> {
    pub(super) fn key(&self, ino: u64, version: u32) -> Key {
        Key {
            hash_seed: self.superblock.hash_seed.get(),
            case_fold: self.superblock.case_fold(),
            ino: InodeNo(ino),
            version,
        }
    }

    pub(super) fn check_directories(&mut self) {
        self.directories.sort_unstable_by_key(|d| (d.sector, d.ino));
        let live = Arc::clone(&self.state.live);
        let base = Arc::clone(&self.state.base);
        let reader = self.reader;
        let geometry = self.geometry;
        let total = self.directories.len();
        for at in 0..total {
            if self.found.full() {
                return;
            }
            if at % 256 == 0 {
                self.progress(Phase::Directories, at as u64, total as u64);
            }
            let directory = self.directories[at];
            let key = self.key(directory.ino, directory.version);
            if self.inodes.get(directory.ino).has(known::INDEX) {
                self.names_lost = true;
                continue;
            }
            match FileView::new(reader, &geometry, &base, &live, key.ino) {
                Ok(view) => self.one_directory(&key, &mut Blocks::new(view)),
                Err(error) => self.flaw(directory.ino, plain(&error)),
            }
        }
    }

    /// Reports a directory of which some names were not seen.
    fn flaw(&mut self, ino: u64, text: String) {
        self.names_lost = true;
        self.inodes.at(ino).flags |= known::INDEX;
        self.found
            .error(FindingKind::Directory, Subject::Inode(ino), text);
        self.found.fix(Fix::Directory { ino });
    }

    fn one_directory(&mut self, key: &Key, blocks: &mut Blocks<'_>) {
        let mut flaws = Vec::new();
        let whole = directory::check(key, blocks, &mut |text| {
            if flaws.len() < 100 {
                flaws.push(text);
            }
        });
        flaws.extend(whole.err().map(|error| error.to_string()));
        for text in flaws {
            self.flaw(key.ino.0, text);
        }
        let mut names = 0;
        // A flaw that ends the listing was reported above.
        let _ = directory::list(key, blocks, 0, &mut |name, ino, kind, _| {
            names += 1;
            self.entry(key.ino.0, name, ino.0, kind);
            !self.found.full()
        });
        self.counts.names += names;
    }

    /// Checks that a name leads to an inode of the kind that it states.
    fn entry(&mut self, directory: u64, name: &[u8], ino: u64, kind: FileKind) {
        let subject = Subject::Inode(directory);
        let target = self.inodes.get(ino);
        let mut problem = None;
        if !target.exists() || ino <= InodeNo::ROOT.0 {
            problem = Some("which is no file".to_owned());
        } else if target.kind().is_some_and(|found| found != kind) {
            let found = target.kind().unwrap_or(kind);
            problem = Some(format!("as {kind:?}, but it is {found:?}"));
        }
        if let Some(problem) = problem {
            let shown = name.escape_ascii();
            let text = format!("\"{shown}\" leads to inode {ino}, {problem}");
            self.found.error(FindingKind::Entry, subject, text);
            self.found.fix(Fix::Entry {
                directory,
                name: name.to_vec(),
            });
            return;
        }
        if target.kind() == Some(FileKind::Directory) {
            if target.named_by != 0 {
                let text = format!(
                    "\"{}\" in inode {directory} is its second name; the first is in inode {}",
                    name.escape_ascii(),
                    target.named_by
                );
                self.found
                    .error(FindingKind::Parent, Subject::Inode(ino), text);
                self.found.fix(Fix::Entry {
                    directory,
                    name: name.to_vec(),
                });
                return;
            }
            // The `..` of a subdirectory counts as a link of its parent.
            let above = self.inodes.at(directory);
            above.remaining = above.remaining.wrapping_sub(1);
        } else {
            let target = self.inodes.at(ino);
            target.remaining = target.remaining.wrapping_sub(1);
        }
        let target = self.inodes.at(ino);
        if target.named_by == 0 {
            target.named_by = directory;
        }
    }
}
