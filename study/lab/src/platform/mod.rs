//! The platform of Wang et al. 1999, §4: a host, a drive, a disk or a virtual
//! log disk on it, and a file system on that, all on one virtual clock. In the
//! place of the drive there can be an NVMe-like device of today.
//!
//! | module | what is in it |
//! |---|---|
//! | [`host`] | what the processor costs, from a table |
//! | [`store`] | the drive, plain or behind a virtual log, as the host sees it |
//! | [`mounted`] | the real file system on a real layout |
//! | [`ffs`], [`lfs`], [`vlfs`] | the layouts: update in place, log-structured, and on the virtual log |
//! | [`files`] | the benchmark of many files |
//! | [`records`] | files for a record store |
//! | [`threads`], [`shared_drive`] | the product's own threads on virtual time, and a drive that they share |
//! | [`processor`], [`driver`] | a processor that threads share, and a drive with a driver's queue before it |
//!
//! Everywhere but in the last two rows, time is what the drive takes and what the host takes, one after the other:
//! nothing overlaps unless a platform says so ([`Overlap`]). The host's own clock is never read.

pub mod driver;
pub mod ffs;
pub mod files;
pub mod host;
pub mod lfs;
pub mod mounted;
pub mod processor;
pub mod records;
pub mod shared_drive;
pub mod store;
pub mod threads;
pub mod vlfs;

use crate::error::LabError;
pub use crate::program::BLOCK;
use crate::program::NumberedFiles;
use ffs::Ffs;
use host::Host;
use records::Habits;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use store::{Places, Store};
use threads::{Part, Threads};
use varve_disk::{Drive, ReadAhead, drives};
use varve_fs::ReadAheadWindow;
use varve_lfs::Statistics;
use varve_lfs::policy::PolicyKind;
use varve_tp::storage::{MemoryStorage, Storage};

/// What an experiment does to a file system, beside what programs do to its files.
pub trait System: NumberedFiles<Error = LabError> {
    /// Reads all of a file in the order in which it lies.
    ///
    /// # Errors
    /// As [`NumberedFiles::enter`].
    fn scan(&mut self, file: u32) -> Result<(), LabError>;

    /// Reads all files in the order in which they are stored.
    ///
    /// # Errors
    /// As [`NumberedFiles::enter`].
    fn scan_all(&mut self) -> Result<(), LabError>;

    /// Waits until what was made and removed is on the medium.
    ///
    /// # Errors
    /// As [`NumberedFiles::enter`].
    fn sync_names(&mut self) -> Result<(), LabError>;

    /// Forgets what is cached and clean.
    fn forget(&mut self);

    /// Nobody asks for anything until `until_ns`: the file system and the disk
    /// tidy up, and may overrun it by what they cannot interrupt.
    ///
    /// # Errors
    /// As [`NumberedFiles::enter`].
    fn idle(&mut self, until_ns: u64) -> Result<(), LabError>;

    /// So many users of its file system, each with a directory of his own for a root.
    ///
    /// # Errors
    /// As [`NumberedFiles::enter`].
    fn users(&self, count: u32) -> Result<Vec<Box<dyn System + Send>>, LabError>;

    /// Files for a record store, in the root; its log is in `apart`, if habits say so.
    fn records(&self, habits: Habits, apart: &MemoryStorage) -> Arc<dyn Storage>;

    /// Puts files of the root that lie in pieces in order, where blocks have no place of
    /// their own.
    ///
    /// # Errors
    /// As [`NumberedFiles::enter`].
    fn coalesce(&mut self) -> Result<(), LabError>;

    /// What a log has counted, if it is one.
    fn log(&self) -> Option<Statistics>;

    /// What it stands on, with clock and counters.
    fn store(&self) -> &Store;
}

/// Dirty bytes that the log-structured systems hold, in the paper MinixUFS's
/// file cache of 6.1 MB.
pub const NVRAM_BYTES: u64 = 6_100_000;

/// The file system of a platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The real layout that updates in place, metadata synchronous.
    Ffs(Ffs),
    /// The real log-structured layout.
    Lfs,
    /// The real layout on the virtual log, inside a regular disk.
    Vlfs,
}

impl Layout {
    /// Bytes of a block of its.
    pub fn block_bytes(self) -> u64 {
        match self {
            Layout::Ffs(shape) => shape.block_bytes.into(),
            Layout::Lfs | Layout::Vlfs => BLOCK,
        }
    }

    /// Update in place as Wang et al. have it.
    pub const UFS: Layout = Layout::Ffs(Ffs::UFS);
}

/// The disk under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// A block has its place.
    Regular,
    /// Eager writing.
    VirtualLog,
    /// An NVMe-like device of as many bytes in its place.
    Flash,
}

/// How the processor and a regular disk work at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap {
    /// Bytes of writes that may wait for the drive.
    pub queue_bytes: u64,
    /// Most bytes of a command; what is more becomes several.
    pub command_bytes: usize,
    /// A program computes for so long before others do, if they want to.
    pub quantum_ns: u64,
    /// Dirty bytes beyond which a writer that has filled a block has them written, without
    /// waiting; a block that is not full waits for more, as in 4.4BSD. If none, that is
    /// done when a quarter of the cache is dirty.
    pub write_back_bytes: Option<u64>,
    /// Threads of the file system that read ahead.
    pub read_ahead_threads: usize,
}

/// How a log makes room, when no segment is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleaning {
    /// Which segments are cleaned.
    pub policy: PolicyKind,
    /// Blocks are written into holes, too.
    pub holes: bool,
}

impl Cleaning {
    /// That of the papers.
    pub const COST_BENEFIT: Cleaning = Cleaning {
        policy: PolicyKind::COST_BENEFIT,
        holes: false,
    };
    /// Greedy, which is best where all blocks are alike.
    pub const GREEDY: Cleaning = Cleaning {
        policy: PolicyKind::GREEDY,
        holes: false,
    };
    /// Blocks are parted by the life that is left to them, on as many heads as that
    /// wants.
    pub const LIFE_CLASSES: Cleaning = Cleaning {
        policy: PolicyKind::LIFE_CLASSES,
        holes: false,
    };
    /// The same, and blocks are written into holes.
    pub const LIFE_CLASSES_WITH_HOLES: Cleaning = Cleaning {
        policy: PolicyKind::LIFE_CLASSES,
        holes: true,
    };
    /// A mount's: greedy, with holes.
    pub const HOLES: Cleaning = Cleaning {
        policy: PolicyKind::GREEDY,
        holes: true,
    };
}

impl Default for Cleaning {
    fn default() -> Self {
        Cleaning::HOLES
    }
}

/// A platform.
#[derive(Debug, Clone)]
pub struct Platform {
    /// File system.
    pub layout: Layout,
    /// Disk.
    pub disk: Disk,
    /// Drive.
    pub drive: Drive,
    /// Processor.
    pub host: Host,
    /// Dirty bytes that the file system may hold.
    pub nvram_bytes: u64,
    /// Bytes of a log-structured system's segment.
    pub segment_bytes: u32,
    /// How it makes room.
    pub cleaning: Cleaning,
    /// How much of a file is read ahead.
    pub read_ahead_window: ReadAheadWindow,
    /// Where a virtual log disk puts single blocks.
    pub places: Places,
    /// If host and drive do not take turns.
    pub overlap: Option<Overlap>,
}

impl Platform {
    /// On the drive and host that the paper uses unless it says otherwise.
    pub fn new(layout: Layout, disk: Disk) -> Self {
        Platform {
            layout,
            disk,
            drive: seagate(),
            host: Host::SPARCSTATION_10,
            nvram_bytes: NVRAM_BYTES,
            segment_bytes: lfs::SEGMENT_BYTES,
            cleaning: Cleaning::default(),
            read_ahead_window: ReadAheadWindow::default(),
            places: Places::default(),
            overlap: None,
        }
    }

    /// The same as Wang et al. configure it: MinixUFS, which is above their log, reads
    /// nothing ahead (V266).
    pub fn of_virtual_log_paper(layout: Layout, disk: Disk) -> Self {
        Platform {
            read_ahead_window: match layout {
                Layout::Lfs => ReadAheadWindow::Off,
                Layout::Ffs(_) | Layout::Vlfs => ReadAheadWindow::Adaptive,
            },
            ..Platform::new(layout, disk)
        }
    }

    /// On another drive and host.
    #[must_use]
    pub fn on(self, drive: Drive, host: Host) -> Self {
        Platform {
            drive,
            host,
            ..self
        }
    }

    /// With a virtual log disk that puts single blocks elsewhere.
    #[must_use]
    pub fn putting(self, places: Places) -> Self {
        Platform { places, ..self }
    }

    /// Makes the file system, empty, on a store of its own. Where host and drive
    /// overlap the calling thread takes part in a simulation of threads until the
    /// system is dropped; no other may exist on that thread meanwhile.
    ///
    /// # Errors
    /// It cannot be made on such a drive.
    pub fn build(&self, seed: u64) -> Result<Built, LabError> {
        let store = self.store(seed)?;
        let part = self.take_part(&store);
        Ok(Built {
            system: self.mount(store, seed)?,
            _part: part,
        })
    }

    /// The calling thread's part in the simulation of the threads that read ahead, if
    /// host and drive overlap.
    pub fn take_part(&self, store: &Store) -> Option<Part> {
        let overlap = store.overlap();
        overlap.map(|_| Threads::new(Arc::clone(store.clock())).1)
    }

    /// [`Platform::build`], on its store.
    ///
    /// # Errors
    /// As that.
    pub fn mount(&self, store: Arc<Store>, seed: u64) -> Result<Box<dyn System>, LabError> {
        Ok(match self.layout {
            Layout::Ffs(shape) => Box::new(ffs::update_in_place(self, shape, store, seed)?),
            Layout::Lfs => Box::new(lfs::log_structured(self, store, seed)?),
            Layout::Vlfs => Box::new(vlfs::on_virtual_log(self, store, seed)?),
        })
    }

    /// The drive, with nothing on it.
    ///
    /// # Errors
    /// As [`Platform::build`].
    pub fn store(&self, seed: u64) -> Result<Arc<Store>, LabError> {
        let drive = match self.layout {
            // As the virtual log disk does.
            Layout::Vlfs => self.drive.clone().with_read_ahead(ReadAhead::WholeTrack),
            _ => self.drive.clone(),
        };
        let mut store = Store::new(drive, self.disk, self.places, self.host, seed)?;
        if let Layout::Ffs(_) = self.layout {
            store = store.by_sectors();
        }
        Ok(Arc::new(match self.overlap {
            Some(overlap) => store.overlapping(overlap),
            None => store,
        }))
    }
}

/// A file system on a platform, with the part of the thread that made it. The system is
/// dropped first: it ends its threads, for which the clock must be able to move.
pub struct Built {
    system: Box<dyn System>,
    _part: Option<Part>,
}

impl Deref for Built {
    type Target = dyn System;

    fn deref(&self) -> &Self::Target {
        &*self.system
    }
}

impl DerefMut for Built {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.system
    }
}

/// The part of the Seagate that the paper simulates: 11 cylinders.
pub fn seagate() -> Drive {
    drives::st19101().with_cylinders(11)
}

/// The part of the HP that the paper simulates: 36 cylinders.
pub fn hp() -> Drive {
    drives::hp97560_vlog().with_cylinders(36)
}

#[cfg(test)]
mod tests;
