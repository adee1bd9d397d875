//! One thread that creates files and content until there is no space.

use super::listing::name_of;
use super::{Life, Wrong};
use crate::mounted::Tree;
use crate::random::Random;
use std::sync::atomic::Ordering::Relaxed;
use varve_fs::{Attr, Error, FileKind, InodeNo, Result};

/// Result of a correct attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt<T> {
    Done(T),
    /// There is no space, or no free inode number.
    Refused,
}

impl<T> Attempt<T> {
    pub fn is_done(&self) -> bool {
        matches!(self, Attempt::Done(_))
    }
}

/// State of one such thread.
pub struct Hands<'a> {
    pub life: &'a Life<'a>,
    pub random: Random,
    /// Directories in which it creates names; never empty.
    pub directories: Vec<InodeNo>,
    /// Files that it created, with their sizes.
    pub files: Vec<(InodeNo, u64)>,
    /// Names of files, with their directories.
    pub names: Vec<(InodeNo, Vec<u8>)>,
}

/// Largest number of files, names and directories that are remembered.
const REMEMBERED: usize = 20_000;

impl<'a> Hands<'a> {
    pub fn new(life: &'a Life<'a>, random: Random) -> Self {
        Hands {
            life,
            random,
            directories: vec![InodeNo::ROOT],
            files: Vec::new(),
            names: Vec::new(),
        }
    }

    pub fn tree(&self) -> &'a dyn Tree {
        self.life.tree()
    }

    /// Accepts success and a refusal for lack of space; anything else is a failure. The
    /// background work of a mount is sometimes done here.
    pub fn judge<T>(
        &mut self,
        what: &str,
        outcome: Result<T>,
    ) -> std::result::Result<Attempt<T>, Wrong> {
        if self.random.once_in(64) {
            let written = self.life.served().step();
            written.map_err(|error| format!("write-back while it fills: {error}"))?;
        }
        if self.random.once_in(500) {
            let synced = self.tree().sync();
            synced.map_err(|error| format!("sync while it fills: {error}"))?;
        }
        match outcome {
            Ok(done) => {
                self.life.counts.made.fetch_add(1, Relaxed);
                Ok(Attempt::Done(done))
            }
            // Some layouts have no files as large as a sparse one.
            Err(Error::NoSpace | Error::TooManyLinks | Error::TooLarge) => {
                self.life.counts.refused.fetch_add(1, Relaxed);
                Ok(Attempt::Refused)
            }
            Err(error) => Err(format!("{what}: {error}")),
        }
    }

    /// Returns an unused name.
    pub fn new_name(&self) -> Vec<u8> {
        let number = self.life.next.fetch_add(1, Relaxed);
        name_of(number, self.life.case.name_bytes)
    }

    pub fn any_directory(&mut self) -> InodeNo {
        *self.random.pick(&self.directories)
    }

    pub fn any_file(&mut self) -> Option<usize> {
        let files = self.files.len() as u64;
        (files > 0).then(|| self.random.below(files) as usize)
    }

    /// Creates a file with a new name.
    pub fn file(&mut self) -> std::result::Result<Attempt<InodeNo>, Wrong> {
        let (parent, name) = (self.any_directory(), self.new_name());
        let mode = FileKind::Regular.mode_bits() | 0o644;
        let made = self.tree().mknod(parent, &name, mode);
        self.made(parent, name, made)
    }

    /// Creates a symbolic link of `bytes` bytes.
    pub fn symlink(&mut self, bytes: usize) -> std::result::Result<Attempt<InodeNo>, Wrong> {
        let (parent, name) = (self.any_directory(), self.new_name());
        let made = self.tree().symlink(parent, &name, &vec![b't'; bytes]);
        self.made(parent, name, made)
    }

    /// Adds a name to `ino`.
    pub fn link(&mut self, ino: InodeNo) -> std::result::Result<Attempt<InodeNo>, Wrong> {
        let (parent, mut name) = (self.any_directory(), self.new_name());
        // Only names take space here; a million short ones would be needed.
        name.resize(200, b'l');
        let made = self.tree().link(ino, parent, &name);
        self.made(parent, name, made)
    }

    fn made(
        &mut self,
        parent: InodeNo,
        name: Vec<u8>,
        made: Result<Attr>,
    ) -> std::result::Result<Attempt<InodeNo>, Wrong> {
        match self.judge("a name", made)? {
            Attempt::Done(attr) => {
                if attr.kind == FileKind::Regular && self.files.len() < REMEMBERED {
                    self.files.push((attr.ino, attr.size));
                }
                if self.names.len() < REMEMBERED {
                    self.names.push((parent, name));
                }
                Ok(Attempt::Done(attr.ino))
            }
            Attempt::Refused => Ok(Attempt::Refused),
        }
    }

    /// Creates a directory in `parent`.
    pub fn directory(&mut self, parent: InodeNo) -> std::result::Result<Attempt<InodeNo>, Wrong> {
        let made = self.tree().mkdir(parent, &self.new_name(), 0o755);
        match self.judge("a directory", made)? {
            Attempt::Done(attr) => {
                if self.directories.len() < REMEMBERED {
                    self.directories.push(attr.ino);
                }
                Ok(Attempt::Done(attr.ino))
            }
            Attempt::Refused => Ok(Attempt::Refused),
        }
    }

    /// Writes bytes at an offset of a file.
    pub fn write(
        &mut self,
        ino: InodeNo,
        offset: u64,
        bytes: usize,
    ) -> std::result::Result<Attempt<()>, Wrong> {
        let fill = self.random.word() as u8;
        let written = self.tree().write(ino, offset, &vec![fill; bytes]);
        let written = self.judge("a write", written)?;
        Ok(match written {
            Attempt::Done(count) if count == bytes => Attempt::Done(()),
            _ => Attempt::Refused,
        })
    }

    /// Sets an extended attribute of `bytes` bytes.
    pub fn attribute(
        &mut self,
        ino: InodeNo,
        name: &str,
        bytes: usize,
    ) -> std::result::Result<Attempt<()>, Wrong> {
        let value = vec![self.random.word() as u8; bytes];
        let set = self.tree().setxattr(ino, name.as_bytes(), &value);
        self.judge("an attribute", set)
    }
}
