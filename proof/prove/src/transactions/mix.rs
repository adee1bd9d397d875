//! The changes that transactions make, and the expected tree.
//!
//! A tree is two directories of files. Each owner has names of its own in both
//! directories, and a block of its own in a file that all owners share. Concurrent
//! transactions therefore never conflict, and the tree follows from their changes
//! whatever the order of the commits. Contents are derived from a salt that is used only
//! once.

use super::Fs;
use crate::random::Random;
use std::collections::BTreeMap;
use std::ops::Range;
use varve_fs::{Caller, Error, InodeNo, Rename, Result, SetAttr};

const BLOCK: u64 = 4096;
const ATTRIBUTE: &[u8] = b"user.note";
/// Number of owners of the shared file. Each owner has one block of it.
pub const OWNERS: u64 = 4;
/// Name of the shared file.
const SHARED: &str = "shared";

/// Number of a directory, 0 or 1, and a name in it.
pub type Path = (u8, String);

/// Content of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Data bytes of the file.
    pub bytes: Vec<u8>,
    /// Value of its attribute, or empty if the file has none.
    pub note: Vec<u8>,
}

/// All files, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree(pub BTreeMap<Path, Content>);

/// One change to a tree.
#[derive(Clone, Debug)]
pub enum Change {
    /// Creates an empty file.
    Make(Path),
    /// Writes data: path, offset, length in bytes, and salt of the data.
    Write(Path, u64, u64, u64),
    /// Truncates or extends the file to this size in bytes.
    Cut(Path, u64),
    /// Removes the only name of a file.
    Remove(Path),
    /// Renames a file, possibly over another one.
    Move(Path, Path),
    /// Sets the attribute to a value that is derived from this salt.
    Note(Path, u64),
}

fn bytes_of(salt: u64, length: u64) -> Vec<u8> {
    let words = (0..length.div_ceil(8)).map(|at| salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at);
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(length as usize);
    bytes
}

impl Tree {
    /// Returns the names of an owner.
    fn of(&self, owner: u64) -> Vec<Path> {
        let start = format!("{owner}-");
        let own = self.0.keys().filter(|(_, name)| name.starts_with(&start));
        own.cloned().collect()
    }

    /// Returns a short description of the difference.
    pub fn difference(&self, other: &Tree) -> String {
        let mut told = Vec::new();
        for (path, content) in &self.0 {
            match other.0.get(path) {
                None => told.push(format!("{path:?} is missing")),
                Some(found) if found.note != content.note => {
                    told.push(format!("{path:?} has another attribute"));
                }
                Some(found) if found != content => {
                    let at = content
                        .bytes
                        .iter()
                        .zip(&found.bytes)
                        .position(|(a, b)| a != b);
                    let (a, b) = (content.bytes.len(), found.bytes.len());
                    told.push(format!("{path:?}: {b} bytes for {a}, other from {at:?} on"));
                }
                Some(_) => {}
            }
        }
        let more = other.0.keys().filter(|path| !self.0.contains_key(*path));
        told.extend(more.map(|path| format!("{path:?} is too much")));
        told.truncate(6);
        told.join(", ")
    }

    /// Draws a change for an owner. Contents are at most `length_max` bytes.
    pub fn draw(&self, random: &mut Random, owner: u64, length_max: u64, salt: u64) -> Change {
        let own = self.of(owner);
        let any = |random: &mut Random| {
            let name = format!("{owner}-{}", random.below(4));
            (random.below(2) as u8, name)
        };
        let kind = random.below(12);
        if kind == 0 {
            let block = owner % OWNERS * BLOCK;
            let from = random.below(BLOCK);
            let length = 1 + random.below(BLOCK - from);
            return Change::Write((0, SHARED.into()), block + from, length, salt);
        }
        let to = any(random);
        if own.is_empty() || kind < 3 && !self.0.contains_key(&to) {
            return Change::Make(to);
        }
        let one = random.pick(&own).clone();
        match kind {
            1..=6 => {
                let offset = random.below(length_max);
                let length = 1 + random.below(length_max - offset);
                Change::Write(one, offset, length, salt)
            }
            7 => Change::Cut(one, random.below(length_max)),
            8 => Change::Remove(one),
            9 | 10 if one != to => Change::Move(one, to),
            _ => Change::Note(one, salt),
        }
    }

    /// Makes a change.
    ///
    /// # Panics
    ///
    /// Panics if the change was drawn for another tree.
    pub fn change(&mut self, change: &Change) {
        let files = &mut self.0;
        match change {
            Change::Make(path) => drop(files.insert(path.clone(), Content::default())),
            Change::Write(path, offset, length, salt) => {
                let bytes = &mut files.get_mut(path).expect("a file").bytes;
                let range = *offset as usize..(offset + length) as usize;
                bytes.resize(bytes.len().max(range.end), 0);
                bytes[range].copy_from_slice(&bytes_of(*salt, *length));
            }
            Change::Cut(path, size) => {
                let bytes = &mut files.get_mut(path).expect("a file").bytes;
                bytes.resize(*size as usize, 0);
            }
            Change::Remove(path) => drop(files.remove(path)),
            Change::Move(from, to) => {
                let content = files.remove(from).expect("a file");
                files.insert(to.clone(), content);
            }
            Change::Note(path, salt) => {
                files.get_mut(path).expect("a file").note = bytes_of(*salt, 40);
            }
        }
    }
}

/// The two directories of a tree in a file system.
#[derive(Clone, Copy, Debug)]
pub struct Home([InodeNo; 2]);

impl Home {
    /// Creates the directories and the shared file.
    ///
    /// # Errors
    ///
    /// The same as those of the file system.
    pub fn make(fs: &Fs) -> Result<(Home, Tree)> {
        let root = Caller::root();
        let directory =
            |name: &[u8]| Ok::<_, Error>(fs.mkdir(&root, InodeNo::ROOT, name, 0o755)?.ino);
        let home = Home([directory(b"left")?, directory(b"right")?]);
        let mut tree = Tree::default();
        let shared = (0, SHARED.to_owned());
        let whole = Change::Write(shared.clone(), 0, OWNERS * BLOCK, 1);
        for change in [Change::Make(shared), whole] {
            home.change(fs, &change)?;
            tree.change(&change);
        }
        Ok((home, tree))
    }

    fn find(&self, fs: &Fs, (directory, name): &Path) -> Result<InodeNo> {
        let directory = self.0[usize::from(*directory)];
        // The lookup pins and releases the inode, because a lookup with size and times
        // would count as a read of them.
        let found = fs.lookup_held(&Caller::root(), directory, name.as_bytes())?;
        fs.release(found.ino, 1);
        Ok(found.ino)
    }

    /// Makes a change.
    ///
    /// # Errors
    ///
    /// The same as those of the file system.
    pub fn change(&self, fs: &Fs, change: &Change) -> Result<()> {
        let root = Caller::root();
        let directory = |path: &Path| self.0[usize::from(path.0)];
        match change {
            Change::Make(path) => {
                fs.mknod(&root, directory(path), path.1.as_bytes(), 0o644, 0)?;
            }
            Change::Write(path, offset, length, salt) => {
                let (ino, bytes) = (self.find(fs, path)?, bytes_of(*salt, *length));
                let written = fs.write(&root, ino, *offset, &bytes)?;
                if written < bytes.len() {
                    return Err(Error::NoSpace);
                }
            }
            Change::Cut(path, size) => {
                let set = SetAttr {
                    size: Some(*size),
                    ..SetAttr::default()
                };
                fs.setattr(&root, self.find(fs, path)?, &set)?;
            }
            Change::Remove(path) => fs.unlink(&root, directory(path), path.1.as_bytes())?,
            Change::Move(from, to) => {
                let (old, new) = (from.1.as_bytes(), to.1.as_bytes());
                let plain = Rename::default();
                fs.rename(&root, directory(from), old, directory(to), new, plain)?;
            }
            Change::Note(path, salt) => {
                let (ino, value) = (self.find(fs, path)?, bytes_of(*salt, 40));
                fs.setxattr(&root, ino, ATTRIBUTE, &value, false, false)?;
            }
        }
        Ok(())
    }

    /// Reads the whole tree, and checks that no other inodes are in use.
    ///
    /// # Errors
    ///
    /// A part that cannot be read, or an inode too many.
    pub fn walk(&self, fs: &Fs) -> std::result::Result<Tree, String> {
        let mut tree = Tree::default();
        for (number, directory) in (0..).zip(self.0) {
            let mut names = Vec::new();
            let listed = fs.readdir(directory, 2, &mut |entry| {
                names.push(String::from_utf8_lossy(entry.name).into_owned());
                true
            });
            listed.map_err(|error| format!("directory {number}: {error}"))?;
            for name in names {
                let path = (number, name);
                let content = self.read(fs, &path);
                let content = content.map_err(|error| format!("{path:?}: {error}"))?;
                tree.0.insert(path, content);
            }
        }
        let (used, found) = (fs.usage().inodes, tree.0.len() as u64 + 3);
        match used == found {
            true => Ok(tree),
            false => Err(format!("{used} inodes in use, {found} reached by names")),
        }
    }

    /// Reads an owner's block of the shared file.
    ///
    /// # Errors
    ///
    /// The same as those of the file system.
    pub fn look(&self, fs: &Fs, owner: u64) -> Result<()> {
        let ino = self.find(fs, &(0, SHARED.to_owned()))?;
        fs.read(ino, owner % OWNERS * BLOCK, &mut [0; BLOCK as usize])?;
        Ok(())
    }

    fn read(&self, fs: &Fs, path: &Path) -> Result<Content> {
        let ino = self.find(fs, path)?;
        let mut bytes = vec![0; fs.getattr(ino)?.size as usize];
        let read = fs.read(ino, 0, &mut bytes)?;
        bytes.truncate(read);
        let note = match fs.getxattr(&Caller::root(), ino, ATTRIBUTE) {
            Ok(note) => note,
            Err(Error::NoAttribute) => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(Content { bytes, note })
    }
}

/// Draws a number from a range.
pub fn within(random: &mut Random, range: Range<u64>) -> u64 {
    range.start + random.below(range.end - range.start)
}
