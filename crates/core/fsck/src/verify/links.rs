//! Directories, the inodes to which names lead, and link counts.

use super::known::{Bits, Known};
use super::{Ended, Image, Stage};
use crate::check::{Blocks, FileView, FindingKind, Subject, plain};
use std::sync::Arc;
use varve_device::Block;
use varve_fs::directory::{self, DirectoryBlocks, Key};
use varve_fs::{FileKind, InodeNo};
use varve_lfs::format::Pointer;
use varve_lfs::format::inode::InodeImage;
use varve_lfs::internal::Delta;

/// Largest number of flaws reported per directory.
const MAX_FLAWS: usize = 20;

/// A directory's blocks, which become unreadable when the verification must stop.
struct Stoppable<'i, 'a> {
    image: &'i Image<'a>,
    blocks: Blocks<'i>,
}

impl Stoppable<'_, '_> {
    fn go_on(&self) -> varve_fs::Result<()> {
        match self.image.go_on() {
            Ok(()) => Ok(()),
            // The error ends the walk and is not reported.
            Err(_) => Err(varve_fs::Error::Busy),
        }
    }
}

impl DirectoryBlocks for Stoppable<'_, '_> {
    fn read(&mut self, block: u64) -> varve_fs::Result<Arc<Block>> {
        self.go_on()?;
        self.blocks.read(block)
    }

    fn exists(&mut self, block: u64) -> varve_fs::Result<bool> {
        self.blocks.exists(block)
    }

    fn next_existing(&mut self, from: u64) -> varve_fs::Result<Option<u64>> {
        self.go_on()?;
        self.blocks.next_existing(from)
    }

    fn write(&mut self, _block: u64, _data: Vec<u8>) {
        unreachable!("a verification changes nothing");
    }

    fn free(&mut self, _block: u64) {
        unreachable!("a verification changes nothing");
    }
}

/// A name and its target.
struct Entry {
    name: Vec<u8>,
    ino: u64,
    kind: FileKind,
}

impl Image<'_> {
    /// Verifies names and link counts, one window of inodes at a time; `known` is the
    /// first.
    pub(super) fn all_links(
        &mut self,
        blocks: &[(u64, Pointer)],
        mut known: Known,
    ) -> Result<(), Ended> {
        let directories = std::mem::take(&mut self.directories);
        let next_ino = self.hold.base.next_ino;
        let passes = next_ino.div_ceil(super::known::WINDOW).max(1);
        self.control
            .enter(Stage::Directories, directories.count() * passes);
        let mut first_pass = true;
        let outcome = loop {
            if let Err(ended) = self.one_window(&directories, &mut known, first_pass) {
                break Err(ended);
            }
            if known.end() >= next_ino {
                break Ok(());
            }
            known = match self.window(blocks, known.end()) {
                Ok(known) => known,
                Err(ended) => break Err(ended),
            };
            first_pass = false;
        };
        let reached = outcome.and_then(|()| self.reach(&directories));
        self.directories = directories;
        reached
    }

    fn one_window(
        &mut self,
        directories: &Bits,
        known: &mut Known,
        verify: bool,
    ) -> Result<(), Ended> {
        let mut from = 0;
        while let Some(ino) = directories.next(from) {
            from = ino + 1;
            self.go_on()?;
            self.one_directory(ino, directories, known, verify);
            self.tell(|p| {
                p.done += 1;
                p.directories += u64::from(verify);
            });
        }
        self.go_on()?;
        for ino in known.numbers() {
            match known.kind(ino) {
                Some(FileKind::Directory) => self.directory_links(ino, known),
                Some(_) => self.file_links(ino, known),
                None => {}
            }
        }
        Ok(())
    }

    fn image_of(&self, ino: u64) -> Option<Arc<InodeImage>> {
        let (reader, geometry) = (&self.reader, self.lfs.geometry_of_volume());
        let image = self.hold.base.inode(reader, geometry, InodeNo(ino));
        image.ok().flatten()
    }

    fn one_directory(&mut self, ino: u64, directories: &Bits, known: &mut Known, verify: bool) {
        if self.unreadable.contains(ino) {
            return; // reported before
        }
        let Some(image) = self.image_of(ino) else {
            let text = "its inode cannot be read a second time";
            self.error(FindingKind::Inode, Subject::Inode(ino), text);
            return;
        };
        let key = Key {
            hash_seed: self.lfs.superblock().hash_seed.get(),
            case_fold: self.lfs.superblock().case_fold(),
            ino: InodeNo(ino),
            version: image.inode.version,
        };
        let mut flaws = Vec::new();
        let mut batch: Vec<Entry> = Vec::new();
        let mut from = 0;
        loop {
            // Batches limit the memory for names.
            let listed = self.list(&key, from, verify && from == 0, &mut flaws, &mut batch);
            for entry in batch.drain(..) {
                self.entry(ino, &entry, directories, known);
            }
            match listed {
                Some(next) => from = next,
                None => break,
            }
        }
        if !flaws.is_empty() {
            self.unreadable.insert(ino);
        }
        for text in flaws {
            self.error(FindingKind::Directory, Subject::Inode(ino), text);
        }
    }

    /// Lists some entries from cookie `from`. Returns the cookie of the next call if
    /// there are more.
    fn list(
        &self,
        key: &Key,
        from: u64,
        verify: bool,
        flaws: &mut Vec<String>,
        batch: &mut Vec<Entry>,
    ) -> Option<u64> {
        const BATCH: usize = 4096;
        let empty = Delta::default();
        let (base, reader) = (&self.hold.base, &self.reader);
        let view = match FileView::new(reader, self.lfs.geometry_of_volume(), base, &empty, key.ino)
        {
            Ok(view) => view,
            Err(error) => {
                flaws.push(plain(&error));
                return None;
            }
        };
        let mut blocks = Stoppable {
            image: self,
            blocks: Blocks::new(view),
        };
        if verify {
            let whole = directory::check(key, &mut blocks, &mut |text| {
                if flaws.len() < MAX_FLAWS {
                    flaws.push(text);
                }
            });
            if let Err(error) = whole
                && !matches!(error, varve_fs::Error::Busy)
            {
                flaws.push(error.to_string());
            }
        }
        let mut last = 0;
        // A flaw that ends the listing was recorded.
        let _ = directory::list(key, &mut blocks, from, &mut |name, ino, kind, cookie| {
            last = cookie;
            batch.push(Entry {
                name: name.to_vec(),
                ino: ino.0,
                kind,
            });
            batch.len() < BATCH
        });
        (batch.len() == BATCH).then_some(last)
    }

    /// Checks that a name leads to an inode of the kind that it states.
    fn entry(&mut self, directory: u64, entry: &Entry, directories: &Bits, known: &mut Known) {
        let ino = entry.ino;
        let is_directory = directories.contains(ino);
        if known.covers(ino) || ino >= self.hold.base.next_ino {
            let exists = known.exists(ino) || self.unreadable.contains(ino);
            let problem = if !exists || ino <= InodeNo::ROOT.0 {
                Some("which is no file".to_owned())
            } else {
                known
                    .kind(ino)
                    .filter(|kind| *kind != entry.kind)
                    .map(|kind| format!("as {:?}, but it is {kind:?}", entry.kind))
            };
            if let Some(problem) = problem {
                let name = entry.name.escape_ascii();
                let text = format!("\"{name}\" leads to inode {ino}, {problem}");
                self.error(FindingKind::Entry, Subject::Inode(directory), text);
                return;
            }
        }
        if is_directory {
            known.found_link(directory);
            if known.covers(ino) {
                self.subdirectory(directory, entry, known);
            }
        } else {
            known.found_link(ino);
        }
        known.set_named(ino);
    }

    /// Checks that a directory has one name, in the directory to which its `..` leads.
    fn subdirectory(&mut self, directory: u64, entry: &Entry, known: &Known) {
        let parent = self.image_of(entry.ino).map(|image| image.inode.parent.0);
        let text = if known.is_named(entry.ino) {
            let name = entry.name.escape_ascii();
            format!("\"{name}\" in inode {directory} is its second name")
        } else if parent.is_some_and(|parent| parent != directory) {
            let parent = parent.unwrap_or(0);
            format!("\"..\" leads to inode {parent}, but its name is in inode {directory}")
        } else {
            return;
        };
        self.error(FindingKind::Parent, Subject::Inode(entry.ino), text);
    }

    /// Reports a finding that missing names would explain. It is only a warning if a
    /// damaged directory may contain them.
    fn unnamed(&mut self, kind: FindingKind, ino: u64, text: String) {
        let subject = Subject::Inode(ino);
        match self.unreadable.is_empty() {
            true => self.error(kind, subject, text),
            false => {
                let text = format!("{text}, as far as undamaged directories say");
                self.warning(kind, subject, text);
            }
        }
    }

    fn directory_links(&mut self, ino: u64, known: &Known) {
        let left = known.left(ino);
        if !known.is_named(ino) && ino != InodeNo::ROOT.0 {
            if left != 0 {
                let text = "a directory without a name".into();
                self.unnamed(FindingKind::Unreachable, ino, text);
            }
        } else if left != 2 && !self.unreadable.contains(ino) {
            self.wrong_count(ino, left.wrapping_sub(2));
        }
    }

    fn file_links(&mut self, ino: u64, known: &Known) {
        let left = known.left(ino);
        if !known.is_named(ino) && left > 0 {
            let text = format!("counts {left} names, but there is none");
            self.unnamed(FindingKind::Unreachable, ino, text);
        } else if known.is_named(ino) && left != 0 {
            self.wrong_count(ino, left);
        }
    }

    /// Reports a link count that is `surplus` too large, modulo 2^32.
    fn wrong_count(&mut self, ino: u64, surplus: u32) {
        let text = match self.image_of(ino).map(|image| image.inode.nlink) {
            Some(counted) => {
                let right = counted.wrapping_sub(surplus);
                format!("its link count is {counted}, it should be {right}")
            }
            None => "its link count is wrong".into(),
        };
        self.unnamed(FindingKind::LinkCount, ino, text);
    }

    /// Follows every directory up to the root.
    fn reach(&mut self, directories: &Bits) -> Result<(), Ended> {
        let root = InodeNo::ROOT.0;
        if !directories.contains(root) && !self.unreadable.contains(root) {
            let text = "there is no root directory";
            self.error(FindingKind::Inode, Subject::Inode(root), text);
        }
        let mut reached = Bits::default();
        reached.insert(root);
        let mut from = 0;
        while let Some(start) = directories.next(from) {
            from = start + 1;
            let mut way = Vec::new();
            let mut seen = std::collections::HashSet::new();
            let mut ino = start;
            while !reached.contains(ino) && directories.contains(ino) && seen.insert(ino) {
                self.go_on()?;
                way.push(ino);
                ino = self.image_of(ino).map_or(0, |image| image.inode.parent.0);
            }
            if seen.contains(&ino) && !reached.contains(ino) {
                let at = way.iter().position(|&step| step == ino).unwrap_or(0);
                let circle: Vec<String> = way[at..].iter().map(u64::to_string).collect();
                let text = format!(
                    "unreachable: directories contain each other in a circle: {}",
                    circle.join(", ")
                );
                self.error(FindingKind::Cycle, Subject::Inode(ino), text);
            }
            // A chain that ends elsewhere was reported, and is marked so that it is
            // reported once.
            way.into_iter().for_each(|ino| reached.insert(ino));
        }
        Ok(())
    }
}
