//! Files of the host, in one directory.
//!
//! Writes use the page cache, and a sync is fdatasync. Of the methods for writing a small
//! log record (this one, O_DSYNC, O_DIRECT with either) none was measurably faster in
//! trials, and this one has no requirements on the file system below.

use super::{Storage, StoredFile};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A directory of the host.
#[derive(Debug)]
pub struct HostStorage {
    directory: PathBuf,
    read_only: bool,
    lock: OnceLock<File>,
}

impl HostStorage {
    /// Opens a directory, which is created if it is missing.
    ///
    /// # Errors
    /// Errors of the host.
    pub fn new(directory: impl AsRef<Path>) -> io::Result<Self> {
        std::fs::create_dir_all(&directory)?;
        Ok(Self::of(directory.as_ref(), false))
    }

    /// Opens a directory for reading, below an [`OverlayStorage`](super::OverlayStorage).
    /// Nothing is created, and files need not be writable. Several processes may read at
    /// a time while none writes.
    ///
    /// # Errors
    /// If it is not a directory.
    pub fn read_only(directory: impl AsRef<Path>) -> io::Result<Self> {
        match std::fs::metadata(&directory)?.is_dir() {
            true => Ok(Self::of(directory.as_ref(), true)),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn of(directory: &Path, read_only: bool) -> Self {
        HostStorage {
            directory: directory.to_owned(),
            read_only,
            lock: OnceLock::new(),
        }
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

impl Storage for HostStorage {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn StoredFile>> {
        let path = self.directory.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(!self.read_only);
        match options.open(&path) {
            Err(error) if create && error.kind() == io::ErrorKind::NotFound => {
                let file = options.create(true).open(&path)?;
                self.sync_names()?;
                Ok(Arc::new(HostFile(file)))
            }
            other => Ok(Arc::new(HostFile(other?))),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(&self.directory)?;
        let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.directory.join(from), self.directory.join(to))?;
        self.sync_names()
    }

    fn lock(&self) -> io::Result<()> {
        if self.lock.get().is_some() {
            return Ok(());
        }
        let path = self.directory.join("lock");
        let file = match self.read_only {
            true => {
                let file = match File::open(path) {
                    // The environment was never opened here, or it is a copy without a
                    // lock file.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                    file => file?,
                };
                flock(&file, FlockOperation::NonBlockingLockShared)?;
                file
            }
            false => {
                let mut options = OpenOptions::new();
                options.write(true).create(true).truncate(false);
                let file = options.open(path)?;
                flock(&file, FlockOperation::NonBlockingLockExclusive)?;
                file
            }
        };
        let _ = self.lock.set(file);
        Ok(())
    }
}

#[derive(Debug)]
struct HostFile(File);

impl StoredFile for HostFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
