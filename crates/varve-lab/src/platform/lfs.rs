//! The real log-structured layout on a platform.
//!
//! What the user writes waits in memory, as in the paper in a cache of 6.1 MB
//! that is taken for non-volatile, and is written back when that is full. The
//! cleaner works when no segment is left, and in idle time, segment by segment:
//! it cannot stop within one. Idle time that is left writes back what waits.

use super::host::Cpu;
use super::store::Store;
use super::{BLOCK, System};
use crate::experiment::LabError;
use std::collections::HashMap;
use std::sync::Arc;
use varve_device::Clock;
use varve_fs::{Caller, FileSystem, InodeNo, Layout, Options, View};
use varve_lfs::cleaner::Pace;
use varve_lfs::{FormatOptions, Lfs, MountOptions};

/// Bytes of a segment: half of the paper's (§4.4), because on a disk of 23 MB
/// the reserve of 512 KB segments would not leave 80 %.
pub const SEGMENT_BYTES: u32 = 256 << 10;

/// See the module's head.
pub struct LogStructured {
    fs: FileSystem<Lfs>,
    store: Arc<Store>,
    files: HashMap<u32, InodeNo>,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for LogStructured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogStructured")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl LogStructured {
    /// A fresh volume on all of `store`, with `nvram_bytes` for what waits.
    ///
    /// # Errors
    /// It cannot be made or mounted.
    pub fn new(store: Arc<Store>, nvram_bytes: u64, seed: u64) -> Result<Self, LabError> {
        let clock: Arc<dyn Clock> = Arc::clone(store.clock()) as Arc<dyn Clock>;
        let format = FormatOptions {
            segment_bytes: SEGMENT_BYTES,
            seed: Some(seed),
            ..FormatOptions::default()
        };
        Lfs::format(&*store, &*clock, &format).map_err(LabError::system)?;
        let mount = || {
            let options = MountOptions {
                seed: Some(seed),
                // Only when no segment is left, as in the paper.
                pace: Pace {
                    running: false,
                    ..Pace::default()
                },
                ..MountOptions::default()
            };
            let device: Arc<Store> = Arc::clone(&store);
            Lfs::mount(device, Arc::clone(&clock), options).map_err(LabError::system)
        };
        let layout = mount()?;
        FileSystem::format(&layout, &*clock, (0, 0)).map_err(LabError::system)?;
        layout.unmount().map_err(LabError::system)?;
        drop(layout);
        let options = Options {
            // A writer writes back when a quarter of the cache is dirty.
            cache_bytes: 4 * nvram_bytes,
            ..Options::default()
        };
        let fs = FileSystem::mount(mount()?, Arc::clone(&clock), options);
        Ok(LogStructured {
            fs: fs.map_err(LabError::system)?,
            store,
            files: HashMap::new(),
            bytes: vec![0x5a; 1 << 20],
        })
    }

    /// The volume.
    pub fn volume(&self) -> &Lfs {
        self.fs.layout()
    }

    fn ino(&self, file: u32) -> Result<InodeNo, LabError> {
        let ino = self.files.get(&file).copied();
        ino.ok_or_else(|| LabError::System(format!("there is no file {file}")))
    }

    fn cpu(&self) -> &Cpu {
        self.store.cpu()
    }

    /// Cleans the segment that has least in it, if that gains anything.
    fn clean_one(&self) -> Result<bool, LabError> {
        let volume = self.volume();
        let candidates = volume.candidates();
        let emptiest = candidates.iter().min_by_key(|c| (c.live_bytes, c.segment));
        let worth =
            |c: &&varve_lfs::cleaner::policy::Candidate| c.live_bytes > 0 && c.is_worth_it();
        match emptiest.filter(worth) {
            None => Ok(false),
            Some(candidate) => {
                let cleaned = volume.clean_segment(candidate.segment);
                cleaned.map_err(LabError::system)
            }
        }
    }
}

fn name(file: u32) -> String {
    format!("f{file:05}")
}

impl System for LogStructured {
    fn create(&mut self, file: u32) -> Result<(), LabError> {
        self.cpu().name();
        let root = Caller::root();
        let (parent, name) = (InodeNo::ROOT, name(file));
        let made = self
            .fs
            .mknod(View::Live, &root, parent, name.as_bytes(), 0o100_644, 0);
        let ino = made.map_err(LabError::system)?.ino;
        self.files.insert(file, ino);
        Ok(())
    }

    fn write(&mut self, file: u32, offset: u64, bytes: u32, sync: bool) -> Result<(), LabError> {
        self.cpu().transfer(u64::from(bytes));
        let (root, ino) = (Caller::root(), self.ino(file)?);
        let data = &self.bytes[..bytes as usize];
        let written = self.fs.write(View::Live, &root, ino, offset, data);
        written.map_err(LabError::system)?;
        if sync {
            let durable = self.fs.fsync(View::Live, ino, true);
            durable.map_err(LabError::system)?;
        }
        Ok(())
    }

    fn read(&mut self, file: u32, offset: u64, bytes: u32) -> Result<(), LabError> {
        self.cpu().transfer(u64::from(bytes));
        let root = Caller::root();
        let found = self
            .fs
            .lookup(View::Live, &root, InodeNo::ROOT, name(file).as_bytes());
        let ino = found.map_err(LabError::system)?.ino;
        let into = &mut self.bytes[..bytes as usize];
        let read = self.fs.read(View::Live, ino, offset, into);
        let read = read.map_err(LabError::system)?;
        match read as u32 == bytes && into.iter().all(|&byte| byte == 0x5a) {
            true => Ok(()),
            false => Err(LabError::System(format!("file {file} reads otherwise"))),
        }
    }

    fn delete(&mut self, file: u32) -> Result<(), LabError> {
        self.cpu().name();
        let root = Caller::root();
        let gone = self
            .fs
            .unlink(View::Live, &root, InodeNo::ROOT, name(file).as_bytes());
        gone.map_err(LabError::system)?;
        self.files.remove(&file);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), LabError> {
        self.fs.sync().map_err(LabError::system)
    }

    fn forget(&mut self) {
        self.fs.drop_caches();
        self.fs.layout().drop_caches();
    }

    fn idle(&mut self, until_ns: u64) -> Result<(), LabError> {
        let mut cleaned = false;
        while self.store.now_ns() < until_ns && self.clean_one()? {
            cleaned = true;
        }
        if cleaned {
            // Only a checkpoint makes room of what was cleaned.
            self.fs.layout().checkpoint().map_err(LabError::system)?;
        }
        let waiting = self.fs.statistics().dirty_bytes;
        if waiting >= BLOCK && self.store.now_ns() < until_ns {
            self.sync()?;
        }
        self.store.wait(until_ns);
        Ok(())
    }

    fn store(&self) -> &Store {
        &self.store
    }
}
