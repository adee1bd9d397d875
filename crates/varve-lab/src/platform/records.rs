//! The record store in the file system of a platform, and its log on a drive of its
//! own, which takes no time.
//!
//! The files lie in the root directory. The processor pays for each call and for the
//! bytes that it copies, as everywhere here.

use super::host::CALL;
use super::store::Store;
use std::fmt;
use std::io;
use std::sync::Arc;
use varve_fs::{Caller, Error, FileSystem, InodeNo, Layout, Rename};
use varve_tp::storage::{MemoryStorage, Storage, StoredFile};

/// What the names of the store's log begin with.
const LOG: &str = "wal-";

/// See the module's head.
pub struct Records<L: Layout> {
    fs: Arc<FileSystem<L>>,
    store: Arc<Store>,
    log: MemoryStorage,
}

/// A file of it.
struct Stored<L: Layout> {
    fs: Arc<FileSystem<L>>,
    store: Arc<Store>,
    ino: InodeNo,
}

impl<L: Layout> Records<L> {
    /// In this file system, with an empty log.
    pub fn new(fs: Arc<FileSystem<L>>, store: Arc<Store>) -> Self {
        Records {
            fs,
            store,
            log: MemoryStorage::new(),
        }
    }
}

fn told(error: Error) -> io::Error {
    let kind = match error {
        Error::NotFound => io::ErrorKind::NotFound,
        Error::NoSpace => io::ErrorKind::StorageFull,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

impl<L: Layout> Storage for Records<L> {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn StoredFile>> {
        if name.starts_with(LOG) {
            return self.log.open(name, create);
        }
        self.store.cpu().name();
        let (root, parent) = (Caller::root(), InodeNo::ROOT);
        let found = match self.fs.lookup(&root, parent, name.as_bytes()) {
            Err(Error::NotFound) if create => {
                self.fs.mknod(&root, parent, name.as_bytes(), 0o100_644, 0)
            }
            found => found,
        };
        Ok(Arc::new(Stored {
            fs: Arc::clone(&self.fs),
            store: Arc::clone(&self.store),
            ino: found.map_err(told)?.ino,
        }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.log.list()?;
        let read = self.fs.readdir(InodeNo::ROOT, 0, &mut |entry| {
            if !matches!(entry.name, b"." | b"..") {
                names.push(String::from_utf8_lossy(entry.name).into_owned());
            }
            true
        });
        read.map_err(told).map(|()| names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if from.starts_with(LOG) {
            return self.log.rename(from, to);
        }
        self.store.cpu().name();
        let (root, parent) = (Caller::root(), InodeNo::ROOT);
        let (from, to) = (from.as_bytes(), to.as_bytes());
        let renamed = self
            .fs
            .rename(&root, parent, from, parent, to, Rename::default());
        renamed.map_err(told)
    }

    fn lock(&self) -> io::Result<()> {
        Ok(())
    }
}

impl<L: Layout> StoredFile for Stored<L> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.store.cpu().transfer(CALL, buffer.len() as u64);
        match self.fs.read(self.ino, offset, buffer).map_err(told)? {
            read if read == buffer.len() => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.store.cpu().transfer(CALL, bytes.len() as u64);
        let mut done = 0;
        while done < bytes.len() {
            let (at, rest) = (offset + done as u64, &bytes[done..]);
            let written = self.fs.write(&Caller::root(), self.ino, at, rest);
            done += written.map_err(told)?;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.fs.fsync(self.ino, true).map_err(told)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        let set = varve_fs::SetAttr {
            size: Some(bytes),
            ..varve_fs::SetAttr::default()
        };
        let cut = self.fs.setattr(&Caller::root(), self.ino, &set);
        cut.map(drop).map_err(told)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.fs.getattr(self.ino).map_err(told)?.size)
    }
}

impl<L: Layout> fmt::Debug for Records<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").finish_non_exhaustive()
    }
}

impl<L: Layout> fmt::Debug for Stored<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored")
            .field("ino", &self.ino)
            .finish_non_exhaustive()
    }
}
