//! An environment: a log, pages, and the tables in them.

mod known;
mod names;

use crate::archive::Archiver;
use crate::archive::identity::{self, Id, Identity};
use crate::buffer::Pool;
use crate::catalog;
use crate::checkpoint::format::{FIRST_VERSION, VERSION};
use crate::checkpoint::{self, Checkpoint, Checkpoints, Held};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::log::{Log, LogShape, Lsn};
use crate::options::{Durability, Isolation, Options, Placement};
use crate::planted::{self, Planted};
use crate::recovery::{self, RecoveryReport};
use crate::storage::{HostStorage, Named, OverlayStorage, Storage, failed};
use crate::transaction::{self, Transaction};
use crate::versions::Versions;
use foldhash::HashMap;
use known::{Known, Tables};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use varve_device::HostClock;
use varve_device::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use varve_device::sync::{Condvar, Mutex, thread};
use varve_locks::LockTable;

/// A transactional record store.
///
/// Clones are the same environment. When the last clone is dropped, all commits are in
/// the log; [`close`](Self::close) also takes a checkpoint, so that the next opening has
/// nothing to redo.
#[derive(Clone, Debug)]
pub struct Environment(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    shared: Arc<Shared>,
    worker: Mutex<Option<thread::JoinHandle<()>>>,
}

/// State that the background thread shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub engine: Engine,
    pub storage: Arc<dyn Storage>,
    checkpoints: Checkpoints,
    pub archiver: Option<Archiver>,
    pub options: Options,
    /// Committed tables, with the commit that made each visible.
    known: Known,
    next_table: AtomicU32,
    /// Indices in the catalog whose functions were not given, as pairs of table and
    /// index.
    unknown_indices: Vec<(String, String)>,
    /// The next number of each table of records.
    numbers: Mutex<HashMap<u32, Arc<AtomicU64>>>,
    /// End of the log at the last checkpoint.
    checkpointed: AtomicU64,
    report: RecoveryReport,
    stop: Mutex<bool>,
    wake: Condvar,
}

/// Counters of an environment since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Bytes written to the log, including padding.
    pub log_bytes: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Pages read.
    pub page_reads: u64,
    /// Pages written, including those of the map.
    pub page_writes: u64,
    /// Bytes per page.
    pub page_bytes: u64,
    /// Frames with changes that are only in the log so far.
    pub dirty_frames: usize,
    /// Frames of the buffer.
    pub frames: usize,
    /// Placement of pages.
    pub placement: Placement,
    /// Images of pages appended to the log.
    pub page_images: u64,
    /// Pages that have a slot.
    pub pages: usize,
    /// Slots in use, including those of checkpoints. In place it equals the number of
    /// pages.
    pub slots: usize,
    /// Transactions that have written and not ended.
    pub active: usize,
    /// Requests that wait for a lock now.
    pub waiting: usize,
    /// Waits for locks that ended in a deadlock.
    pub deadlocks: u64,
    /// Bytes of old values kept for snapshots.
    pub version_bytes: usize,
}

impl Options {
    /// Opens an environment in a directory of the host. The directory is created if
    /// [`create`](Self::create) allows that.
    ///
    /// # Errors
    /// Errors of the host, [`Error::InUse`], [`Error::Damaged`], [`Error::Incompatible`],
    /// and [`Error::Option`].
    pub fn open(&self, directory: impl AsRef<Path>) -> Result<Environment> {
        let directory = directory.as_ref();
        if (self.read_only || !self.create) && !directory.is_dir() {
            return Err(nothing_here());
        }
        let storage = match self.read_only {
            true => HostStorage::read_only(directory),
            false => HostStorage::new(directory),
        };
        let shown = || directory.display().to_string();
        let storage = storage.map_err(|source| failed(&shown(), "open", 0, source))?;
        self.open_storage(Arc::new(storage))
    }

    /// Opens an environment in any storage.
    ///
    /// # Errors
    /// The same as [`open`](Self::open).
    pub fn open_storage(&self, storage: Arc<dyn Storage>) -> Result<Environment> {
        match self.read_only {
            true => {
                let mut options = self.clone();
                options.create(false);
                Environment::open(options, Arc::new(OverlayStorage::new(storage)))
            }
            false => Environment::open(self.clone(), storage),
        }
    }
}

const TICK: Duration = Duration::from_millis(20);

impl Environment {
    pub(crate) fn open(options: Options, storage: Arc<dyn Storage>) -> Result<Self> {
        options.check()?;
        if !options.create && !checkpoint::exists(&*storage)? {
            return Err(nothing_here());
        }
        lock(&*storage)?;
        let mut found = match checkpoint::newest(&*storage)? {
            Some(found) => found,
            None if options.create => create(&options, &storage)?,
            None => return Err(nothing_here()),
        };
        let mut engine = engine(&options, &storage, &found)?;
        let map = (&found.blocks[..], found.pages);
        engine.pool.adopt(found.placement, found.redo, map)?;
        let checkpoints = Checkpoints::open(&storage, &found)?;
        // Segments that the restart frees must be archived first.
        let kept = options.archive.as_ref().map(|_| engine.log.hold(Lsn(0)));
        if let Some(made) = identity::read(&*storage)?.and_then(|identity| identity.copy) {
            recovery::end_copy(&engine, &checkpoints, &mut found, made.whole)?;
            if !planted::is(Planted::IdentityKept) {
                let id = Id::draw()?;
                identity::write(&*storage, Identity { id, copy: None })?;
            }
        }
        let report = recovery::restart(&engine, &checkpoints, found)?;
        let archiver = match &options.archive {
            Some(archive) if !options.read_only => {
                let id = identity::of_original(&*storage)?;
                Some(Archiver::open(archive.clone(), id, &engine.log)?)
            }
            _ => None,
        };
        drop(kept);
        engine.read_only = options.read_only;
        let entries = catalog::entries(&engine)?.into_iter();
        let tables: Tables = entries
            .map(|(name, entry)| (name, (entry, Lsn::NONE)))
            .collect();
        let last = tables.values().map(|(entry, _)| entry.id.table).max();
        let next_table = last.unwrap_or(0).checked_add(1);
        let next_table =
            next_table.ok_or_else(|| Error::damaged("pages", 0, "a table's number"))?;
        let shared = Arc::new(Shared {
            checkpointed: AtomicU64::new(engine.log.end().0),
            engine,
            storage,
            checkpoints,
            archiver,
            next_table: AtomicU32::new(next_table),
            unknown_indices: names::unknown_indices(&options, &tables),
            known: Known::new(tables),
            numbers: Mutex::default(),
            report,
            stop: Mutex::new(false),
            wake: Condvar::default(),
            options,
        });
        let worker = shared.options.background.then(|| {
            let shared = shared.clone();
            thread::spawn(move || shared.work())
        });
        Ok(Environment(Arc::new(Opened {
            shared,
            worker: Mutex::new(worker),
        })))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    /// Returns the report of the restart at opening.
    pub fn recovery(&self) -> RecoveryReport {
        self.0.shared.report
    }

    /// Takes a checkpoint, at which the next restart begins.
    ///
    /// # Errors
    /// Errors of the storage. If a sync fails, the environment is poisoned.
    pub fn checkpoint(&self) -> Result<()> {
        transaction::finish(&self.0.shared.engine)?;
        self.0.shared.checkpoint(true)
    }

    /// Does the due background work, for environments without their own thread.
    ///
    /// # Errors
    /// The same as [`checkpoint`](Self::checkpoint).
    pub fn maintain(&self) -> Result<()> {
        self.0.shared.maintain()
    }

    /// Makes all commits durable, including buffered ones.
    ///
    /// # Errors
    /// [`Error::Poisoned`] and errors of the storage.
    pub fn sync(&self) -> Result<()> {
        let log = &self.0.shared.engine.log;
        log.flush(Lsn(log.end().0 - 1))
    }

    /// Takes a last checkpoint. Later changes through clones of the environment are in
    /// the log.
    ///
    /// # Errors
    /// The same as [`checkpoint`](Self::checkpoint).
    pub fn close(self) -> Result<()> {
        self.0.stop();
        self.checkpoint()
    }

    /// Returns the counters of the environment.
    pub fn statistics(&self) -> Statistics {
        let engine = &self.0.shared.engine;
        let (log_bytes, log_syncs) = engine.log.counts();
        let (pages, slots) = engine.pool.slots_used();
        Statistics {
            log_bytes,
            log_syncs,
            page_reads: engine.pool.reads.load(Relaxed),
            page_writes: engine.pool.writes.load(Relaxed),
            page_bytes: engine.pool.page_bytes as u64,
            dirty_frames: engine.pool.dirty(),
            frames: engine.pool.frames(),
            placement: self.0.shared.checkpoints.placement(),
            page_images: engine.pool.images.load(Relaxed),
            pages,
            slots,
            active: engine.active_count(),
            waiting: engine.locks.waiting().len(),
            deadlocks: engine.locks.statistics().deadlocks,
            version_bytes: engine.versions.bytes(),
        }
    }

    /// Returns the names of all tables.
    pub fn tables(&self) -> Vec<String> {
        let tables = self.0.shared.known.all();
        let mut names: Vec<String> = tables.keys().cloned().collect();
        names.sort();
        names
    }
}

impl Opened {
    fn stop(&self) {
        *self.shared.stop.lock() = true;
        self.shared.wake.notify_all();
        if let Some(worker) = self.worker.lock().take() {
            let _ = worker.join();
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.stop();
        let log = &self.shared.engine.log;
        if log.check().is_ok() && log.durable() < log.end() {
            let _ = log.flush(Lsn(log.end().0 - 1));
        }
    }
}

impl Shared {
    pub(crate) fn transaction(&self, isolation: Isolation, reads: bool) -> Transaction<'_> {
        let durable = reads && self.options.durability == Durability::Durable;
        Transaction::begin(&self.engine, isolation, self.options.lock_timeout, durable)
    }

    /// Takes a checkpoint of everything, and pins the log and the slots to which it
    /// refers.
    pub(crate) fn checkpoint_held(&self) -> Result<(Checkpoint, Held)> {
        let taken = self.checkpoints.take_held(&self.engine)?;
        self.checkpointed.store(self.engine.log.end().0, Relaxed);
        Ok(taken)
    }

    pub(crate) fn checkpoint(&self, everything: bool) -> Result<()> {
        if let Some(archiver) = &self.archiver {
            archiver.try_run(&self.engine.log);
        }
        self.checkpoints.take(&self.engine, everything)?;
        self.checkpointed.store(self.engine.log.end().0, Relaxed);
        Ok(())
    }

    fn maintain(&self) -> Result<()> {
        if let Some(archiver) = &self.archiver {
            archiver.try_run(&self.engine.log);
        }
        // A checkpoint taken meanwhile may have begun behind this end.
        let end = self.engine.log.end().0;
        let since = end.saturating_sub(self.checkpointed.load(Relaxed));
        if since >= self.options.checkpoint {
            self.checkpoint(false)?;
        }
        transaction::finish(&self.engine)?;
        self.engine.versions.sweep();
        self.engine.log.prepare_spare()?;
        self.engine.pool.write_cold()
    }

    fn work(&self) {
        let mut stop = self.stop.lock();
        while !*stop {
            self.wake.wait_for(&mut stop, TICK);
            if *stop || self.engine.log.check().is_err() {
                return;
            }
            drop(stop);
            if let Err(error) = self.maintain() {
                tracing::warn!("background work: {error}");
            }
            stop = self.stop.lock();
        }
    }
}

/// Locks the environment against other processes.
pub(crate) fn lock(storage: &dyn Storage) -> Result<()> {
    storage.lock().map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => Error::InUse,
        _ => failed("lock", "lock", 0, source),
    })
}

pub(crate) fn nothing_here() -> Error {
    Error::Incompatible {
        file: "check-0".into(),
        what: "there is no environment here".into(),
    }
}

pub(crate) fn engine(
    options: &Options,
    storage: &Arc<dyn Storage>,
    found: &Checkpoint,
) -> Result<Engine> {
    let shape = LogShape {
        segment: found.segment_bytes.into(),
        unit: found.unit.into(),
        max_segments: (options.log / u64::from(found.segment_bytes)).max(4) as usize,
        max_record: u64::from(found.page_bytes) * 2 + 1024,
        batch: (256 << 10).min(found.segment_bytes as usize / 4),
    };
    let log = Arc::new(Log::open(storage.clone(), shape, options.group)?);
    let file = Named::open(&**storage, "pages", true)?;
    let frames = (options.memory / found.page_bytes as usize).max(16);
    let frames = (frames, options.together);
    let pool = Pool::new(file, log.clone(), found.page_bytes as usize, frames);
    let locks = LockTable::new(Arc::new(HostClock::default()));
    let versions = Versions::new(options.versions);
    Ok(Engine::new(log, pool, locks, versions))
}

/// Creates an environment: its first two pages and a checkpoint of them. It exists from
/// the moment at which the checkpoint has its name.
fn create(options: &Options, storage: &Arc<dyn Storage>) -> Result<Checkpoint> {
    let start = Lsn(options.segment.into());
    let mut first = Checkpoint {
        version: match options.placement {
            Placement::Shadow => FIRST_VERSION,
            Placement::InPlace(_) => VERSION,
        },
        placement: options.placement,
        page_bytes: options.page,
        segment_bytes: options.segment,
        unit: options.unit,
        serial: 2,
        begin: start,
        redo: start,
        keep: start,
        life_begins: start,
        life: 1,
        pages: 0,
        blocks: Vec::new(),
        active: Vec::new(),
        next: 1,
    };
    let engine = engine(options, storage, &first)?;
    engine.pool.adopt_nothing(options.placement);
    engine.pool.clear()?;
    // Removes files of an interrupted creation.
    engine.log.harden()?;
    engine.log.begin(start, 1);
    recovery::first_pages(&engine)?;
    engine.pool.write_before(u64::MAX)?;
    let mut captured = engine.pool.capture();
    engine.pool.write_map(&mut captured, &mut Vec::new())?;
    engine.pool.sync()?;
    first.pages = captured.pages as u32;
    first.blocks = captured.blocks.clone();
    checkpoint::create(&**storage, &first)?;
    Ok(first)
}
