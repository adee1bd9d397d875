//! Options for creating and opening an environment.

use crate::error::{Error, Result};
use crate::log::GroupCommit;
use crate::registered::Registered;
use crate::storage::Storage;
use std::sync::Arc;
use std::time::Duration;

/// The event for which a commit waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The commit returns when it survives a crash.
    #[default]
    Durable,
    /// The commit returns at once. A crash loses the last transactions: a suffix of their
    /// order, each whole.
    Buffered,
}

/// Placement of pages in the file. `docs/guide/records.md`, "Placement", has the cost of
/// each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Shadow slots: a page is written to a free slot, never over itself. No page is ever
    /// torn, and no write of a page waits for the log. The file takes up to twice the
    /// space of its pages, and adjacent leaves are scattered.
    #[default]
    Shadow,
    /// Update in place: a page is written over itself, after its log.
    InPlace(TornPages),
}

/// Protection against writes in place that a power cut tears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TornPages {
    /// The log gets an image of each page that is written, once between two checkpoints
    /// (as with PostgreSQL's `full_page_writes`). A restart restores the image.
    #[default]
    LogImages,
    /// None. The storage must write an aligned page atomically; if it does not, a power
    /// cut damages pages beyond repair.
    Never,
}

impl Placement {
    /// Returns true if writes of pages append images to the log.
    pub(crate) fn has_images(self) -> bool {
        self == Placement::InPlace(TornPages::LogImages)
    }
}

/// The effects of other transactions that a transaction sees, named as in the literature.
/// `docs/guide/records.md`, "Isolation", has the anomalies that each level admits.
///
/// No level reads uncommitted data (dirty reads), and none overwrites it.
///
/// Sources: Berenson and others 1995; Adya, Liskov, O'Neil 2000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// Strict two-phase locking: a record that was read cannot be changed by another
    /// transaction until the end. Readers and writers wait for each other.
    #[default]
    Serializable,
    /// A transaction reads the state committed at its beginning, and its own changes,
    /// without waiting. If two transactions change the same record, one fails with
    /// [`Error::WriteConflict`](crate::Error::WriteConflict). Write skew is possible, so
    /// the level is not serializable, except for a read-only transaction in parallel with
    /// serializable writers.
    Snapshot,
    /// Each operation reads the state committed at its beginning, without waiting;
    /// changes lock. Fuzzy reads, phantoms, lost updates and write skew are possible.
    ReadCommitted,
}

/// Options for creating and opening an environment.
///
/// ```no_run
/// use varve_tp::Options;
///
/// let environment = Options::new().memory(64 << 20).open("bank")?;
/// # Ok::<(), varve_tp::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) create: bool,
    pub(crate) page: u32,
    pub(crate) placement: Placement,
    pub(crate) together: usize,
    pub(crate) memory: usize,
    pub(crate) segment: u32,
    pub(crate) log: u64,
    pub(crate) unit: u32,
    pub(crate) checkpoint: u64,
    pub(crate) durability: Durability,
    pub(crate) group: GroupCommit,
    pub(crate) lock_timeout: Option<Duration>,
    pub(crate) background: bool,
    pub(crate) read_only: bool,
    pub(crate) archive: Option<Arc<dyn Storage>>,
    pub(crate) versions: usize,
    pub(crate) indices: Vec<Arc<Registered>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            create: true,
            page: 4096,
            placement: Placement::Shadow,
            together: 32,
            memory: 64 << 20,
            segment: 16 << 20,
            log: 2 << 30,
            unit: 512,
            checkpoint: 64 << 20,
            durability: Durability::Durable,
            group: GroupCommit::default(),
            lock_timeout: None,
            background: true,
            read_only: false,
            archive: None,
            versions: 64 << 20,
            indices: Vec::new(),
        }
    }
}

impl Options {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the environment if it is missing. Default: yes.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.create = create;
        self
    }

    /// Sets the bytes per page of a new environment: a power of two from 4,096 to 32,768.
    /// Keys of up to an eighth of it are stored in the trees; longer ones cost more
    /// (`docs/guide/records.md`). Default: 4,096.
    pub fn page(&mut self, bytes: u32) -> &mut Self {
        self.page = bytes;
        self
    }

    /// Sets the placement of pages of a new environment. Default: shadow slots.
    pub fn placement(&mut self, placement: Placement) -> &mut Self {
        self.placement = placement;
        self
    }

    /// Sets the memory for pages in bytes. Default: 64 MiB.
    pub fn memory(&mut self, bytes: usize) -> &mut Self {
        self.memory = bytes;
        self
    }

    /// Sets the bytes per log segment of a new environment: a multiple of 4,096, at least
    /// sixteen pages. Default: 16 MiB.
    pub fn segment(&mut self, bytes: u32) -> &mut Self {
        self.segment = bytes;
        self
    }

    /// Limits the log in bytes. A transaction and those that began after it must fit: a
    /// value of 1 GiB needs about 1.1 GiB, including the undo. Files are created as
    /// needed. Only images of pages in place may exceed the limit, by about the memory
    /// for pages and the pages that an undo changes; nothing else is logged until the log
    /// is below the limit again. Default: 2 GiB.
    pub fn log(&mut self, bytes: u64) -> &mut Self {
        self.log = bytes;
        self
    }

    /// Sets the bytes that the medium writes atomically in a new environment's log: 512
    /// or 4,096. Default: 512.
    pub fn log_unit(&mut self, bytes: u32) -> &mut Self {
        self.unit = bytes;
        self
    }

    /// Sets the bytes of log after which a checkpoint is taken. A restart reads two to
    /// three times as much. Default: 64 MiB.
    pub fn checkpoint_after(&mut self, bytes: u64) -> &mut Self {
        self.checkpoint = bytes;
        self
    }

    /// Sets the durability of commits that do not state it. Default: durable.
    pub fn durability(&mut self, durability: Durability) -> &mut Self {
        self.durability = durability;
        self
    }

    /// Sets the moment at which a group of commits is written. Default: at once.
    pub fn group_commit(&mut self, group: GroupCommit) -> &mut Self {
        self.group = group;
        self
    }

    /// Sets the longest wait for a lock. Default: no limit; deadlocks are detected.
    pub fn lock_timeout(&mut self, timeout: Option<Duration>) -> &mut Self {
        self.lock_timeout = timeout;
        self
    }

    /// Starts a thread that writes pages and takes checkpoints. If it is off, the caller
    /// must call [`Environment::maintain`](crate::Environment::maintain). Default: yes.
    pub fn background(&mut self, background: bool) -> &mut Self {
        self.background = background;
        self
    }

    /// Sets the archive of finished log segments, for restores to a point in time and for
    /// standbys. Nothing is ever deleted there. If it cannot be written, the log grows up
    /// to its limit, and then changes fail. Default: none.
    pub fn archive(&mut self, archive: Option<Arc<dyn Storage>>) -> &mut Self {
        self.archive = archive;
        self
    }

    /// Opens without writing. After a crash the pages are recovered in memory, which
    /// takes as much memory as the log since the last checkpoint has changed. Default:
    /// no.
    pub fn read_only(&mut self, read_only: bool) -> &mut Self {
        self.read_only = read_only;
        self
    }

    /// Limits the bytes of old values kept in memory for snapshots. Older ones are
    /// dropped, and the snapshots that need them fail with
    /// [`Error::SnapshotTooOld`](crate::Error::SnapshotTooOld). Default: 64 MiB.
    pub fn versions(&mut self, bytes: usize) -> &mut Self {
        self.versions = bytes;
        self
    }

    /// Limits the pages that are written together in the order of their numbers, and to a
    /// quarter of the pages in memory. In place, a page that is evicted takes the next
    /// candidates with it, after one flush of the log. With 1 each page is written alone,
    /// as in older data managers. Default: 32.
    pub fn written_together(&mut self, pages: usize) -> &mut Self {
        self.together = pages;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |option, what: &str| {
            Err(Error::Option {
                option,
                what: what.to_owned(),
            })
        };
        if !self.page.is_power_of_two() || !(4096..=32768).contains(&self.page) {
            return wrong("page", "a power of two from 4096 to 32768");
        }
        if !self.segment.is_multiple_of(4096) || self.segment < 16 * self.page {
            return wrong("segment", "a multiple of 4096, at least sixteen pages");
        }
        if !matches!(self.unit, 512 | 4096) {
            return wrong("log_unit", "512 or 4096");
        }
        if self.log / u64::from(self.segment) < 4 {
            return wrong("log", "at least four segments");
        }
        if self.memory / (self.page as usize) < 16 {
            return wrong("memory", "at least sixteen pages");
        }
        if self.memory / (self.page as usize) > 1 << 30 {
            return wrong("memory", "fewer than 2^30 pages");
        }
        Ok(())
    }
}
