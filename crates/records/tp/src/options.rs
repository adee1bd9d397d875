//! How an environment is made and opened.

use crate::error::{Error, Result};
use crate::log::GroupCommit;
use crate::registered::Registered;
use crate::storage::Storage;
use std::sync::Arc;
use std::time::Duration;

/// What a commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// It returns when it survives a crash.
    #[default]
    Durable,
    /// It returns at once. A crash loses the last transactions: a suffix of their order,
    /// each whole.
    Buffered,
}

/// Placement of pages in the file. `docs/guide/records.md`, "Placement", has the cost of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Shadow slots: a page is written to a free slot, never over itself. No page is ever
    /// torn, and no write of a page waits for the log. The file takes up to twice the room
    /// of its pages, and neighbours of a tree lie anywhere.
    #[default]
    Shadow,
    /// Update in place: a page is written over itself, behind its log.
    InPlace(TornPages),
}

/// What is done about writes in place that a power cut tears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TornPages {
    /// The log has an image of each page that is written, once between two checkpoints
    /// (as with PostgreSQL's `full_page_writes`). A restart puts it back.
    #[default]
    LogImages,
    /// Nothing: whoever says so knows that the storage writes an aligned page whole or not
    /// at all. Where it does not, a power cut damages pages beyond repair.
    Never,
}

impl Placement {
    /// True if writes of pages append images to the log.
    pub(crate) fn has_images(self) -> bool {
        self == Placement::InPlace(TornPages::LogImages)
    }
}

/// What a transaction sees of others, named as in the literature. `docs/guide/records.md`,
/// "Isolation", has the anomalies that each admits.
///
/// No level sees what is not committed (no dirty reads), and none overwrites it.
///
/// Sources: Berenson and others 1995; Adya, Liskov, O'Neil 2000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// By locks, two-phase, to the end: what has been read nobody changes. Readers wait
    /// for writers, and writers for them.
    #[default]
    Serializable,
    /// Reads the state that was committed when it began, and its own changes, and never
    /// waits for that. Of two who change the same record, one gets
    /// [`Error::WriteConflict`](crate::Error::WriteConflict). Admits write skew, so it is
    /// not serializable, except for those who only read: for them it is, beside
    /// writers that are.
    Snapshot,
    /// Each operation reads the state that is committed when it begins, and never waits
    /// for that; changes lock. Admits fuzzy reads, phantoms, lost updates and write skew.
    ReadCommitted,
}

/// How an environment is made and opened.
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
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether an environment is made where there is none. Default: yes.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.create = create;
        self
    }

    /// Bytes in a page of a new environment: a power of two from 4,096 to 32,768. Keys
    /// of up to an eighth of it are stored in the trees; longer ones cost more
    /// (`docs/guide/records.md`). Default: 4,096.
    pub fn page(&mut self, bytes: u32) -> &mut Self {
        self.page = bytes;
        self
    }

    /// Where pages of a new environment lie. Default: in shadow slots.
    pub fn placement(&mut self, placement: Placement) -> &mut Self {
        self.placement = placement;
        self
    }

    /// Bytes of memory for pages. Default: 64 MiB.
    pub fn memory(&mut self, bytes: usize) -> &mut Self {
        self.memory = bytes;
        self
    }

    /// Bytes in a segment of a new environment's log: a multiple of 4,096, at least
    /// sixteen pages. Default: 16 MiB.
    pub fn segment(&mut self, bytes: u32) -> &mut Self {
        self.segment = bytes;
        self
    }

    /// Bytes that the log may take. A transaction and those that began after it have to
    /// fit: for a value of 1 GiB about 1.1 GiB with what undoing it takes. Files are made
    /// as they are needed. Images of pages in place are let beyond it, by about the memory for pages and
    /// the pages that undoing changes; nothing else is until the log is below it again.
    /// Default: 2 GiB.
    pub fn log(&mut self, bytes: u64) -> &mut Self {
        self.log = bytes;
        self
    }

    /// Bytes of a new environment's log that the medium writes whole: 512 or 4,096.
    /// Default: 512.
    pub fn log_unit(&mut self, bytes: u32) -> &mut Self {
        self.unit = bytes;
        self
    }

    /// Bytes of log after which a checkpoint is taken. A restart reads two to three times
    /// as much. Default: 64 MiB.
    pub fn checkpoint_after(&mut self, bytes: u64) -> &mut Self {
        self.checkpoint = bytes;
        self
    }

    /// What a commit waits for, where it does not say. Default: until it is durable.
    pub fn durability(&mut self, durability: Durability) -> &mut Self {
        self.durability = durability;
        self
    }

    /// When a group of commits is written. Default: at once.
    pub fn group_commit(&mut self, group: GroupCommit) -> &mut Self {
        self.group = group;
        self
    }

    /// How long a lock is waited for. Default: for ever; deadlocks are found.
    pub fn lock_timeout(&mut self, timeout: Option<Duration>) -> &mut Self {
        self.lock_timeout = timeout;
        self
    }

    /// Whether a thread writes pages and takes checkpoints. Without it somebody calls
    /// [`Environment::maintain`](crate::Environment::maintain). Default: yes.
    pub fn background(&mut self, background: bool) -> &mut Self {
        self.background = background;
        self
    }

    /// Where finished segments of the log are kept, for restores to a point in time and
    /// for standbys. Nothing is ever taken away there. If it cannot be written to, the
    /// log grows up to its limit, and then nothing can be changed. Default: nowhere.
    pub fn archive(&mut self, archive: Option<Arc<dyn Storage>>) -> &mut Self {
        self.archive = archive;
        self
    }

    /// Whether nothing is written. What a crash has left is brought in order in memory,
    /// which takes as much as the log since the last checkpoint has changed. Default: no.
    pub fn read_only(&mut self, read_only: bool) -> &mut Self {
        self.read_only = read_only;
        self
    }

    /// Bytes of old values that are kept in memory for snapshots. What exceeds it is
    /// dropped, and the snapshots that need it get
    /// [`Error::SnapshotTooOld`](crate::Error::SnapshotTooOld). Default: 64 MiB.
    pub fn versions(&mut self, bytes: usize) -> &mut Self {
        self.versions = bytes;
        self
    }

    /// Pages that are written together at most, in the order of their numbers; at most a
    /// quarter of those in memory. In place a page that has to leave the memory takes
    /// along those that leave next, behind one flush of the log. With 1 each goes alone, as
    /// data managers of old do it. Default: 32.
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
