//! A real layout on a platform, mounted by the real file system.
//!
//! What the user writes waits in memory, as in the paper in a cache of 6.1 MB
//! that is taken for non-volatile, and is written back when that is full, or
//! when somebody waits for it.

use super::host::Cpu;
use super::records::{Habits, Records};
use super::store::Store;
use super::{BLOCK, System};
use crate::error::LabError;
use std::collections::HashMap;
use std::sync::Arc;
use varve_device::Clock;
use varve_fs::{Caller, FileSystem, InodeNo, Layout, Options};
use varve_lfs::Statistics;
use varve_tp::storage::{MemoryStorage, Storage};

/// Bytes that a scan reads by one call.
const SCANNED_AT_ONCE: u64 = 64 << 10;

/// What layouts do differently.
pub trait Volume: Layout {
    /// Forgets what can be read again.
    fn forget(&self);

    /// Tidies up until `until_ns` or until it is tidy, and may overrun that.
    ///
    /// # Errors
    /// The device fails.
    fn tidy(&self, store: &Store, until_ns: u64) -> Result<(), LabError>;

    /// What a log has counted, if it is one.
    fn log(&self) -> Option<Statistics> {
        None
    }

    /// Puts a file in order, if its blocks have no place of their own.
    ///
    /// # Errors
    /// The device fails.
    fn coalesce(&self, _file: InodeNo) -> Result<(), LabError> {
        Ok(())
    }
}

/// See the module's head.
pub struct Mounted<L: Layout> {
    fs: Arc<FileSystem<L>>,
    store: Arc<Store>,
    /// Where each file's name is, and the file.
    files: HashMap<u32, (InodeNo, InodeNo)>,
    directories: HashMap<u32, InodeNo>,
    /// Where files are made.
    here: InodeNo,
    bytes: Vec<u8>,
}

impl<L: Volume> Mounted<L> {
    /// The file system on `layout`, which stands on `store`, with `nvram_bytes`
    /// for what waits.
    ///
    /// # Errors
    /// There is no tree on it.
    pub fn new(layout: L, store: Arc<Store>, nvram_bytes: u64) -> Result<Self, LabError> {
        let options = Options {
            // A writer writes back when a quarter of the cache is dirty.
            cache_bytes: 4 * nvram_bytes,
            ..Options::default()
        };
        let clock: Arc<dyn Clock> = Arc::clone(store.clock()) as Arc<dyn Clock>;
        let fs = FileSystem::mount(layout, clock, options);
        Ok(Mounted {
            fs: Arc::new(fs.map_err(LabError::system)?),
            store,
            files: HashMap::new(),
            directories: HashMap::from([(0, InodeNo::ROOT)]),
            here: InodeNo::ROOT,
            bytes: vec![0x5a; 4 << 20],
        })
    }

    /// The file system, for its counters and its layout's.
    pub fn file_system(&self) -> &Arc<FileSystem<L>> {
        &self.fs
    }

    /// Where its name is, and the file.
    fn file(&self, file: u32) -> Result<(InodeNo, InodeNo), LabError> {
        let found = self.files.get(&file).copied();
        found.ok_or_else(|| LabError::System(format!("there is no file {file}")))
    }

    fn cpu(&self) -> &Cpu {
        self.store.cpu()
    }
}

fn name(file: u32) -> String {
    format!("f{file:05}")
}

impl<L: Volume> System for Mounted<L> {
    fn enter(&mut self, directory: u32) -> Result<(), LabError> {
        if !self.directories.contains_key(&directory) {
            self.cpu().name();
            let (root, name) = (Caller::root(), format!("d{directory}"));
            let made = self.fs.mkdir(&root, InodeNo::ROOT, name.as_bytes(), 0o755);
            let ino = made.map_err(LabError::system)?.ino;
            self.directories.insert(directory, ino);
        }
        self.here = self.directories[&directory];
        Ok(())
    }

    fn create(&mut self, file: u32) -> Result<(), LabError> {
        self.cpu().name();
        let root = Caller::root();
        let (parent, name) = (self.here, name(file));
        let made = self.fs.mknod(&root, parent, name.as_bytes(), 0o100_644, 0);
        let ino = made.map_err(LabError::system)?.ino;
        self.files.insert(file, (parent, ino));
        Ok(())
    }

    fn write(&mut self, file: u32, offset: u64, bytes: u32, sync: bool) -> Result<(), LabError> {
        self.cpu().transfer(u64::from(bytes));
        let (root, (_, ino)) = (Caller::root(), self.file(file)?);
        let data = &self.bytes[..bytes as usize];
        let written = self.fs.write(&root, ino, offset, data);
        written.map_err(LabError::system)?;
        if sync {
            let durable = self.fs.fsync(ino, true);
            durable.map_err(LabError::system)?;
        }
        Ok(())
    }

    fn read(&mut self, file: u32, offset: u64, bytes: u32) -> Result<(), LabError> {
        self.cpu().transfer(u64::from(bytes));
        let root = Caller::root();
        let (parent, _) = self.file(file)?;
        let found = self.fs.lookup(&root, parent, name(file).as_bytes());
        let ino = found.map_err(LabError::system)?.ino;
        let into = &mut self.bytes[..bytes as usize];
        let read = self.fs.read(ino, offset, into);
        let read = read.map_err(LabError::system)?;
        match read as u32 == bytes && into.iter().all(|&byte| byte == 0x5a) {
            true => Ok(()),
            false => Err(LabError::System(format!("file {file} reads otherwise"))),
        }
    }

    fn scan(&mut self, file: u32) -> Result<(), LabError> {
        let (_, ino) = self.file(file)?;
        let parts = self.fs.stretches(ino, 0..u64::MAX);
        for part in parts.map_err(LabError::system)? {
            let mut at = part.start;
            while at < part.end {
                let bytes = (part.end - at).min(SCANNED_AT_ONCE);
                self.read(file, at, bytes as u32)?;
                at += bytes;
            }
        }
        Ok(())
    }

    fn delete(&mut self, file: u32) -> Result<(), LabError> {
        self.cpu().name();
        let root = Caller::root();
        let (parent, _) = self.file(file)?;
        let gone = self.fs.unlink(&root, parent, name(file).as_bytes());
        gone.map_err(LabError::system)?;
        self.files.remove(&file);
        Ok(())
    }

    fn sync_names(&mut self) -> Result<(), LabError> {
        self.cpu().work(super::host::CALL);
        let durable = self.fs.fsync(InodeNo::ROOT, false);
        durable.map_err(LabError::system)
    }

    fn sync(&mut self) -> Result<(), LabError> {
        self.fs.sync().map_err(LabError::system)
    }

    fn forget(&mut self) {
        self.fs.drop_caches();
        self.fs.layout().forget();
    }

    fn idle(&mut self, until_ns: u64) -> Result<(), LabError> {
        self.fs.layout().tidy(&self.store, until_ns)?;
        let waiting = self.fs.statistics().dirty_bytes;
        if waiting >= BLOCK && self.store.now_ns() < until_ns {
            self.sync()?;
        }
        self.store.wait(until_ns);
        Ok(())
    }

    fn records(&self, habits: Habits, apart: &MemoryStorage) -> Arc<dyn Storage> {
        let (fs, store) = (Arc::clone(&self.fs), Arc::clone(&self.store));
        Arc::new(Records::new(fs, store, habits, apart.clone()))
    }

    fn coalesce(&mut self) -> Result<(), LabError> {
        let mut files = Vec::new();
        let read = self.fs.readdir(InodeNo::ROOT, 0, &mut |entry| {
            if !matches!(entry.name, b"." | b"..") {
                files.push(entry.ino);
            }
            true
        });
        read.map_err(LabError::system)?;
        let layout = self.fs.layout();
        files.into_iter().try_for_each(|file| layout.coalesce(file))
    }

    fn log(&self) -> Option<Statistics> {
        self.fs.layout().log()
    }

    fn store(&self) -> &Store {
        &self.store
    }
}

impl<L: Layout> std::fmt::Debug for Mounted<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mounted")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}
