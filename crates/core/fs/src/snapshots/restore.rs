//! Writing what a snapshot has back into the tree, in a transaction.
//!
//! Everything is written anew; nothing of the snapshot is revived. Files that did not
//! change since by the layout's word are left alone, and so are blocks of one write. If
//! the whole tree is restored, a file that has another name now gets its former one back;
//! if a part is, the file elsewhere stays and its former content is written again. Names
//! that the snapshot does not have are therefore removed last.
//!
//! Directories are worked off from a list, because a tree may be deeper than a stack.

use super::diff::all_of;
use super::former::names_of;
use super::{SnapshotTree, of_a_snapshot};
use crate::attr::{Attr, Caller, SetAttr, SetTime, Whence};
use crate::attributes::file_flags::FileFlags;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::transactions::Transaction;
use crate::types::{FileKind, InodeNo};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Bytes copied at once.
const PIECE_BYTES: u64 = 1 << 20;
/// `fallocate`: a hole, and the size stays.
const PUNCH_HOLE: i32 = 3;

/// What a restoration did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Files and directories that were made or written to.
    pub restored: u64,
    /// Names that were removed because the snapshot does not have them.
    pub removed: u64,
    /// Bytes of content written.
    pub bytes: u64,
}

impl<L: Layout> Transaction<L> {
    /// A snapshot of the volume that the transaction is on, to restore from.
    ///
    /// # Errors
    /// As [`FileSystem::at`].
    pub fn snapshot(&self, number: u32) -> Result<SnapshotTree<L>> {
        self.tree().outermost().at(number)
    }

    /// Makes the file or directory at a path what it was in a snapshot, with all that
    /// was in it; `/` is the whole tree. Directories above it that are gone are made.
    /// The caller needs the rights that doing so step by step needs.
    ///
    /// # Errors
    /// `NotFound` if the snapshot has no such path, `NotDirectory` if something else is
    /// where a directory above it was; otherwise as the operations that write.
    pub fn restore(
        &self,
        caller: &Caller,
        from: &SnapshotTree<L>,
        path: &[u8],
    ) -> Result<Restored> {
        self.restore_noting(caller, from, path, &mut |_, _, _| {})
    }

    /// [`Self::restore`] that calls `note` with each directory, name and inode of the
    /// transaction that it looks at: directories before the names in them.
    ///
    /// # Errors
    /// As [`Self::restore`].
    pub fn restore_noting(
        &self,
        caller: &Caller,
        from: &SnapshotTree<L>,
        path: &[u8],
        note: &mut dyn FnMut(InodeNo, &[u8], InodeNo),
    ) -> Result<Restored> {
        let changed = from.layout().changed_inodes(from.number, None);
        let mut restoration = Restoration {
            old: from,
            new: self.tree(),
            caller,
            changed: changed.map_err(of_a_snapshot)?.into_iter().collect(),
            linked: HashMap::new(),
            directories: Vec::new(),
            is_whole: names_of(path).next().is_none(),
            surplus: Vec::new(),
            note,
            done: Restored::default(),
        };
        restoration.run(path)?;
        Ok(restoration.done)
    }
}

struct Restoration<'a, L: Layout> {
    old: &'a SnapshotTree<L>,
    new: &'a FileSystem<L>,
    caller: &'a Caller,
    /// Inodes of the snapshot that are not as they were.
    changed: HashSet<InodeNo>,
    /// Files of the snapshot with several names, and where they are now.
    linked: HashMap<InodeNo, InodeNo>,
    /// Directories whose names are to be compared, and what they are now.
    directories: Vec<(Attr, InodeNo)>,
    is_whole: bool,
    /// Names that the snapshot does not have.
    surplus: Vec<(InodeNo, Vec<u8>)>,
    note: &'a mut dyn FnMut(InodeNo, &[u8], InodeNo),
    done: Restored,
}

impl<L: Layout> Restoration<'_, L> {
    fn run(&mut self, path: &[u8]) -> Result<()> {
        let names: Vec<&[u8]> = names_of(path).collect();
        let root = self.old.getattr(InodeNo::ROOT)?;
        match names.split_last() {
            None => self.directories.push((root, InodeNo::ROOT)),
            Some((last, above)) => {
                let (old, new) = self.enter(root, above)?;
                let found = self.old.lookup(self.caller, old, last)?;
                self.entry(new, last, found)?;
            }
        }
        // Attributes of directories last: their times change with their names.
        let mut made = Vec::new();
        while let Some((old, new)) = self.directories.pop() {
            self.directory(&old, new)?;
            made.push((old, new));
        }
        for (parent, name) in std::mem::take(&mut self.surplus) {
            self.remove(parent, &name)?;
        }
        for (old, new) in made.into_iter().rev() {
            self.attributes(&old, new)?;
        }
        Ok(())
    }

    /// The directory at a path in both trees; those that are gone are made.
    fn enter(&mut self, root: Attr, path: &[&[u8]]) -> Result<(InodeNo, InodeNo)> {
        let (mut old, mut new) = (root.ino, InodeNo::ROOT);
        for name in path {
            let above = self.old.lookup(self.caller, old, name)?;
            if above.kind != FileKind::Directory {
                return Err(Error::NotDirectory);
            }
            let now = match self.new.lookup(self.caller, new, name) {
                Ok(now) if now.kind != FileKind::Directory => return Err(Error::NotDirectory),
                Ok(now) => now.ino,
                Err(Error::NotFound) => {
                    let made = self.make(new, name, &above)?;
                    self.attributes(&above, made)?;
                    made
                }
                Err(error) => return Err(error),
            };
            (self.note)(new, name, now);
            (old, new) = (above.ino, now);
        }
        Ok((old, new))
    }

    /// Makes the names of a directory what they were.
    fn directory(&mut self, old: &Attr, new: InodeNo) -> Result<()> {
        self.old.access(self.caller, old.ino, 4)?;
        let names = self.old.names_in(old.ino)?;
        let now = self.new.names_in(new)?;
        let kept: HashSet<&[u8]> = names.iter().map(|(name, ..)| &name[..]).collect();
        let mut present = HashMap::new();
        for (name, ino, _) in now {
            match kept.contains(&name[..]) {
                true => _ = present.insert(name, ino),
                false => self.surplus.push((new, name)),
            }
        }
        for (name, ino, kind) in &names {
            let is_same = present.get(name) == Some(ino) && !self.changed.contains(ino);
            if !is_same || *kind == FileKind::Directory {
                let attr = self.old.getattr(*ino)?;
                self.entry(new, name, attr)?;
            }
        }
        Ok(())
    }

    /// Makes what a name leads to what it was.
    fn entry(&mut self, parent: InodeNo, name: &[u8], old: Attr) -> Result<()> {
        let now = match self.new.lookup(self.caller, parent, name) {
            Ok(now) => Some(now),
            Err(Error::NotFound) => None,
            Err(error) => return Err(error),
        };
        let is_old = |now: Attr| (now.ino, now.version) == (old.ino, old.version);
        let linked = self.linked.get(&old.ino).copied();
        let kept = match now {
            Some(now) if linked == Some(now.ino) => return Ok(()),
            Some(now) if old.kind == FileKind::Directory && now.kind == old.kind => Some(now.ino),
            Some(now) if is_old(now) && linked.is_none() => Some(now.ino),
            Some(_) => {
                self.remove(parent, name)?;
                None
            }
            None => None,
        };
        if let Some(linked) = linked {
            return self.link(linked, parent, name);
        }
        let moved = match kept {
            None if self.is_whole => self.moved(&old)?,
            _ => None,
        };
        let new = match (kept, moved) {
            (Some(ino), _) => ino,
            (None, Some(ino)) => {
                self.link(ino, parent, name)?;
                ino
            }
            (None, None) => self.make(parent, name, &old)?,
        };
        (self.note)(parent, name, new);
        if old.kind == FileKind::Directory {
            self.directories.push((old, new));
            return Ok(());
        }
        if old.nlink > 1 {
            self.linked.insert(old.ino, new);
        }
        let is_same = kept.is_some() || moved.is_some();
        if old.kind == FileKind::Regular && (!is_same || self.changed.contains(&old.ino)) {
            self.content(&old, new, is_same)?;
        }
        self.attributes(&old, new)
    }

    /// The file of the snapshot, if it has a name in the tree that is restored.
    fn moved(&self, old: &Attr) -> Result<Option<InodeNo>> {
        let now = self.new.inode_at(old.ino)?;
        let is_old = now.is_some_and(|now| now.version == old.version && now.nlink > 0);
        Ok((is_old && old.kind != FileKind::Directory).then_some(old.ino))
    }

    fn link(&mut self, ino: InodeNo, parent: InodeNo, name: &[u8]) -> Result<()> {
        self.permit_change(ino)?;
        self.new.link(self.caller, ino, parent, name)?;
        self.done.restored += 1;
        Ok(())
    }

    fn make(&mut self, parent: InodeNo, name: &[u8], old: &Attr) -> Result<InodeNo> {
        self.done.restored += 1;
        let (new, caller) = (self.new, self.caller);
        let made = match old.kind {
            FileKind::Directory => new.mkdir(caller, parent, name, old.mode & 0o7777)?,
            FileKind::Symlink => {
                let target = self.old.readlink(old.ino)?;
                new.symlink(caller, parent, name, &target)?
            }
            _ => new.mknod(caller, parent, name, old.mode, old.rdev)?,
        };
        Ok(made.ino)
    }

    /// Writes the content of a file; of one that is the same only what differs.
    fn content(&mut self, old: &Attr, new: InodeNo, is_same: bool) -> Result<()> {
        self.old.access(self.caller, old.ino, 4)?;
        let (before, now) = (self.old.inode_at(old.ino)?, self.new.inode_at(new)?);
        let (Some(before), Some(now)) = (before, now) else {
            return Err(Error::Stale);
        };
        let ranges = match is_same {
            true => self.old.ranges_unlike(&before, self.new, &now)?,
            false => all_of(before.size),
        };
        if ranges.is_empty() {
            return Ok(());
        }
        self.permit_change(new)?;
        if now.size != before.size {
            let set = SetAttr {
                size: Some(before.size),
                ..SetAttr::default()
            };
            self.new.setattr(self.caller, new, &set)?;
        }
        for range in ranges {
            self.copy(
                old.ino,
                new,
                range.start..range.end.min(before.size),
                is_same,
            )?;
        }
        self.done.restored += u64::from(is_same);
        Ok(())
    }

    /// Copies a part of a file, and its holes if there may be something else.
    fn copy(&mut self, old: InodeNo, new: InodeNo, range: Range<u64>, punch: bool) -> Result<()> {
        let mut buffer = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let data = match self.old.seek(old, at, Whence::Data) {
                Ok(data) => data.min(range.end),
                Err(Error::NoData) => range.end,
                Err(error) => return Err(error),
            };
            if punch && data > at {
                let length = data - at;
                self.new
                    .fallocate(self.caller, new, PUNCH_HOLE, at, length)?;
            }
            if data == range.end {
                break;
            }
            let hole = self.old.seek(old, data, Whence::Hole)?.min(range.end);
            at = hole.min(data + PIECE_BYTES);
            buffer.resize((at - data) as usize, 0);
            let read = self.old.read(old, data, &mut buffer)?;
            let mut written = 0;
            while written < read {
                let rest = &buffer[written..read];
                written += self
                    .new
                    .write(self.caller, new, data + written as u64, rest)?;
            }
            self.done.bytes += read as u64;
        }
        Ok(())
    }

    /// Clears flags that forbid changes.
    fn permit_change(&self, new: InodeNo) -> Result<()> {
        let flags = self.new.file_flags(new)?;
        if !flags.immutable && !flags.append_only {
            return Ok(());
        }
        let flags = FileFlags {
            immutable: false,
            append_only: false,
            ..flags
        };
        self.new.set_file_flags(self.caller, new, flags, None)
    }

    /// Sets the attributes that differ, times and flags last.
    fn attributes(&mut self, old: &Attr, new: InodeNo) -> Result<()> {
        let (caller, tree) = (self.caller, self.new);
        let now = tree.getattr(new)?;
        let wanted = self.old.flags_and_project(old.ino)?;
        let present = tree.flags_and_project(new)?;
        let set = SetAttr {
            mode: (now.mode != old.mode).then_some(old.mode & 0o7777),
            uid: (now.uid != old.uid).then_some(old.uid),
            gid: (now.gid != old.gid).then_some(old.gid),
            mtime: (now.mtime != old.mtime).then_some(SetTime::At(old.mtime)),
            ..SetAttr::default()
        };
        let same_xattrs = self.has_same_xattrs(old.ino, new)?;
        if set == SetAttr::default() && wanted == present && same_xattrs {
            return Ok(());
        }
        self.permit_change(new)?;
        if !same_xattrs {
            self.copy_xattrs(old.ino, new)?;
        }
        if set != SetAttr::default() {
            tree.setattr(caller, new, &set)?;
        }
        if wanted != tree.flags_and_project(new)? {
            tree.set_file_flags(caller, new, wanted.0, Some(wanted.1))?;
        }
        Ok(())
    }

    fn has_same_xattrs(&self, old: InodeNo, new: InodeNo) -> Result<bool> {
        let blob = |tree: &FileSystem<L>, ino| {
            let vnode = tree.vnode(ino)?;
            let state = vnode.read();
            tree.store.xattrs(&vnode, &state)
        };
        Ok(blob(self.old, old)? == blob(self.new, new)?)
    }

    fn copy_xattrs(&self, old: InodeNo, new: InodeNo) -> Result<()> {
        let wanted = self.old.listxattr(self.caller, old)?;
        for name in self.new.listxattr(self.caller, new)? {
            if !wanted.contains(&name) {
                self.new.removexattr(self.caller, new, &name)?;
            }
        }
        for name in wanted {
            let value = self.old.getxattr(self.caller, old, &name)?;
            let now = self.new.getxattr(self.caller, new, &name);
            if now.ok().as_ref() != Some(&value) {
                self.new
                    .setxattr(self.caller, new, &name, &value, false, false)?;
            }
        }
        Ok(())
    }

    /// Removes a name with all that is below it.
    fn remove(&mut self, parent: InodeNo, name: &[u8]) -> Result<()> {
        let mut emptied = Vec::new();
        let mut rest = vec![(parent, name.to_vec())];
        while let Some((parent, name)) = rest.pop() {
            let found = self.new.lookup(self.caller, parent, &name)?;
            self.permit_change(found.ino)?;
            (self.note)(parent, &name, found.ino);
            self.done.removed += 1;
            if found.kind == FileKind::Directory {
                let names = self.new.names_in(found.ino)?.into_iter();
                rest.extend(names.map(|(name, ..)| (found.ino, name)));
                emptied.push((parent, name));
            } else {
                self.new.unlink(self.caller, parent, &name)?;
            }
        }
        for (parent, name) in emptied.into_iter().rev() {
            self.new.rmdir(self.caller, parent, &name)?;
        }
        Ok(())
    }
}
