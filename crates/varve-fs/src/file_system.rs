//! The file system: every vnode operation, generic over a layout.
//!
//! Memory holds the newest tree; groups of changes are appended to the layout
//! and committed when somebody waits, or written back when enough is dirty. Here
//! is the state of a mounted tree and nothing else; each room has operations on it.
//!
//! | room | what it knows of |
//! |---|---|
//! | `memory` | what is in memory, and what waits to be logged: states |
//! | `account` | what is counted of room: states |
//! | `space` | who is admitted, and what statfs says |
//! | `attributes` | permissions, access lists, extended attributes, flags, times |
//! | `content` | reading, writing, cutting, reserving, copying |
//! | `names` | looking up, making, removing, moving, listing |
//! | `epochs` | the way to the layout: epochs, captures, commits, write-back |
//! | `isolation` | what private trees stand on, and how they are kept apart: states |
//! | `transactions` | private trees, and how they become part of another |
//!
//! See `locks.rs` for the order of locks, `epochs/capture.rs` for what a group holds,
//! `epochs/commit.rs` for what a caller waits for, `memory/vnode.rs` for what is in
//! memory.

use crate::account::SpaceAccount;
use crate::error::{Error, Result};
use crate::inode::{Inode, flags};
use crate::isolation::{Below, Budget, Object, Open, Snapshots};
use crate::layout::{Cause, Group, Item, Layout, Usage};
use crate::locks::Level;
use crate::memory::gathering::Gathering;
use crate::memory::passages::{self, Passages};
use crate::memory::queues::{NOT_WOKEN, Queues, STEP_BLOCKS};
use crate::memory::read_ahead::ReadAhead;
use crate::memory::store::Store;
use crate::memory::vnode::{Ground, Vnode};
use crate::memory::vnode_table::{self, Known, VnodeTable};
use crate::memory::waits::Waits;
use crate::memory::writer::Writer;
use crate::options::{Atime, GroupCommit, Options};
use crate::planted::{self, Planted};
use crate::statistics::{self, FsStatistics};
use crate::types::{FileKind, InodeNo, Timestamp, View};
use std::sync::{Arc, OnceLock, Weak};
use varve_device::Clock;
use varve_device::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use varve_device::sync::{Mutex, RwLock};
use varve_locks::{Detection, LockTable};

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
    /// What a private tree stands on; nothing for the mounted one.
    pub(crate) below: Option<Below<Self, L>>,
    /// Those that stand on this one.
    pub(crate) open: Mutex<Open<Self>>,
    pub(crate) snapshots: Snapshots<L>,
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

    pub(crate) captures_started: AtomicU64,
    pub(crate) captures_finished: AtomicU64,
    /// The last position appended, and the last known to be durable.
    pub(crate) appended: AtomicU64,
    pub(crate) committed: AtomicU64,
    pub(crate) waits: Waits,
    /// Commits that wait for company.
    pub(crate) gathering: Gathering,
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
    pub below: Option<Below<FileSystem<L>, L>>,
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
    pub group_commit: GroupCommit,
    pub deadlocks: Detection,
}

/// The smallest logical block: a directory's node must fit.
const BLOCK_BYTES_MIN: u32 = 4096;

impl<L: Layout> FileSystem<L> {
    /// Makes the root directory, or, where the layout came with one, gives it
    /// to `root_owner` (user, group), and makes that durable.
    ///
    /// # Errors
    /// What the layout fails with.
    pub fn format(layout: &L, clock: &dyn Clock, root_owner: (u32, u32)) -> Result<()> {
        let now = Timestamp::from_ns(clock.now_ns());
        let mut usage = layout.usage();
        let mut root = match layout.read_inode(View::Live, InodeNo::ROOT) {
            Ok(root) => root,
            Err(Error::NotFound) => {
                usage.inodes += 1;
                let mode = FileKind::Directory.mode_bits() | 0o755;
                Inode {
                    nlink: 2,
                    parent: InodeNo::ROOT,
                    ..Inode::new(InodeNo::ROOT, 1, mode, now)
                }
            }
            Err(error) => return Err(error),
        };
        (root.uid, root.gid) = root_owner;
        let items = vec![Item::Inode(Box::new(root))];
        let position = layout.append(Group {
            items,
            usage,
            cause: Cause::SyncAll,
        })?;
        layout.commit(position)?;
        layout.checkpoint()
    }

    /// Opens the tree, and finishes what a crash left in the middle: files
    /// without names are freed, truncates completed; very large ones in steps
    /// by [`Self::maintain`]. To keep a hand on the layout, pass a clone of an
    /// [`Arc`] of it.
    ///
    /// # Errors
    /// `Damaged` if there is no root directory, `Invalid` if logical blocks
    /// are smaller than 4096 bytes, what the layout fails with.
    pub fn mount(layout: L, clock: Arc<dyn Clock>, options: Options) -> Result<Self> {
        let geometry = layout.geometry();
        if geometry.block_bytes < BLOCK_BYTES_MIN || !geometry.block_bytes.is_power_of_two() {
            return Err(Error::Invalid("logical blocks smaller than 4096 bytes"));
        }
        let usage = layout.usage();
        let store = Arc::new(Store::new(layout, &options));
        let vnodes = options.idle_vnodes();
        let fs = Self::new(Parts {
            read_ahead: Arc::new(ReadAhead::new(&store, options.read_ahead_threads)),
            budget: Arc::new(Budget::new(options.stop_access_bytes())),
            store,
            clock,
            level: Level::MOUNTED,
            table: VnodeTable::new(vnodes, vnode_table::SHARDS, Level::MOUNTED),
            passages: Passages::new(vnodes, passages::SHARDS),
            below: None,
            usage,
            settings: Settings {
                keep_written: options.keep_written,
                start_write_bytes: options.start_write_bytes(),
                stop_access_bytes: options.stop_access_bytes(),
                strict_order: options.strict_order,
                atime: options.relatime,
                step_blocks: STEP_BLOCKS,
                read_times_max: vnodes / 4,
                group_commit: options.group_commit,
                deadlocks: options.deadlocks,
            },
        });
        let root = fs.vnode(InodeNo::ROOT)?;
        if root.kind != FileKind::Directory {
            return Err(Error::Damaged {
                ino: Some(InodeNo::ROOT),
                detail: "the root is not a directory".to_owned(),
            });
        }
        fs.recover()?;
        Ok(fs)
    }

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
            below: parts.below,
            open: Mutex::default(),
            snapshots: Mutex::new(Weak::new()),
            locks: OnceLock::new(),
            budget: parts.budget,
            writer: Mutex::new(Writer::new(parts.usage)),
            gate: RwLock::new(()),
            rename: Mutex::new(()),
            queues: Mutex::default(),
            waker: RwLock::new(None),
            write_back_until: AtomicU64::new(NOT_WOKEN),
            seal_due: AtomicBool::new(false),
            captures_started: AtomicU64::new(0),
            captures_finished: AtomicU64::new(0),
            appended: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            waits: Waits::default(),
            gathering: Gathering::default(),
            failed: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            reaping: AtomicU64::new(0),
            settings: parts.settings,
        }
    }

    /// The layout below.
    pub fn layout(&self) -> &L {
        &self.store.layout
    }

    /// Makes everything durable, frees what waits to be freed, and lets the
    /// layout write its checkpoint. Open transactions are aborted. The file system
    /// stays usable, but for new ones.
    ///
    /// # Errors
    /// What made a write fail, now or before.
    pub fn unmount(&self) -> Result<()> {
        self.check_failed()?;
        self.end_open();
        self.sync()?;
        self.reap_all()?;
        self.checkpoint()
    }

    /// Forgets clean blocks, remembered ways, and vnodes that nobody holds.
    pub fn drop_caches(&self) {
        self.passages.clear();
        self.store.cache.clear();
        self.table.clear();
    }

    /// Counters since mount.
    pub fn statistics(&self) -> FsStatistics {
        FsStatistics {
            dirty_bytes: self.waits.bytes(),
            cached_bytes: self.store.cache.bytes(),
            vnodes: self.table.len() as u64,
            transactions_open: self.open_transactions(),
            locks: self
                .locks
                .get()
                .map_or_else(Default::default, |locks| locks.statistics()),
            ..statistics::sum(&self.store.counters)
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_ns(self.clock.now_ns())
    }

    /// The vnode of a number, read from the layout if need be.
    ///
    /// # Errors
    /// `Stale` for a free number, `Damaged`, device errors.
    #[inline]
    pub(crate) fn vnode(&self, ino: InodeNo) -> Result<Arc<Vnode>> {
        match self.table.get(ino) {
            Some(vnode) => Ok(vnode),
            None => self.load_vnode(ino),
        }
    }

    #[cold]
    fn load_vnode(&self, ino: InodeNo) -> Result<Arc<Vnode>> {
        if ino < InodeNo::ROOT {
            return Err(Error::Stale); // a layout's own
        }
        if let Some(below) = &self.below
            && below.ended.load(SeqCst)
        {
            return Err(Error::Aborted);
        }
        let _loading = self.table.loading(ino);
        match self.table.known(ino) {
            Known::Vnode(vnode) if !planted::is(Planted::LoadedTwice) => Ok(vnode),
            Known::Ended => Err(Error::Stale),
            Known::Vnode(_) | Known::Held | Known::Nothing => self.enter_vnode(ino),
        }
    }

    /// Makes a vnode of an inode that is not in memory and has not ended; its
    /// loading lock is held.
    ///
    /// # Errors
    /// As [`Self::vnode`].
    pub(crate) fn enter_vnode(&self, ino: InodeNo) -> Result<Arc<Vnode>> {
        let vnode = Arc::new(match &self.below {
            None => self.vnode_of_layout(ino, View::Live)?,
            Some(below) => self.vnode_of_ground(ino, below)?,
        });
        self.table.insert(Arc::clone(&vnode));
        Ok(vnode)
    }

    /// A vnode of an inode as the layout has it.
    pub(crate) fn vnode_of_layout(&self, ino: InodeNo, view: View) -> Result<Vnode> {
        let inode = self.checked_inode(ino, view)?;
        Ok(Vnode::of(
            inode,
            self.store.birth(),
            Ground::Layout(view),
            self.level,
            None,
        ))
    }

    /// An inode that is not in memory and has not ended, as the layout has it; its
    /// loading lock is held.
    ///
    /// # Errors
    /// As [`Self::vnode`].
    pub(crate) fn checked_inode(&self, ino: InodeNo, view: View) -> Result<Inode> {
        let read = self.store.layout.read_inode(view, ino);
        let inode = read.map_err(|error| match error {
            Error::NotFound => Error::Stale,
            other => other,
        })?;
        match self.flaw(ino, &inode) {
            None => Ok(inode),
            Some(flaw) => Err(Error::Damaged {
                ino: Some(ino),
                detail: flaw.to_owned(),
            }),
        }
    }
}

impl<L: Layout> FileSystem<L> {
    /// What cannot be so in an inode, however it came to be on the device.
    fn flaw(&self, ino: InodeNo, inode: &Inode) -> Option<&'static str> {
        let kind = FileKind::from_mode(inode.mode);
        let inline = inode.flags & flags::INLINE != 0;
        let large = inode.size > self.store.geometry.max_file_bytes;
        if inode.ino != ino {
            return Some("the inode names another number");
        }
        match kind {
            None => Some("the mode names no type"),
            Some(FileKind::Directory) if inline => Some("a directory with inline content"),
            Some(FileKind::Directory) => None,
            Some(_) if large => Some("the size is too large"),
            Some(_) if inline && inode.blocks > 0 => Some("inline content beside blocks"),
            Some(_) if inline && inode.inline.len() as u64 != inode.size => {
                Some("inline content of another length than the size")
            }
            Some(_) => None,
        }
    }
}

impl<L: Layout> std::fmt::Debug for FileSystem<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSystem")
            .field("usage", &self.usage())
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}
