//! A record store's files in the file system of a platform, in a user's root directory.
//!
//! The processor pays for each call and for the bytes that it copies, as everywhere
//! here; for what the store does between two calls the experiment pays.

use super::Overlap;
use super::host::{CALL, COPY_BYTE};
use super::mounted::Behind;
use super::store::Store;
use std::fmt;
use std::io;
use std::sync::Arc;
use varve_fs::{Caller, Error, FileSystem, InodeNo, Layout, Rename, SetAttr};
use varve_tp::storage::{MemoryStorage, Storage, StoredFile};

/// What the name of the store's pages begins with.
const PAGES: &str = "pages";

/// How files are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Habits {
    /// All but the store's pages, so its log, is on a drive of its own, for which nobody
    /// waits (Seltzer et al. 1995, §4). If not, it lies beside the pages.
    pub log_apart: bool,
    /// A page goes to the medium when it is written, as a whole block in the FFS of
    /// 4.4BSD, and does not wait for others. The writer continues meanwhile where the
    /// platform writes behind, and waits where host and drive do not overlap.
    pub at_once: bool,
}

impl Habits {
    /// How host and drive of a platform overlap for such files: a page is written behind
    /// as soon as it is dirty, or waits until as much is dirty as may be.
    #[must_use]
    pub fn overlap(self, of_platform: Option<Overlap>) -> Option<Overlap> {
        of_platform.map(|overlap| Overlap {
            write_back_bytes: self.at_once.then_some(0),
            ..overlap
        })
    }
}

/// See the module's head.
pub struct Records<L: Layout> {
    /// The file system.
    pub fs: Arc<FileSystem<L>>,
    /// What that stands on.
    pub store: Arc<Store>,
    /// When what is dirty is written.
    pub(super) behind: Behind,
    /// Where the files are.
    pub home: InodeNo,
    /// How they are used.
    pub habits: Habits,
    /// The other drive.
    pub apart: MemoryStorage,
}

impl<L: Layout> Records<L> {
    fn is_apart(&self, name: &str) -> bool {
        self.habits.log_apart && !name.starts_with(PAGES)
    }
}

/// A file of it.
struct Stored<L: Layout> {
    fs: Arc<FileSystem<L>>,
    store: Arc<Store>,
    behind: Behind,
    ino: InodeNo,
    at_once: bool,
}

/// A file on the other drive.
#[derive(Debug)]
struct Apart {
    store: Arc<Store>,
    file: Arc<dyn StoredFile>,
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
        if self.is_apart(name) {
            return Ok(Arc::new(Apart {
                store: Arc::clone(&self.store),
                file: self.apart.open(name, create)?,
            }));
        }
        self.store.cpu().name();
        let (root, parent) = (Caller::root(), self.home);
        let found = match self.fs.lookup(&root, parent, name.as_bytes()) {
            Err(Error::NotFound) if create => {
                self.fs.mknod(&root, parent, name.as_bytes(), 0o100_644, 0)
            }
            found => found,
        };
        Ok(Arc::new(Stored {
            fs: Arc::clone(&self.fs),
            store: Arc::clone(&self.store),
            behind: self.behind,
            ino: found.map_err(told)?.ino,
            at_once: self.habits.at_once && name.starts_with(PAGES),
        }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.apart.list()?;
        let read = self.fs.readdir(self.home, 0, &mut |entry| {
            if !matches!(entry.name, b"." | b"..") {
                names.push(String::from_utf8_lossy(entry.name).into_owned());
            }
            true
        });
        read.map_err(told).map(|()| names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if self.is_apart(from) {
            return self.apart.rename(from, to);
        }
        self.store.cpu().name();
        let (root, parent) = (Caller::root(), self.home);
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
        match self.at_once && self.store.overlap().is_none() {
            true => self.sync(),
            false => self
                .behind
                .written(&self.fs, offset + done as u64)
                .map_err(told),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.store.cpu().work(CALL);
        self.fs.fsync(self.ino, true).map_err(told)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        let set = SetAttr {
            size: Some(bytes),
            ..SetAttr::default()
        };
        let cut = self.fs.setattr(&Caller::root(), self.ino, &set);
        cut.map(drop).map_err(told)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.fs.getattr(self.ino).map_err(told)?.size)
    }
}

impl StoredFile for Apart {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.store.cpu().work(CALL + bytes.len() as u64 * COPY_BYTE);
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.store.cpu().work(CALL);
        self.file.sync()
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.file.truncate(bytes)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}

impl<L: Layout> fmt::Debug for Records<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("habits", &self.habits)
            .finish_non_exhaustive()
    }
}

impl<L: Layout> fmt::Debug for Stored<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored")
            .field("ino", &self.ino)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
