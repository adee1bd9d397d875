//! Lists a directory.

use super::Volume;
use crate::error::Result;
use crate::metadata::{FileType, Metadata};
use crate::mounted::{Last, Mounted};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use varve_fs::{Attr, Error as FsError, FileKind, InodeNo};

/// Number of entries fetched at once.
const BATCH: usize = 256;

/// A directory that is being listed, pinned.
struct Directory {
    mounted: Arc<Mounted>,
    path: PathBuf,
    ino: InodeNo,
    /// True after the attributes of an entry were requested.
    is_examined: AtomicBool,
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.mounted.release(self.ino);
    }
}

/// One name in a directory, like [`std::fs::DirEntry`].
#[derive(Clone)]
pub struct DirEntry {
    directory: Arc<Directory>,
    name: OsString,
    ino: InodeNo,
    kind: FileKind,
}

impl DirEntry {
    /// Returns the path of the directory as it was given, joined with the name.
    pub fn path(&self) -> PathBuf {
        self.directory.path.join(&self.name)
    }

    /// Returns the name.
    pub fn file_name(&self) -> OsString {
        self.name.clone()
    }

    /// Returns the type of the file; a symbolic link is not followed.
    ///
    /// # Errors
    /// None; the directory stores the type.
    pub fn file_type(&self) -> Result<FileType> {
        Ok(FileType::new(self.kind))
    }

    /// Returns the attributes of the file; a symbolic link is not followed.
    ///
    /// # Errors
    /// If the name was removed meanwhile.
    pub fn metadata(&self) -> Result<Metadata> {
        let Directory { mounted, ino, .. } = &*self.directory;
        self.directory.is_examined.store(true, Relaxed);
        let attr = mounted.run("examine", &self.path(), |mounted| {
            mounted.find(*ino, self.name.as_bytes())?.attr()
        })?;
        Ok(Metadata::new(attr, mounted.device))
    }

    /// Returns the inode number of the file.
    pub fn ino(&self) -> u64 {
        self.ino.0
    }

    /// Lists the directory with this name; `None` if it no longer exists.
    pub(super) fn read_dir(&self) -> Result<Option<ReadDir>> {
        let Directory { mounted, ino, .. } = &*self.directory;
        let path = self.path();
        let held = mounted.run("list", &path, |mounted| {
            match mounted.find(*ino, self.name.as_bytes()) {
                Ok(found) if found.kind == FileKind::Directory => found.keep().map(Some),
                Ok(_) | Err(FsError::NotFound) => Ok(None),
                Err(error) => Err(error),
            }
        })?;
        Ok(held.map(|attr| ReadDir::new(mounted, &attr, path)))
    }

    pub(super) fn is_dir(&self) -> bool {
        self.kind == FileKind::Directory
    }
}

impl std::fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DirEntry").field(&self.path()).finish()
    }
}

/// An iterator over the names in a directory except for `.` and `..`, in no particular
/// order. A name that exists throughout is returned exactly once.
pub struct ReadDir {
    directory: Arc<Directory>,
    after: u64,
    batch: Batch,
    done: bool,
}

/// Entries that were fetched.
#[derive(Default)]
struct Batch {
    names: Vec<u8>,
    /// Inode, type, and end of each name in `names`.
    entries: Vec<(InodeNo, FileKind, usize)>,
    /// Number of entries already returned, and offset of the next name.
    gone: usize,
    start: usize,
}

impl Batch {
    fn clear(&mut self) {
        self.names.clear();
        self.entries.clear();
        (self.gone, self.start) = (0, 0);
    }

    fn next(&mut self) -> Option<(&[u8], InodeNo, FileKind)> {
        let &(ino, kind, end) = self.entries.get(self.gone)?;
        let name = &self.names[self.start..end];
        (self.gone, self.start) = (self.gone + 1, end);
        Some((name, ino, kind))
    }
}

impl Volume {
    /// Lists a directory.
    ///
    /// ```
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// volume.create_dir("/etc")?;
    /// volume.write("/etc/hosts", b"127.0.0.1 localhost")?;
    /// for entry in volume.read_dir("/etc")? {
    ///     let entry = entry?;
    ///     assert_eq!(entry.path().to_str(), Some("/etc/hosts"));
    ///     assert_eq!(entry.metadata()?.len(), 19);
    /// }
    /// # Ok::<(), varve::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the path leads to no directory.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<ReadDir> {
        let (mounted, path) = (self.mounted(), path.as_ref());
        let attr = mounted.by_path("list", path, |mounted, bytes| {
            let found = mounted.resolve(bytes, Last::Follow)?;
            match found.kind {
                FileKind::Directory => found.keep(),
                _ => Err(FsError::NotDirectory),
            }
        })?;
        Ok(ReadDir::new(mounted, &attr, path.to_owned()))
    }
}

impl ReadDir {
    /// Takes over the caller's pin on the inode.
    fn new(mounted: &Arc<Mounted>, attr: &Attr, path: PathBuf) -> Self {
        ReadDir {
            directory: Arc::new(Directory {
                mounted: Arc::clone(mounted),
                path,
                ino: attr.ino,
                is_examined: AtomicBool::new(false),
            }),
            after: 2, // `.` and `..`
            batch: Batch::default(),
            done: false,
        }
    }

    fn fetch(&mut self) -> Result<()> {
        let (batch, after) = (&mut self.batch, &mut self.after);
        batch.clear();
        let (start, directory) = (*after, &*self.directory);
        let Directory {
            mounted, path, ino, ..
        } = directory;
        mounted.run("list", path, |mounted| {
            mounted.readdir(*ino, *after, &mut |entry| {
                *after = entry.cookie;
                batch.names.extend_from_slice(entry.name);
                let end = batch.names.len();
                batch.entries.push((entry.ino, entry.kind, end));
                batch.entries.len() < BATCH
            })?;
            if directory.is_examined.load(Relaxed) {
                let listed = batch.entries.iter().map(|(ino, ..)| *ino);
                mounted.read_inodes_ahead(*ino, start, listed);
            }
            Ok(())
        })
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.batch.gone == self.batch.entries.len() && !self.done {
            if let Err(error) = self.fetch() {
                self.done = true;
                return Some(Err(error));
            }
            self.done = self.batch.entries.len() < BATCH;
        }
        let (name, ino, kind) = self.batch.next()?;
        Some(Ok(DirEntry {
            directory: Arc::clone(&self.directory),
            name: OsStr::from_bytes(name).to_owned(),
            ino,
            kind,
        }))
    }
}

impl std::fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ReadDir")
            .field(&self.directory.path)
            .finish()
    }
}
