//! The file system: every vnode operation, generic over a layout.
//!
//! Memory contains the newest tree. Groups of changes are appended to the layout, and
//! committed when a caller waits for durability, or written back when enough data is
//! dirty. This file has the state of a mounted tree; each module adds operations on it.
//!
//! | module | contents |
//! |---|---|
//! | `memory` | files in memory, and changes that wait to be logged: states |
//! | `account` | space accounting: states |
//! | `isolation` | the tree below a private tree, and the isolation of private trees: states |
//! | here | a tree, its vnodes and numbers, and whether it takes writes |
//! | `epochs` | the path to the layout: epochs, captures, commits, write-back |
//! | `space` | admission, `statfs`, and spilling of private trees |
//! | `uses` | the parts of files that operations declare as used |
//! | `attributes` | permissions, access lists, extended attributes, flags |
//! | `content` | reading, writing, cutting, reserving, copying, freeing |
//! | `setattr` | owner, mode, times and size |
//! | `names` | looking up, making, removing, moving, listing |
//! | `transactions` | private trees, and their merge into another tree |
//! | `snapshots` | snapshots of the volume: their names, their trees, what differs |
//! | `maintenance`, `mount` | operations on the whole volume; mounting and unmounting |
//!
//! Each uses only those above it (`DESIGN.md` has the two calls that lead back).
//!
//! See `locks.rs` for the order of locks, `epochs/capture.rs` for the content of a group,
//! `epochs/commit.rs` for the wait of a commit, `memory/vnode.rs` for files in memory.

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

/// The tree below a private tree.
pub(crate) type Below<L> = isolation::Below<FileSystem<L>, L>;

type Waker = Box<dyn Fn() + Send + Sync>;

/// A mounted tree. Share it in an [`Arc`]; every method may be called from any thread.
pub struct FileSystem<L: Layout> {
    pub(crate) store: Arc<Store<L>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Level of the tree in the stack of trees.
    pub(crate) level: Level,
    pub(crate) table: VnodeTable,
    pub(crate) passages: Passages,
    pub(crate) space: SpaceAccount,
    pub(crate) read_ahead: Arc<ReadAhead>,
    pub(crate) listings: Listings,
    /// The tree below a private tree; `None` for the mounted one.
    pub(crate) below: Option<Below<L>>,
    /// Private trees directly above this one.
    pub(crate) open: Mutex<Open<Self>>,
    pub(crate) snapshots: Snapshots<L>,
    /// One snapshot of the volume gets its name at a time.
    pub(crate) naming: Mutex<()>,
    /// Locks of transactions, made for the first transaction.
    pub(crate) locks: OnceLock<Arc<LockTable<Object>>>,
    pub(crate) budget: Arc<Budget>,

    pub(crate) writer: Mutex<Writer>,
    pub(crate) gate: RwLock<()>,
    pub(crate) rename: Mutex<()>,
    pub(crate) queues: Mutex<Queues>,
    pub(crate) waker: RwLock<Option<Waker>>,
    /// Write-back was woken and continues until only this many bytes are dirty;
    /// [`NOT_WOKEN`] if it was not.
    pub(crate) write_back_until: AtomicU64,
    /// The epoch has become large, and write-back was not notified yet.
    pub(crate) seal_due: AtomicBool,

    pub(crate) small_syncs: SmallSyncs,

    pub(crate) captures_started: AtomicU64,
    pub(crate) captures_finished: AtomicU64,
    /// Position of the last group appended; the next field is the last one known to be
    /// durable.
    pub(crate) appended: AtomicU64,
    pub(crate) committed: AtomicU64,
    pub(crate) waits: Waits,
    /// The error that made a write fail; no later write is done.
    pub(crate) failed: Mutex<Option<Error>>,
    pub(crate) has_failed: AtomicBool,
    /// Number of threads inside a step of the reaper.
    pub(crate) reaping: AtomicU64,

    pub(crate) settings: Settings,
}

/// Parts of a new tree: what it shares with the other trees, the tree below, and its
/// settings.
pub(crate) struct Parts<L: Layout> {
    pub store: Arc<Store<L>>,
    pub clock: Arc<dyn Clock>,
    pub read_ahead: Arc<ReadAhead>,
    pub budget: Arc<Budget>,
    pub level: Level,
    pub table: VnodeTable,
    pub passages: Passages,
    pub below: Option<Below<L>>,
    /// Usage of the tree.
    pub usage: Usage,
    pub settings: Settings,
}

/// Settings of a tree, from the mount options.
pub(crate) struct Settings {
    pub keep_written: bool,
    pub start_write_bytes: u64,
    pub stop_access_bytes: u64,
    pub strict_order: bool,
    pub atime: Atime,
    /// Most blocks freed or reserved in one group.
    pub step_blocks: u64,
    /// Most files that wait with only their access time changed.
    pub read_times_max: usize,
    pub deadlocks: Detection,
}

impl<L: Layout> FileSystem<L> {
    /// A tree without changes of its own.
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

    /// The layout that stores the tree.
    pub fn layout(&self) -> &Arc<L> {
        &self.store.layout
    }

    /// Checks that the tree takes changes.
    ///
    /// # Errors
    /// `ReadOnly` if the volume was mounted read-only, or once a write has failed;
    /// `Aborted` if a tree below has ended.
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

    /// Drops clean blocks, cached paths, and unused vnodes.
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
