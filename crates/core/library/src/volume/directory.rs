//! Listing a directory.

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

/// Entries fetched at once.
const BATCH: usize = 256;

/// A directory that is being listed, held.
struct Directory {
    mounted: Arc<Mounted>,
    path: PathBuf,
    ino: InodeNo,
    /// Somebody has asked for the attributes of an entry.
    is_examined: AtomicBool,
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.mounted.release(self.ino);
    }
}

/// One name in a directory, as [`std::fs::DirEntry`].
#[derive(Clone)]
pub struct DirEntry {
    directory: Arc<Directory>,
    name: OsString,
    ino: InodeNo,
    kind: FileKind,
}

impl DirEntry {
    /// The directory's path, as it was given, and the name.
    pub fn path(&self) -> PathBuf {
        self.directory.path.join(&self.name)
    }

    /// The name.
    pub fn file_name(&self) -> OsString {
        self.name.clone()
    }

    /// What it leads to; a symbolic link counts as itself.
    ///
    /// # Errors
    /// None: the directory says it.
    pub fn file_type(&self) -> Result<FileType> {
        Ok(FileType::new(self.kind))
    }

    /// The attributes of what it leads to; of a symbolic link, its own.
    ///
    /// # Errors
    /// If the name has gone meanwhile.
    pub fn metadata(&self) -> Result<Metadata> {
        let Directory { mounted, ino, .. } = &*self.directory;
        self.directory.is_examined.store(true, Relaxed);
        let attr = mounted.run("examine", &self.path(), |mounted| {
            mounted.find(*ino, self.name.as_bytes())?.attr()
        })?;
        Ok(Metadata::new(attr, mounted.device))
    }

    /// The number of the file that it leads to.
    pub fn ino(&self) -> u64 {
        self.ino.0
    }

    /// What is in the directory it leads to; `None` if there is no such
    /// directory any more.
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

/// The names in a directory but for `.` and `..`, in no particular order. A
/// name that exists throughout is seen exactly once.
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
    /// Where the name ends.
    entries: Vec<(InodeNo, FileKind, usize)>,
    /// How many have been handed out, and where the next one's name begins.
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
    /// Takes over what holds the inode.
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
