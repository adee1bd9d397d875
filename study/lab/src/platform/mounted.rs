//! A real layout on a platform, mounted by the real file system.
//!
//! What the user writes waits in memory, as in the paper in a cache of 6.1 MB
//! that is taken for non-volatile, and is written back when that is full, or
//! when somebody waits for it.

use super::host::{CALL, Cpu};
use super::records::{Habits, Records};
use super::store::Store;
use super::{BLOCK, Platform, System};
use crate::error::LabError;
use crate::program::NumberedFiles;
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
    behind: Behind,
    /// Where files are made.
    here: InodeNo,
    bytes: Vec<u8>,
}

impl<L: Volume> Mounted<L> {
    /// The platform's file system on `layout`, which stands on `store`.
    ///
    /// # Errors
    /// There is no tree on it.
    pub fn new(layout: L, store: Arc<Store>, platform: &Platform) -> Result<Self, LabError> {
        let overlap = store.overlap();
        let options = Options {
            // A writer writes back when a quarter of the cache is dirty.
            cache_bytes: 4 * platform.nvram_bytes,
            write_back_bytes: overlap.and_then(|overlap| overlap.write_back_bytes),
            read_ahead_threads: overlap.map_or(0, |overlap| overlap.read_ahead_threads),
            read_ahead_window: platform.read_ahead_window,
            ..Options::default()
        };
        let clock: Arc<dyn Clock> = Arc::clone(store.clock()) as Arc<dyn Clock>;
        let fs = FileSystem::mount(Arc::new(layout), clock, options);
        let fs = fs.map_err(LabError::system)?;
        let behind = Behind {
            block_bytes: platform.layout.block_bytes(),
            bytes: overlap.and_then(|overlap| overlap.write_back_bytes),
        };
        Ok(Mounted::at(Arc::new(fs), store, behind, InodeNo::ROOT))
    }

    fn at(fs: Arc<FileSystem<L>>, store: Arc<Store>, behind: Behind, home: InodeNo) -> Self {
        Mounted {
            fs,
            store,
            files: HashMap::new(),
            directories: HashMap::from([(0, home)]),
            behind,
            here: home,
            bytes: vec![0x5a; 4 << 20],
        }
    }

    /// The root of this user.
    fn home(&self) -> InodeNo {
        self.directories[&0]
    }

    /// Bytes of a file that the file system is asked for at once: all that the user
    /// asks for, or, where the drive can be at work meanwhile, a block of the layout's.
    fn piece_bytes(&self) -> usize {
        match self.store.overlap() {
            None => usize::MAX,
            Some(_) => self.behind.block_bytes as usize,
        }
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

/// When a writer has what is dirty written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Behind {
    block_bytes: u64,
    /// Dirty bytes beyond which it is.
    bytes: Option<u64>,
}

impl Behind {
    /// A writer has come to `at`: if a block is full, and too much is dirty, has it
    /// written, without waiting for the drive. The file system's own waker is not used, as
    /// it begins sooner behind a file that grows.
    pub fn written<L: Layout>(&self, fs: &FileSystem<L>, at: u64) -> varve_fs::Result<()> {
        let is_full = at.is_multiple_of(self.block_bytes);
        let is_much = |bytes: u64| fs.statistics().dirty_bytes > bytes;
        if is_full && self.bytes.is_some_and(is_much) {
            while fs.write_back()? {}
        }
        Ok(())
    }
}

fn name(file: u32) -> String {
    format!("f{file:05}")
}

impl<L: Volume> NumberedFiles for Mounted<L> {
    type Error = LabError;

    fn enter(&mut self, directory: u32) -> Result<(), LabError> {
        if !self.directories.contains_key(&directory) {
            self.cpu().name();
            let (root, name) = (Caller::root(), format!("d{directory}"));
            let home = self.directories[&0];
            let made = self.fs.mkdir(&root, home, name.as_bytes(), 0o755);
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
        let (root, (_, ino)) = (Caller::root(), self.file(file)?);
        let (mut at, mut call) = (offset, CALL);
        for piece in self.bytes[..bytes as usize].chunks(self.piece_bytes()) {
            self.cpu()
                .transfer(std::mem::take(&mut call), piece.len() as u64);
            let written = self.fs.write(&root, ino, at, piece);
            at += written.map_err(LabError::system)? as u64;
            self.behind
                .written(&self.fs, at)
                .map_err(LabError::system)?;
        }
        if sync {
            let durable = self.fs.fsync(ino, true);
            durable.map_err(LabError::system)?;
        }
        Ok(())
    }

    fn read(&mut self, file: u32, offset: u64, bytes: u32) -> Result<(), LabError> {
        let root = Caller::root();
        let (parent, _) = self.file(file)?;
        let (mut at, mut call, mut ino) = (offset, CALL, None);
        let pieces = self.piece_bytes();
        for into in self.bytes[..bytes as usize].chunks_mut(pieces) {
            let cpu = self.store.cpu();
            cpu.transfer(std::mem::take(&mut call), into.len() as u64);
            let ino = match ino {
                Some(ino) => ino,
                None => {
                    let found = self.fs.lookup(&root, parent, name(file).as_bytes());
                    *ino.insert(found.map_err(LabError::system)?.ino)
                }
            };
            let read = self.fs.read(ino, at, into).map_err(LabError::system)?;
            if read < into.len() || into.iter().any(|&byte| byte != 0x5a) {
                return Err(LabError::System(format!("file {file} reads otherwise")));
            }
            at += read as u64;
        }
        Ok(())
    }

    fn open(&mut self, file: u32) -> Result<(), LabError> {
        self.cpu().name();
        let (parent, ino) = self.file(file)?;
        let found = self
            .fs
            .lookup(&Caller::root(), parent, name(file).as_bytes());
        found.map_err(LabError::system)?;
        self.fs.getattr(ino).map(drop).map_err(LabError::system)
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

    fn sync(&mut self) -> Result<(), LabError> {
        self.fs.sync().map_err(LabError::system)
    }

    fn now_ns(&self) -> u64 {
        self.store.now_ns()
    }
}

impl<L: Volume> System for Mounted<L> {
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

    fn scan_all(&mut self) -> Result<(), LabError> {
        let scan = self.fs.scan(&Caller::root(), b"/");
        for piece in scan.map_err(LabError::system)? {
            let piece = piece.map_err(|failed| LabError::system(failed.error))?;
            self.cpu().transfer(CALL, piece.bytes.len() as u64);
        }
        Ok(())
    }

    fn sync_names(&mut self) -> Result<(), LabError> {
        self.cpu().work(super::host::CALL);
        let durable = self.fs.fsync(InodeNo::ROOT, false);
        durable.map_err(LabError::system)
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

    fn users(&self, count: u32) -> Result<Vec<Box<dyn System + Send>>, LabError> {
        let user = |nth: u32| {
            let name = format!("u{nth}");
            let made = self
                .fs
                .mkdir(&Caller::root(), InodeNo::ROOT, name.as_bytes(), 0o755);
            let home = made.map_err(LabError::system)?.ino;
            let (fs, store) = (Arc::clone(&self.fs), Arc::clone(&self.store));
            let user = Mounted::at(fs, store, self.behind, home);
            Ok(Box::new(user) as Box<dyn System + Send>)
        };
        (0..count).map(user).collect()
    }

    fn records(&self, habits: Habits, apart: &MemoryStorage) -> Arc<dyn Storage> {
        Arc::new(Records {
            fs: Arc::clone(&self.fs),
            store: Arc::clone(&self.store),
            behind: self.behind,
            home: self.home(),
            habits,
            apart: apart.clone(),
        })
    }

    fn coalesce(&mut self) -> Result<(), LabError> {
        let mut files = Vec::new();
        let read = self.fs.readdir(self.home(), 0, &mut |entry| {
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
