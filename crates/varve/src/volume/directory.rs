//! Listing a directory.

use super::walk::Last;
use super::{Mounted, Volume, at, bytes};
use crate::error::Result;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve_fs::{Error as Cause, FileKind, InodeNo, View};

/// Entries fetched at once.
const BATCH: usize = 256;

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    name: OsString,
    ino: InodeNo,
    kind: FileKind,
}

impl DirEntry {
    /// The name.
    pub fn file_name(&self) -> &OsStr {
        &self.name
    }

    /// What it leads to; a symbolic link counts as itself.
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// The inode it leads to.
    pub fn ino(&self) -> InodeNo {
        self.ino
    }
}

/// The names in a directory but for `.` and `..`, in no particular order. A
/// name that exists throughout is seen exactly once.
pub struct ReadDir {
    mounted: Arc<Mounted>,
    path: PathBuf,
    directory: InodeNo,
    after: u64,
    batch: VecDeque<DirEntry>,
    done: bool,
}

impl Volume {
    /// Lists a directory.
    ///
    /// ```
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// volume.create_dir("/etc")?;
    /// volume.write("/etc/hosts", b"127.0.0.1 localhost")?;
    /// let names: Vec<_> = volume.read_dir("/etc")?.collect::<Result<_, _>>()?;
    /// assert_eq!(names[0].file_name(), "hosts");
    /// # Ok::<(), varve::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the path leads to no directory.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<ReadDir> {
        let path = path.as_ref();
        let attr = self.mounted.resolve(bytes(path), Last::Follow);
        let attr = attr
            .and_then(|attr| match attr.kind {
                FileKind::Directory => attr.keep(),
                _ => Err(Cause::NotDirectory),
            })
            .map_err(at("list", path))?;
        Ok(ReadDir {
            mounted: Arc::clone(&self.mounted),
            path: path.to_owned(),
            directory: attr.ino,
            after: 2, // `.` and `..`
            batch: VecDeque::new(),
            done: false,
        })
    }
}

impl ReadDir {
    fn fetch(&mut self) -> varve_fs::Result<()> {
        let (batch, after) = (&mut self.batch, &mut self.after);
        let fs = &self.mounted.fs;
        fs.readdir(View::Live, self.directory, *after, &mut |entry| {
            *after = entry.cookie;
            batch.push_back(DirEntry {
                name: OsString::from_vec(entry.name.to_vec()),
                ino: entry.ino,
                kind: entry.kind,
            });
            batch.len() < BATCH
        })
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.batch.is_empty() && !self.done {
            if let Err(error) = self.fetch() {
                self.done = true;
                return Some(Err(at("list", &self.path)(error)));
            }
            self.done = self.batch.len() < BATCH;
        }
        self.batch.pop_front().map(Ok)
    }
}

impl Drop for ReadDir {
    fn drop(&mut self) {
        self.mounted.fs.release(self.directory, 1);
    }
}
