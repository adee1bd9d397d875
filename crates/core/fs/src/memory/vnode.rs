//! A file in memory: its newest attributes, its dirty blocks, and its logged state.
//!
//! Invariants, outside a [`State`]'s lock:
//! - `inode` is the newest state: size, block and sector counts include dirty blocks,
//!   pending holes and reservations.
//! - `logged` is the layout's state once all groups captured so far *and* the pending
//!   records of this vnode have been appended. An image is always preceded by those
//!   records, so it may state these counts.
//! - A dirty block hides the overlays, those hide the cache and the layout, `pending`
//!   before `flying`.
//! - In a private tree (`docs/design/transactions.md`) the tree below replaces the
//!   layout: `logged` and `pending` are relative to it.
//! - Dirty data never reaches beyond the size. The layout's blocks may: readers cut them,
//!   and an operation that moves the size past them cuts them permanently.

use super::former::Former;
use crate::inode::{Inode, flags};
use crate::layout::Usage;
use crate::locks::{Level, Lock, Rank, Ranked};
use crate::memory::body::Body;
use crate::memory::cache::Generation;
use crate::memory::changes::Changes;
use crate::memory::overlay::Overlay;
use crate::memory::private::Private;
use crate::memory::read_ahead::Ahead;
use crate::types::{FileKind, InodeNo, Timestamp, Version, View};
use crate::{Attr, Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use varve_device::Block;
use varve_device::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use varve_device::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) const SECTOR_BYTES: u64 = 512;

/// Number of sectors of `bytes` of content.
pub(crate) fn sectors_of(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(SECTOR_BYTES)
}

/// Bytes for which a dirty block with `bytes` of content in memory counts: its sectors,
/// and its share of the summary and of index nodes. A block with no bytes in memory was
/// spilled, and counts for the record of its place.
pub(crate) fn dirty_charge(bytes: usize) -> u64 {
    match bytes {
        0 => SPILLED_BYTES,
        _ => sectors_of(bytes) * SECTOR_BYTES + 128,
    }
}

/// Bytes of memory that a spilled block takes: 88 in the map of dirty blocks, 12 in the
/// layout.
const SPILLED_BYTES: u64 = 104;

/// Share of an inode with these counts in a tree's usage.
pub(crate) fn usage_of(inode: &Inode) -> Usage {
    Usage {
        inodes: 1,
        blocks: inode.blocks,
        sectors: inode.sectors + sectors_of(inode.xattr_bytes as usize),
    }
}

/// Changes a count of blocks or sectors. It was read from the device, so it may be wrong;
/// then it saturates.
pub(crate) fn adjust(count: &mut u64, minus: u64, plus: u64) {
    *count = count.saturating_add(plus).saturating_sub(minus);
}

/// A block's newest content, not yet known to be in the layout.
#[derive(Clone, Debug)]
pub(crate) struct Dirty {
    pub data: Body,
    /// Sectors of this block in `logged.sectors`; 0 where it is a hole.
    pub logged_sectors: u32,
    /// Time at which a user last wrote it.
    pub written: Timestamp,
    /// This very content is in the group that is being appended.
    pub flying: bool,
}

const _: () = assert!(size_of::<Dirty>() == 40);

/// The state of the file in the layout.
#[derive(Debug, Default)]
pub(crate) struct Logged {
    /// An image has been captured.
    pub ever: bool,
    pub size: u64,
    pub blocks: u64,
    pub sectors: u64,
    pub inline: Vec<u8>,
    /// This inode's share of the usage announced with the last group.
    pub counted: Usage,
}

/// Stage of a file's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It has a name, or is still referenced.
    Live,
    /// It has neither; its blocks are being freed in steps.
    Doomed,
    /// It is freed; its number can be reused once that is logged.
    Freed,
}

/// The source of a file's blocks that are not in memory.
#[derive(Clone, Debug)]
pub(crate) enum Ground {
    /// The layout, which does not contain a new file.
    Layout(View),
    /// The file in the tree below.
    Vnode(Arc<Vnode>),
}

/// The mutable part of a vnode.
#[derive(Debug)]
pub(crate) struct State {
    pub inode: Inode,
    pub life: Life,
    /// Key of its blocks in the cache.
    pub generation: Generation,
    /// Record of content changes, by which a fetch detects that it was overtaken.
    pub changes: Changes,
    pub dirty: BTreeMap<u64, Dirty>,
    /// `inode.inline` differs from the logged content.
    pub inline_dirty: bool,
    pub pending: Overlay,
    pub flying: Overlay,
    pub logged: Logged,
    /// The layout has no block from here on, if known.
    pub mapped_end: Option<u64>,
    /// The attribute blob, once loaded or set.
    pub xattrs: OnceLock<Arc<Block>>,
    pub xattrs_dirty: bool,
    pub in_epoch: bool,
    /// All its data is part of the epoch's group.
    pub join_epoch: bool,
    /// Number of its blocks that are counted as part of the epoch's group.
    pub joined: u64,
    /// Made without a name and not given one yet.
    pub linkable: bool,
    /// Key in the dirty queue; 0 if it is not in the queue.
    pub queued: u64,
    /// The last capture after which all data was logged.
    pub captured: u64,
    /// A directory's former state, while a rename may have to undo its changes.
    pub former: Option<Box<Former>>,
    /// In a private tree, of a file that exists in the tree below.
    pub private: Option<Box<Private>>,
}

impl State {
    /// Bytes of extended attributes that wait to be logged.
    pub fn waiting_xattrs(&self) -> Option<usize> {
        self.xattrs_dirty.then_some(self.inode.xattr_bytes as usize)
    }

    /// True if content waits to be logged.
    #[inline]
    pub fn has_data(&self) -> bool {
        self.inline_dirty || !self.dirty.is_empty()
    }

    /// True if no change waits to be logged.
    pub fn is_clean(&self) -> bool {
        !self.has_data() && !self.in_epoch && self.queued == 0 && self.flying.is_empty()
    }

    pub fn is_inline(&self) -> bool {
        self.inode.flags & flags::INLINE != 0
    }

    /// Sets the inline content and its flag.
    pub fn set_inline(&mut self, content: Vec<u8>) {
        if content.is_empty() {
            self.inode.flags &= !flags::INLINE;
        } else {
            self.inode.flags |= flags::INLINE;
        }
        self.inode.inline = content;
    }

    /// Share of this inode in the usage of the tree in memory.
    pub fn usage(&self) -> Usage {
        usage_of(&self.inode)
    }

    /// Checks that the file was not removed.
    ///
    /// # Errors
    /// `Stale` once it was.
    #[inline]
    pub fn live(&self) -> Result<()> {
        if self.life == Life::Live {
            Ok(())
        } else {
            Err(Error::Stale)
        }
    }
}

/// A file in memory.
#[derive(Debug)]
pub(crate) struct Vnode {
    pub ino: InodeNo,
    pub version: Version,
    pub kind: FileKind,
    /// For a directory: the number of its parent, as in its inode. It is read before a
    /// lock is taken, so that locks are taken down the tree even where a damaged
    /// directory names another parent.
    pub above: AtomicU64,
    /// Unique among all vnodes ever made: distinguishes two files with the same number.
    pub birth: u64,
    /// For a directory: its generation, which grows when it loses its name, or when the
    /// permission to search it changes. See `passages.rs`.
    pub turns: AtomicU64,
    /// Handles and kernel references that keep a nameless file alive.
    pub refs: AtomicU64,
    /// Used since the table last searched for a vnode to evict.
    pub touched: AtomicBool,
    /// Time of the last read in nanoseconds if newer than the inode's; 0 if not.
    pub atime_ns: AtomicI64,
    /// It is in the list of files whose access time waits.
    pub atime_listed: AtomicBool,
    /// Position of the reader, for read-ahead.
    pub ahead: Ahead,
    /// The file below it: in the layout, or in the tree below.
    pub ground: Ground,
    /// The [`Level`] of its tree.
    pub level: AtomicU8,
    state: RwLock<State>,
}

pub(crate) type ReadState<'a> = Ranked<RwLockReadGuard<'a, State>>;
pub(crate) type WriteState<'a> = Ranked<RwLockWriteGuard<'a, State>>;

impl Vnode {
    /// A vnode for a new file.
    pub fn new(inode: Inode, birth: u64, level: Level) -> Self {
        Self::make(inode, false, birth, Ground::Layout(View::Live), level, None)
    }

    /// A vnode for an inode that exists in `ground`.
    pub fn of(
        inode: Inode,
        birth: u64,
        ground: Ground,
        level: Level,
        private: Option<Box<Private>>,
    ) -> Self {
        Self::make(inode, true, birth, ground, level, private)
    }

    fn make(
        inode: Inode,
        logged: bool,
        birth: u64,
        ground: Ground,
        level: Level,
        private: Option<Box<Private>>,
    ) -> Self {
        let mut state = State {
            life: Life::Live,
            generation: Generation::new(birth),
            changes: Changes::default(),
            dirty: BTreeMap::new(),
            inline_dirty: false,
            pending: Overlay::default(),
            flying: Overlay::default(),
            logged: Logged::default(),
            mapped_end: (!logged).then_some(0),
            xattrs: OnceLock::new(),
            xattrs_dirty: false,
            in_epoch: false,
            join_epoch: false,
            joined: 0,
            linkable: false,
            queued: 0,
            captured: 0,
            former: None,
            private,
            inode,
        };
        if logged {
            state.logged = Logged {
                ever: true,
                size: state.inode.size,
                blocks: state.inode.blocks,
                sectors: state.inode.sectors,
                inline: state.inode.inline.clone(),
                counted: state.usage(),
            };
        }
        Vnode {
            ino: state.inode.ino,
            version: state.inode.version,
            kind: state.inode.kind(),
            above: AtomicU64::new(state.inode.parent.0),
            birth,
            turns: AtomicU64::new(0),
            refs: AtomicU64::new(0),
            touched: AtomicBool::new(true),
            atime_ns: AtomicI64::new(0),
            atime_listed: AtomicBool::new(false),
            ahead: Ahead::default(),
            ground,
            level: AtomicU8::new(level.0),
            state: RwLock::new(state),
        }
    }

    #[inline]
    fn rank(&self, lock: Lock) -> Rank {
        Level(self.level.load(Ordering::Relaxed)).rank(lock)
    }

    /// Shared access to a vnode to which an entry refers, or to a single one.
    #[inline]
    pub fn read(&self) -> ReadState<'_> {
        Ranked::take(self.rank(Lock::Child), || self.state.read())
    }

    /// Exclusive access, as [`Self::read`].
    #[inline]
    pub fn write(&self) -> WriteState<'_> {
        Ranked::take(self.rank(Lock::Child), || self.state.write())
    }

    /// Shared access to a directory that is searched.
    #[inline]
    pub fn read_directory(&self) -> ReadState<'_> {
        Ranked::take(self.rank(Lock::Directory), || self.state.read())
    }

    /// Exclusive access to a directory whose entries change.
    #[inline]
    pub fn write_directory(&self) -> WriteState<'_> {
        Ranked::take(self.rank(Lock::Directory), || self.state.write())
    }

    /// True if an unused vnode could be loaded again. A referenced file without a name
    /// could not: the layout considers it one to be freed.
    pub fn is_evictable(&self) -> bool {
        let held = self.refs.load(Ordering::Relaxed) > 0;
        self.state.try_read().is_some_and(|state| {
            state.is_clean() && state.life == Life::Live && !(held && state.inode.nlink == 0)
        })
    }

    /// Attributes, given the locked state.
    pub fn attr(&self, state: &State, block_bytes: u32) -> Attr {
        let mut attr = Attr::of(&state.inode, block_bytes);
        let read_ns = self.atime_ns.load(Ordering::Relaxed);
        if read_ns != 0 {
            attr.atime = Timestamp::from_ns(read_ns);
        }
        attr
    }

    /// Counts a new generation, which invalidates cached paths through this directory. To
    /// be called before the change is visible.
    pub fn turn(&self) {
        self.turns.fetch_add(1, Ordering::SeqCst);
    }

    /// Sets a directory's parent.
    pub fn move_below(&self, state: &mut State, parent: InodeNo) {
        state.inode.parent = parent;
        self.above.store(parent.0, Ordering::Relaxed);
    }

    /// Checks that it is a directory.
    ///
    /// # Errors
    /// `NotDirectory`.
    pub fn directory(&self) -> Result<()> {
        if self.kind == FileKind::Directory {
            Ok(())
        } else {
            Err(Error::NotDirectory)
        }
    }

    /// Checks that it is a regular file.
    ///
    /// # Errors
    /// The same as reading another kind of file.
    pub fn regular(&self) -> Result<()> {
        match self.kind {
            FileKind::Regular => Ok(()),
            FileKind::Directory => Err(Error::IsDirectory),
            _ => Err(Error::Invalid("not a regular file")),
        }
    }
}
