//! A POSIX tree that is obviously right: maps, and one rule per line.
//!
//! It returns the result of ext4 under Linux for each operation, keeps for every file the
//! contents that a crash may leave ([`content`]), and is cheap to clone, because a clone
//! shares every inode.
//!
//! Not modelled: times, permissions (the caller is root), and operations that the kernel
//! answers without the file system (data of symbolic links).

pub mod content;
mod names;

use crate::operation::{File, Operation, Path, Range, pattern_bytes};
use content::Content;
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_fs::FileKind;

/// Identifier of an inode of the model, unrelated to inode numbers.
pub type Id = u64;

/// Identifier of the root.
pub const ROOT: Id = 1;

/// Linux error numbers that the model returns.
#[expect(missing_docs, reason = "the names are those of errno(3)")]
pub mod errno {
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const EEXIST: i32 = 17;
    pub const ENOTDIR: i32 = 20;
    pub const EISDIR: i32 = 21;
    pub const EINVAL: i32 = 22;
    pub const ENOSPC: i32 = 28;
    pub const ENAMETOOLONG: i32 = 36;
    pub const ENOTEMPTY: i32 = 39;
    pub const ENODATA: i32 = 61;
}
use errno::*;

/// The reason why an operation changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It fails with this error number.
    Errno(i32),
    /// It is outside of the model and is not run.
    Skip,
}

/// Result of a successful operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// No value.
    Done,
    /// The bytes read.
    Bytes(Vec<u8>),
    /// The number of bytes copied.
    Count(u64),
}

/// Result of an operation.
pub type Outcome = Result<Answer, Refusal>;

/// One inode.
#[derive(Clone, Debug)]
pub struct Node {
    /// Type of the inode.
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u32,
    /// User that owns it.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names; for a directory 2 plus its subdirectories, 0 after its removal.
    pub nlink: u32,
    /// For a directory, its parent.
    pub parent: Id,
    /// For a directory, its names.
    pub entries: BTreeMap<Vec<u8>, Id>,
    /// For a symbolic link, its target.
    pub target: Vec<u8>,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// For a regular file, its bytes.
    pub content: Content,
}

/// A tree, and the open files.
#[derive(Clone, Debug)]
pub struct Model {
    /// Bytes per block of the file system.
    pub block_bytes: u64,
    nodes: BTreeMap<Id, Arc<Node>>,
    next: Id,
    slots: BTreeMap<u8, Id>,
    /// True if promises of durability are ignored, so that all earlier contents stay
    /// possible.
    pub distrustful: bool,
    /// True if data survives in the order of operations, as names do: if an operation
    /// survives, no earlier content is possible.
    pub exact: bool,
    /// True if data is overwritten in place before the operation is durable, so that the
    /// content after a crash is not bound to a moment.
    pub in_place: bool,
}

fn refuse<T>(errno: i32) -> Result<T, Refusal> {
    Err(Refusal::Errno(errno))
}

/// Returns the target of `length` bytes of a symbolic link.
pub fn symlink_target(length: u64) -> Vec<u8> {
    pattern_bytes(77, Range { offset: 0, length })
}

impl Model {
    /// Returns an empty tree: the root, mode 0755.
    pub fn new(block_bytes: u64) -> Self {
        let mut model = Model {
            block_bytes,
            nodes: BTreeMap::new(),
            next: ROOT,
            slots: BTreeMap::new(),
            distrustful: false,
            exact: false,
            in_place: false,
        };
        let root = model.add(FileKind::Directory, 0o755, ROOT);
        model.change(root).nlink = 2;
        model
    }

    /// Returns the inode `id`.
    ///
    /// # Panics
    /// If there is none.
    pub fn node(&self, id: Id) -> &Node {
        &self.nodes[&id]
    }

    /// Returns the number of changes of the content of `id`; `None` before it existed.
    pub fn content_changes(&self, id: Id) -> Option<u64> {
        self.nodes.get(&id).map(|node| node.content.changes())
    }

    /// Returns the content of `id`, if it exists.
    pub fn content(&self, id: Id) -> Option<&Content> {
        self.nodes.get(&id).map(|node| &node.content)
    }

    /// Returns the contents of all files.
    pub fn contents(&self) -> impl Iterator<Item = &Content> {
        self.nodes.values().map(|node| &node.content)
    }

    /// Returns the open files.
    pub fn slots(&self) -> &BTreeMap<u8, Id> {
        &self.slots
    }

    /// Returns the number of inodes with a name, including the root.
    pub fn named_inodes(&self) -> u64 {
        self.nodes.values().filter(|node| node.nlink > 0).count() as u64
    }

    pub(crate) fn change(&mut self, id: Id) -> &mut Node {
        Arc::make_mut(self.nodes.get_mut(&id).expect("a known inode"))
    }

    pub(crate) fn add(&mut self, kind: FileKind, mode: u32, parent: Id) -> Id {
        let node = Node {
            kind,
            mode,
            uid: 0,
            gid: 0,
            nlink: 0,
            parent,
            entries: BTreeMap::new(),
            target: Vec::new(),
            xattrs: BTreeMap::new(),
            content: Content::new(self.block_bytes),
        };
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, Arc::new(node));
        id
    }

    /// Forgets `id` if it has no name and is not open.
    fn forget_if_unused(&mut self, id: Id) {
        if self.node(id).nlink == 0 && !self.slots.values().any(|&open| open == id) {
            self.nodes.remove(&id);
        }
    }

    /// Returns a regular file; other types give an error or are outside of the model.
    fn file(&self, file: &File) -> Result<Id, Refusal> {
        let id = self.any_file(file)?;
        match self.node(id).kind {
            FileKind::Regular => Ok(id),
            FileKind::Directory => refuse(EISDIR),
            _ => Err(Refusal::Skip),
        }
    }

    /// Returns an inode of any type.
    ///
    /// # Errors
    /// If there is none.
    pub fn any_file(&self, file: &File) -> Result<Id, Refusal> {
        match file {
            File::At(path) => self.resolve(path),
            File::Open(slot) => self.slots.get(slot).copied().ok_or(Refusal::Skip),
        }
    }

    /// Returns the inode at `path`, which must not be a symbolic link.
    fn attributes_of(&self, path: &Path) -> Result<Id, Refusal> {
        let id = self.resolve(path)?;
        match self.node(id).kind {
            FileKind::Symlink => Err(Refusal::Skip),
            _ => Ok(id),
        }
    }

    /// Returns the inode at `path`, if it may have user attributes.
    fn xattrs_of(&self, path: &Path) -> Result<Id, Refusal> {
        let id = self.attributes_of(path)?;
        match self.node(id).kind {
            FileKind::Regular | FileKind::Directory => Ok(id),
            _ => refuse(EPERM),
        }
    }

    /// Runs `operation`.
    ///
    /// # Errors
    /// The refusal, after which nothing has changed.
    pub fn apply(&mut self, operation: &Operation) -> Outcome {
        let outcome = self.apply_loosely(operation);
        if self.exact {
            self.settle();
        }
        outcome
    }

    fn apply_loosely(&mut self, operation: &Operation) -> Outcome {
        use Operation as O;
        match operation {
            O::Create(path) => self.make(path, FileKind::Regular, 0o644).map(drop)?,
            O::Fifo(path) => self.make(path, FileKind::Fifo, 0o600).map(drop)?,
            O::Mkdir(path) => self.make(path, FileKind::Directory, 0o755).map(drop)?,
            O::Symlink { path, length } => {
                let id = self.make(path, FileKind::Symlink, 0o777)?;
                self.change(id).target = symlink_target(*length);
            }
            O::Link { from, to } => self.link(from, to)?,
            O::Unlink(path) => self.unlink(path)?,
            O::Rmdir(path) => self.rmdir(path)?,
            O::Rename { from, to, over } => self.rename(from, to, *over)?,
            O::Open { path, slot } => self.open(path, *slot)?,
            O::Close { slot } => {
                let id = self.slots.remove(slot).ok_or(Refusal::Skip)?;
                self.forget_if_unused(id);
            }
            O::Chmod { path, mode } => {
                let id = self.attributes_of(path)?;
                self.change(id).mode = *mode;
            }
            O::Chown { path, uid, gid } => {
                let id = self.attributes_of(path)?;
                let node = self.change(id);
                (node.uid, node.gid) = (*uid, *gid);
            }
            O::SetXattr {
                path,
                name,
                length,
                pattern,
            } => {
                let id = self.xattrs_of(path)?;
                let value = pattern_bytes(
                    *pattern,
                    Range {
                        offset: 0,
                        length: *length,
                    },
                );
                self.change(id).xattrs.insert(xattr_name(name), value);
            }
            O::RemoveXattr { path, name } => {
                let id = self.xattrs_of(path)?;
                let name = xattr_name(name);
                if !self.node(id).xattrs.contains_key(&name) {
                    return refuse(ENODATA);
                }
                self.change(id).xattrs.remove(&name);
            }
            O::Fsync { .. } | O::Sync | O::Checkpoint | O::Remount => self.sync(operation)?,
            O::WriteBack
            | O::LayoutCheckpoint
            | O::Clean
            | O::Coalesce
            | O::Claim
            | O::Move
            | O::Stranger(_)
            | O::SwitchPolicy
            | O::Maintain
            | O::DropCaches
            | O::Kill => {}
            _ => return self.apply_data(operation),
        }
        Ok(Answer::Done)
    }

    fn open(&mut self, path: &Path, slot: u8) -> Result<(), Refusal> {
        let id = self.resolve(path)?;
        if self.slots.contains_key(&slot) || self.node(id).kind != FileKind::Regular {
            return Err(Refusal::Skip);
        }
        self.slots.insert(slot, id);
        Ok(())
    }

    /// Runs an operation on a file's bytes.
    fn apply_data(&mut self, operation: &Operation) -> Outcome {
        use Operation as O;
        match operation {
            O::Write {
                file,
                range,
                pattern,
            } => {
                let id = self.file(file)?;
                let data = pattern_bytes(*pattern, *range);
                self.change(id).content.write(range.offset, &data);
            }
            O::Read { file, range } => {
                let id = self.file(file)?;
                return Ok(Answer::Bytes(self.node(id).content.read(*range)));
            }
            O::Truncate { file, size } => {
                let id = self.file(file)?;
                self.change(id).content.truncate(*size);
            }
            O::Punch { file, range } => {
                let id = self.allocatable(file, *range)?;
                self.change(id).content.punch(*range);
            }
            O::Zero { file, range } => {
                let id = self.allocatable(file, *range)?;
                let content = &mut self.change(id).content;
                content.reserve(range.end());
                content.zero_newest(*range);
                content.extend(range.end());
            }
            O::Reserve {
                file,
                range,
                keep_size,
            } => {
                let id = self.allocatable(file, *range)?;
                let content = &mut self.change(id).content;
                content.reserve(range.end());
                if !keep_size {
                    content.extend(range.end());
                }
            }
            O::Copy {
                from,
                range,
                to,
                offset,
            } => return self.copy(from, *range, to, *offset),
            _ => return Err(Refusal::Skip),
        }
        Ok(Answer::Done)
    }

    fn allocatable(&self, file: &File, range: Range) -> Result<Id, Refusal> {
        let id = self.file(file)?;
        if range.length == 0 {
            refuse(EINVAL)
        } else {
            Ok(id)
        }
    }

    fn copy(&mut self, from: &File, range: Range, to: &File, offset: u64) -> Outcome {
        self.any_file(from)?;
        self.any_file(to)?;
        let (source, target) = (self.file(from)?, self.file(to)?);
        let data = self.node(source).content.read(range);
        let count = data.len() as u64;
        let overlap =
            |length: u64| offset < range.offset + length && range.offset < offset + length;
        if source == target && overlap(count) {
            return refuse(EINVAL);
        }
        self.change(target).content.write(offset, &data);
        Ok(Answer::Count(count))
    }

    /// Drops all but the newest states of everything that `operation` promises. The fsync
    /// of a directory promises names, and no file's data.
    fn sync(&mut self, operation: &Operation) -> Result<(), Refusal> {
        if let Operation::Fsync { file, .. } = operation {
            let id = self.any_file(file)?;
            match self.node(id).kind {
                FileKind::Regular => self.settle_file(id),
                FileKind::Directory => {}
                _ => return Err(Refusal::Skip),
            }
            return Ok(());
        }
        self.settle();
        if *operation == Operation::Remount {
            self.close_all();
        }
        Ok(())
    }

    /// Makes the newest content of `id` the only possible one.
    fn settle_file(&mut self, id: Id) {
        if !self.distrustful {
            self.change(id).content.settle();
        }
    }

    /// Makes the newest contents the only possible ones.
    pub fn settle(&mut self) {
        if self.distrustful {
            return;
        }
        for node in self.nodes.values_mut() {
            if !node.content.settled() {
                Arc::make_mut(node).content.settle();
            }
        }
    }

    /// Kills the process: all files are closed, and those without a name are removed.
    pub fn close_all(&mut self) {
        self.slots.clear();
        self.nodes.retain(|_, node| node.nlink > 0);
    }

    /// Returns a model with the same settings and without inodes; the caller adds the
    /// root.
    pub(crate) fn emptied(&self) -> Self {
        Model {
            nodes: BTreeMap::new(),
            next: ROOT,
            slots: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// Makes `bytes` the newest content of the file `id`.
    pub fn observe(&mut self, id: Id, bytes: &[u8]) {
        self.change(id).content.observe(bytes);
    }
}

/// Returns the name of an attribute in the user's name space.
pub fn xattr_name(name: &str) -> Vec<u8> {
    format!("user.{name}").into_bytes()
}

#[cfg(test)]
mod tests;
