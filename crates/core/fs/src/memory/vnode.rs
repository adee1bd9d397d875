//! A file in memory: its newest attributes, its dirty blocks, and what the
//! log knows of it.
//!
//! Invariants, outside a [`State`]'s lock:
//! - `inode` is the newest truth: size, block and sector counts include dirty
//!   blocks, pending holes and reservations.
//! - `logged` is what the layout will hold once all groups handed over so far
//!   *and* the pending records of this vnode have been appended. An image is
//!   always preceded by those records, so it may state these counts.
//! - A block that is dirty hides what the overlays say, those hide the cache
//!   and the layout, `pending` before `flying`.
//! - In a private tree (`docs/design/transactions.md`) the ground takes the layout's place:
//!   `logged` and `pending` speak of it.
//! - Dirty data never reaches beyond the size. What the layout holds may:
//!   readers cut it, and whoever moves the size past it cuts it for good.

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

/// Sectors that `bytes` of content take.
pub(crate) fn sectors_of(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(SECTOR_BYTES)
}

/// What a dirty block with `bytes` of content in memory counts for: its sectors, and
/// its share of the summary and of index nodes. One with none was spilled, and counts
/// for what is kept of where it is.
pub(crate) fn dirty_charge(bytes: usize) -> u64 {
    match bytes {
        0 => SPILLED_BYTES,
        _ => sectors_of(bytes) * SECTOR_BYTES + 128,
    }
}

/// Bytes of memory that a spilled block takes: 88 of the map in which it is dirty, 12
/// of the layout's.
const SPILLED_BYTES: u64 = 104;

/// What an inode with these counts adds to a tree's usage.
pub(crate) fn usage_of(inode: &Inode) -> Usage {
    Usage {
        inodes: 1,
        blocks: inode.blocks,
        sectors: inode.sectors + sectors_of(inode.xattr_bytes as usize),
    }
}

/// Changes a count of blocks or sectors. It came from the device, so it may be
/// wrong; then it stops at its ends.
pub(crate) fn adjust(count: &mut u64, minus: u64, plus: u64) {
    *count = count.saturating_add(plus).saturating_sub(minus);
}

/// A block's newest content, not yet known to be in the layout.
#[derive(Clone, Debug)]
pub(crate) struct Dirty {
    pub data: Body,
    /// Sectors of this block in `logged.sectors`; 0 where it is a hole.
    pub logged_sectors: u32,
    /// When a user last wrote it.
    pub written: Timestamp,
    /// This very content is in the group that is being appended.
    pub flying: bool,
}

const _: () = assert!(size_of::<Dirty>() == 40);

/// What the layout knows; see the module's head.
#[derive(Debug, Default)]
pub(crate) struct Logged {
    /// An image has been handed over.
    pub ever: bool,
    pub size: u64,
    pub blocks: u64,
    pub sectors: u64,
    pub inline: Vec<u8>,
    /// This inode's share of the usage announced with the last group.
    pub counted: Usage,
}

/// How far a file is from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It has names, or somebody holds it.
    Live,
    /// It has neither; its blocks are being freed in steps.
    Doomed,
    /// Gone; its number comes back once that is logged.
    Freed,
}

/// What a file's blocks that are not in memory are asked of.
#[derive(Clone, Debug)]
pub(crate) enum Ground {
    /// The layout, which knows nothing of a file that is new.
    Layout(View),
    /// The file in the tree below.
    Vnode(Arc<Vnode>),
}

/// The changing part of a vnode.
#[derive(Debug)]
pub(crate) struct State {
    pub inode: Inode,
    pub life: Life,
    /// Key of its blocks in the cache.
    pub generation: Generation,
    /// Told whenever content changes: fetches that began before may be void.
    pub changes: Changes,
    pub dirty: BTreeMap<u64, Dirty>,
    /// `inode.inline` differs from what is logged.
    pub inline_dirty: bool,
    pub pending: Overlay,
    pub flying: Overlay,
    pub logged: Logged,
    /// The layout holds no block from here on, if known.
    pub mapped_end: Option<u64>,
    /// The attribute blob, once loaded or set.
    pub xattrs: OnceLock<Arc<Block>>,
    pub xattrs_dirty: bool,
    pub in_epoch: bool,
    /// All its data goes into the epoch's group.
    pub join_epoch: bool,
    /// Blocks of it that are counted as going there.
    pub joined: u64,
    /// Made without a name and not given one yet.
    pub linkable: bool,
    /// Key in the dirty queue; 0 if it is not there.
    pub queued: u64,
    /// The last capture after which all data was logged.
    pub captured: u64,
    /// What a directory was, while a rename may have to undo its changes.
    pub former: Option<Box<Former>>,
    /// In a private tree, of a file that exists in the ground.
    pub private: Option<Box<Private>>,
}

impl State {
    /// Bytes of extended attributes that wait to be logged.
    pub fn waiting_xattrs(&self) -> Option<usize> {
        self.xattrs_dirty.then_some(self.inode.xattr_bytes as usize)
    }

    /// Content waits to be logged.
    #[inline]
    pub fn has_data(&self) -> bool {
        self.inline_dirty || !self.dirty.is_empty()
    }

    /// Nothing waits to be logged.
    pub fn is_clean(&self) -> bool {
        !self.has_data() && !self.in_epoch && self.queued == 0 && self.flying.is_empty()
    }

    pub fn is_inline(&self) -> bool {
        self.inode.flags & flags::INLINE != 0
    }

    /// Sets the inline content and the flag that says so.
    pub fn set_inline(&mut self, content: Vec<u8>) {
        if content.is_empty() {
            self.inode.flags &= !flags::INLINE;
        } else {
            self.inode.flags |= flags::INLINE;
        }
        self.inode.inline = content;
    }

    /// What this inode adds to the usage of the tree in memory.
    pub fn usage(&self) -> Usage {
        usage_of(&self.inode)
    }

    /// # Errors
    /// `Stale` once the file is gone.
    #[inline]
    pub fn live(&self) -> Result<()> {
        if self.life == Life::Live {
            Ok(())
        } else {
            Err(Error::Stale)
        }
    }
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Vnode {
    pub ino: InodeNo,
    pub version: Version,
    pub kind: FileKind,
    /// For a directory: the directory above, as in its inode. Asked before a
    /// lock is taken, so that locks go down the tree even where a damaged
    /// directory does not.
    pub above: AtomicU64,
    /// Unique among all vnodes ever made: tells two lives of a number apart.
    pub birth: u64,
    /// For a directory: grows when it leaves its name, or when who may search
    /// it changes. See `passages.rs`.
    pub turns: AtomicU64,
    /// Handles and kernel references that keep a nameless file alive.
    pub refs: AtomicU64,
    /// Used since the table last looked for something to evict.
    pub touched: AtomicBool,
    /// Last read in nanoseconds if newer than the inode's; 0 if not.
    pub atime_ns: AtomicI64,
    /// It is on the list of those whose access time waits.
    pub atime_listed: AtomicBool,
    /// Where the reader is.
    pub ahead: Ahead,
    /// What lies below it.
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

    /// A vnode for an inode that the ground has.
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

    /// Shared access to a vnode that an entry leads to, or to a lone one.
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

    /// Whether it could be read again, if nobody uses it. A file that is held
    /// and has no name could not: the layout takes it for one to be freed.
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

    /// What is remembered of ways through this directory no longer holds. To
    /// be called before anybody can see why.
    pub fn turn(&self) {
        self.turns.fetch_add(1, Ordering::SeqCst);
    }

    /// A directory goes below another.
    pub fn move_below(&self, state: &mut State, parent: InodeNo) {
        state.inode.parent = parent;
        self.above.store(parent.0, Ordering::Relaxed);
    }

    /// `NotDirectory` unless it is one.
    pub fn directory(&self) -> Result<()> {
        if self.kind == FileKind::Directory {
            Ok(())
        } else {
            Err(Error::NotDirectory)
        }
    }

    /// The error for anything but a regular file, as reading it would give.
    pub fn regular(&self) -> Result<()> {
        match self.kind {
            FileKind::Regular => Ok(()),
            FileKind::Directory => Err(Error::IsDirectory),
            _ => Err(Error::Invalid("not a regular file")),
        }
    }
}
