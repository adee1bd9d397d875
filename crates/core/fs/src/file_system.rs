//! The file system: every vnode operation, generic over a layout.
//!
//! Memory holds the newest tree; groups of changes are appended to the layout
//! and committed when somebody waits, or written back when enough is dirty. Here
//! is the state of a mounted tree; each room has operations on it.
//!
//! | room | what it knows of |
//! |---|---|
//! | `memory` | what is in memory, and what waits to be logged: states |
//! | `account` | what is counted of room: states |
//! | `isolation` | what private trees stand on, and how they are kept apart: states |
//! | here | a tree, its vnodes and numbers, and whether it takes writes |
//! | `epochs` | the way to the layout: epochs, captures, commits, write-back |
//! | `space` | who is admitted, and what statfs says; what private trees spill |
//! | `uses` | what operations tell of the parts of files that they use |
//! | `attributes` | permissions, access lists, extended attributes, flags |
//! | `content` | reading, writing, cutting, reserving, copying, freeing |
//! | `setattr` | owner, mode, times and size |
//! | `names` | looking up, making, removing, moving, listing |
//! | `transactions` | private trees, and how they become part of another |
//! | `snapshots` | snapshots of the volume: their names, their trees, what differs |
//! | `maintenance`, `mount` | what concerns the whole volume; its beginning and end |
//!
//! Each knows those above it (`DESIGN.md` has the two calls that lead back).
//!
//! See `locks.rs` for the order of locks, `epochs/capture.rs` for what a group holds,
//! `epochs/commit.rs` for what a caller waits for, `memory/vnode.rs` for what is in
//! memory.

mod numbers;
mod vnodes;

use crate::account::SpaceAccount;
use crate::error::{Error, Result};
use crate::isolation::{self, Budget, Kind, Object, Open, Snapshots};
use crate::layout::{Layout, Usage};
use crate::locks::Level;
use crate::memory::listings::Listings;
use crate::memory::passages::Passages;
use crate::memory::queues::{NOT_WOKEN, Queues};
use crate::memory::read_ahead::ReadAhead;
use crate::memory::small_syncs::SmallSyncs;
use crate::memory::store::Store;
use crate::memory::vnode_table::VnodeTable;
use crate::memory::waits::Waits;
use crate::memory::writer::Writer;
use crate::options::Atime;
use crate::types::Timestamp;
use std::sync::{Arc, OnceLock, Weak};
use varve_device::Clock;
use varve_device::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use varve_device::sync::{Mutex, RwLock};
use varve_locks::{Detection, LockTable};

/// What a private tree stands on.
pub(crate) type Below<L> = isolation::Below<FileSystem<L>, L>;

type Waker = Box<dyn Fn() + Send + Sync>;

/// A mounted tree. Share it in an [`Arc`]; every method may be called from
/// any thread.
pub struct FileSystem<L: Layout> {
    pub(crate) store: Arc<Store<L>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Its place among the trees that stand on each other.
    pub(crate) level: Level,
    pub(crate) table: VnodeTable,
    pub(crate) passages: Passages,
    pub(crate) space: SpaceAccount,
    pub(crate) read_ahead: Arc<ReadAhead>,
    pub(crate) listings: Listings,
    /// What a private tree stands on; nothing for the mounted one.
    pub(crate) below: Option<Below<L>>,
    /// Those that stand on this one.
    pub(crate) open: Mutex<Open<Self>>,
    pub(crate) snapshots: Snapshots<L>,
    /// One snapshot of the volume gets its name at a time.
    pub(crate) naming: Mutex<()>,
    /// The locks of transactions, once there are any.
    pub(crate) locks: OnceLock<Arc<LockTable<Object>>>,
    pub(crate) budget: Arc<Budget>,

    pub(crate) writer: Mutex<Writer>,
    pub(crate) gate: RwLock<()>,
    pub(crate) rename: Mutex<()>,
    pub(crate) queues: Mutex<Queues>,
    pub(crate) waker: RwLock<Option<Waker>>,
    /// The waker was called, and write-back goes on until so few bytes are
    /// dirty; [`NOT_WOKEN`] otherwise.
    pub(crate) write_back_until: AtomicU64,
    /// The epoch has become large, and nobody was told yet.
    pub(crate) seal_due: AtomicBool,

    pub(crate) small_syncs: SmallSyncs,

    pub(crate) captures_started: AtomicU64,
    pub(crate) captures_finished: AtomicU64,
    /// The last position appended, and the last known to be durable.
    pub(crate) appended: AtomicU64,
    pub(crate) committed: AtomicU64,
    pub(crate) waits: Waits,
    /// What made a write fail; nothing is written afterwards.
    pub(crate) failed: Mutex<Option<Error>>,
    pub(crate) has_failed: AtomicBool,
    /// Threads inside a step of the reaper.
    pub(crate) reaping: AtomicU64,

    pub(crate) settings: Settings,
}

/// What a tree shares with others, what it stands on, and what it keeps to.
pub(crate) struct Parts<L: Layout> {
    pub store: Arc<Store<L>>,
    pub clock: Arc<dyn Clock>,
    pub read_ahead: Arc<ReadAhead>,
    pub budget: Arc<Budget>,
    pub level: Level,
    pub table: VnodeTable,
    pub passages: Passages,
    pub below: Option<Below<L>>,
    /// What the tree takes.
    pub usage: Usage,
    pub settings: Settings,
}

/// What a tree was asked to keep to.
pub(crate) struct Settings {
    pub keep_written: bool,
    pub start_write_bytes: u64,
    pub stop_access_bytes: u64,
    pub strict_order: bool,
    pub atime: Atime,
    /// Blocks freed or reserved in one group.
    pub step_blocks: u64,
    /// Files of which only the access time changed: so many wait at most.
    pub read_times_max: usize,
    pub deadlocks: Detection,
}

impl<L: Layout> FileSystem<L> {
    /// A tree in which nothing has changed.
    pub(crate) fn new(parts: Parts<L>) -> Self {
        FileSystem {
            store: parts.store,
            clock: parts.clock,
            level: parts.level,
            table: parts.table,
            passages: parts.passages,
            space: SpaceAccount::new(parts.usage),
            read_ahead: parts.read_ahead,
            listings: Listings::default(),
            below: parts.below,
            open: Mutex::default(),
            snapshots: Mutex::new(Weak::new()),
            naming: Mutex::new(()),
            locks: OnceLock::new(),
            budget: parts.budget,
            writer: Mutex::new(Writer::new(parts.usage)),
            gate: RwLock::new(()),
            rename: Mutex::new(()),
            queues: Mutex::default(),
            waker: RwLock::new(None),
            write_back_until: AtomicU64::new(NOT_WOKEN),
            seal_due: AtomicBool::new(false),
            small_syncs: SmallSyncs::default(),
            captures_started: AtomicU64::new(0),
            captures_finished: AtomicU64::new(0),
            appended: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            waits: Waits::default(),
            failed: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            reaping: AtomicU64::new(0),
            settings: parts.settings,
        }
    }

    /// The layout below.
    pub fn layout(&self) -> &Arc<L> {
        &self.store.layout
    }

    /// # Errors
    /// `ReadOnly` if the volume was mounted so, or once a write has failed.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<()> {
        if let Some(reason) = &self.store.geometry.read_only {
            return Err(Error::ReadOnly(reason.clone()));
        }
        if let Some(below) = &self.below {
            if below.is_over() {
                return Err(Error::Aborted);
            }
            if matches!(below.kind, Kind::ReadOnly) {
                return Err(Error::ReadOnly("it is a snapshot".to_owned()));
            }
            return below.target.check_writable();
        }
        if self.has_failed.load(Relaxed) {
            let reason = match &*self.failed.lock() {
                Some(Error::ReadOnly(reason)) => reason.clone(),
                _ => "an earlier write failed".to_owned(),
            };
            return Err(Error::ReadOnly(reason));
        }
        Ok(())
    }

    /// Forgets clean blocks, remembered ways, and vnodes that nobody holds.
    pub fn drop_caches(&self) {
        self.passages.clear();
        self.store.cache.clear();
        self.table.clear();
    }

    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_ns(self.clock.now_ns())
    }
}
