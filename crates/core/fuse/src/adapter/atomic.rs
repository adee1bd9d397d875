//! Atomic writes to one file: the ioctls of F2FS, and where requests about the
//! content of such a file go (`docs/guide/transactions.md`, "SQLite without a journal").
//!
//! Invariants:
//! - A file has one [`Window`] at most. Whoever opens or ends it holds its `turn`.
//! - A request about content holds its `stage` shared, so that none is under way in
//!   a tree that is being committed or dropped. What holds it exclusively waits for
//!   nothing of the kernel's.
//! - A window that is not in the table any more is [`Stage::Over`].
//!
//! What opens and ends windows makes the kernel wait: `windows.rs`.

use super::{Adapter, Later, Outcome, inode_of};
use crate::aside::Aside;
use crate::askers::{self, Process, process_of};
use crate::errno::Errno;
use crate::protocol::IoctlOut;
use crate::reply::Reply;
use crate::request::Request;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use varve_fs::{Attr, FileKind, FileSystem, InodeNo, Layout, Transaction};
use zerocopy::IntoBytes;

/// `_IO(0xf5, 1)` and so on.
const START: u32 = 0xf501;
const COMMIT: u32 = 0xf502;
const START_VOLATILE: u32 = 0xf503;
const RELEASE_VOLATILE: u32 = 0xf504;
const ABORT: u32 = 0xf505;
/// `_IOR(0xf5, 12, u32)`.
const GET_FEATURES: u32 = 0x8004_f50c;

/// `F2FS_FEATURE_ATOMIC_WRITE`.
const ATOMIC_WRITE: u32 = 4;

/// Where the content of a file with an atomic write is.
pub(super) enum Stage<L: Layout> {
    /// In the transaction.
    Open(Transaction<L>),
    /// In the mounted tree. What the kernel still has of the write is lost.
    Discarding,
    /// In the mounted tree.
    Over,
}

/// An atomic write of one file.
pub(super) struct Window<L: Layout> {
    pub ino: InodeNo,
    /// Who started it.
    pub owner: Process,
    /// The kernel's time of modification at the start.
    pub modified: OnceLock<SystemTime>,
    pub turn: Mutex<()>,
    pub stage: RwLock<Stage<L>>,
    /// Why a write that the kernel had accepted was refused.
    pub lost: Mutex<Option<Errno>>,
}

/// The atomic writes of a mount.
pub(super) struct Windows<L: Layout> {
    /// The mount is to have them.
    offered: bool,
    /// How many there are, to be asked without a lock.
    count: AtomicUsize,
    pub table: Mutex<Table<L>>,
    pub aside: Aside,
    /// The mount's device number.
    pub device: OnceLock<(u32, u32)>,
}

/// See [`Windows`].
pub(super) struct Table<L: Layout> {
    pub open: HashMap<InodeNo, Arc<Window<L>>>,
    /// Ended by a close, and their owners have not heard of it: they would take what
    /// they wrote since for a whole.
    pub broken: HashMap<InodeNo, Arc<Window<L>>>,
    /// Commits of other views under way: no window is opened.
    pub merging: usize,
}

/// What is left to do about a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Act {
    pub what: What,
    /// The thread that asks.
    pub thread: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Start,
    Commit,
    Abort,
    /// The process that started it has closed the file.
    Closed,
}

/// Where a file's content is.
pub(super) enum Content<'a, L: Layout> {
    Mounted,
    /// In this tree. Why a write that the kernel had accepted was refused is noted.
    Window(&'a FileSystem<L>, &'a Mutex<Option<Errno>>),
    /// In the mounted tree, and what is written is lost, and said to be done.
    Discarded,
}

impl<L: Layout> Windows<L> {
    pub fn new(offered: bool) -> Self {
        Windows {
            offered,
            count: AtomicUsize::new(0),
            table: Mutex::new(Table {
                open: HashMap::new(),
                broken: HashMap::new(),
                merging: 0,
            }),
            aside: Aside::default(),
            device: OnceLock::new(),
        }
    }

    /// That of a file.
    pub fn of(&self, ino: InodeNo) -> Option<Arc<Window<L>>> {
        if self.count.load(Acquire) == 0 {
            return None;
        }
        self.table.lock().open.get(&ino).cloned()
    }

    /// Enters a window. The table is locked.
    pub fn enter(&self, table: &mut Table<L>, window: &Arc<Window<L>>) {
        table.open.insert(window.ino, Arc::clone(window));
        self.count.store(table.open.len(), Release);
    }

    /// Has the owner's next commit fail.
    pub fn broke(&self, window: &Arc<Window<L>>) {
        let broken = &mut self.table.lock().broken;
        broken.retain(|_, window| !window.owner.has_ended());
        broken.insert(window.ino, Arc::clone(window));
    }

    /// Its owner hears that a file's window was ended, if one was; who that is.
    pub fn hears(&self, ino: InodeNo) -> Option<u32> {
        let broken = self.table.lock().broken.remove(&ino)?;
        Some(broken.owner.number)
    }

    /// Takes a window out that is over.
    pub fn leave(&self, window: &Window<L>) {
        let mut table = self.table.lock();
        table.open.remove(&window.ino);
        self.count.store(table.open.len(), Release);
    }
}

/// While there is one, no file of the mount begins to be written atomically.
pub struct NoWindows<'a, L: Layout>(&'a Windows<L>);

impl<L: Layout> Drop for NoWindows<'_, L> {
    fn drop(&mut self) {
        self.0.table.lock().merging -= 1;
    }
}

impl<L: Layout> Adapter<L> {
    /// Keeps windows from being opened, for a commit that changes these files.
    ///
    /// # Errors
    /// The file among them that has one.
    pub(crate) fn keep_windows_shut(&self, files: &[InodeNo]) -> Result<NoWindows<'_, L>, InodeNo> {
        let mut table = self.windows.table.lock();
        match files.iter().find(|ino| table.open.contains_key(ino)) {
            Some(ino) => Err(*ino),
            None => {
                table.merging += 1;
                Ok(NoWindows(&self.windows))
            }
        }
    }

    /// Where the mount is, once it is.
    pub(crate) fn is_mounted_at(&self, mountpoint: &Path) {
        if !self.windows.offered {
            return;
        }
        if let Err(error) = self.windows.aside.start() {
            tracing::debug!(%error, "no thread for atomic writes yet");
        }
        if let Some((_, device)) = askers::identity(mountpoint) {
            let _ = self.windows.device.set(device);
        }
    }

    /// True if files of this mount can be written atomically.
    fn writes_atomically(&self) -> bool {
        self.windows.offered && self.write_back() && self.windows.device.get().is_some()
    }

    /// True if the kernel is to tell of closes.
    pub(super) fn hears_of_closes(&self) -> bool {
        self.windows.offered
    }

    /// Answers the ioctls of atomic writes. Nothing for others.
    pub(super) fn atomic_ioctl(
        &self,
        request: &Request<'_>,
        command: u32,
        reply: &mut Reply,
    ) -> Result<Option<Outcome>, Errno> {
        let what = match command {
            START => Some(What::Start),
            COMMIT => Some(What::Commit),
            ABORT => Some(What::Abort),
            GET_FEATURES | START_VOLATILE | RELEASE_VOLATILE => None,
            _ => return Ok(None),
        };
        let thread = request.header.pid;
        if !self.writes_atomically() || thread == 0 {
            return Err(Errno::NOT_A_TTY);
        }
        let Some(what) = what else {
            if command != GET_FEATURES {
                return Err(Errno::NOT_SUPPORTED);
            }
            reply.put(&IoctlOut::default());
            reply.put_bytes(ATOMIC_WRITE.as_bytes());
            return Ok(Some(Outcome::Reply));
        };
        let attr = self.fs.getattr(inode_of(request))?;
        self.may_write_atomically(request, &attr)?;
        Ok(Some(Outcome::Later(later(request, what))))
    }

    /// # Errors
    /// EACCES for who neither owns the file nor is root, EINVAL if it is no file.
    fn may_write_atomically(&self, request: &Request<'_>, attr: &Attr) -> Result<(), Errno> {
        let uid = self.asker(request).uid;
        if uid != 0 && uid != attr.uid {
            return Err(Errno(libc::EACCES));
        }
        match attr.kind {
            FileKind::Regular => Ok(()),
            _ => Err(Errno::INVALID),
        }
    }

    /// FLUSH: a descriptor of the file is closed. Locks are given up afterwards.
    pub(super) fn closed(&self, request: &Request<'_>) -> Outcome {
        let thread = request.header.pid;
        let Some(window) = self.windows.of(inode_of(request)) else {
            return Outcome::Reply;
        };
        if self.windows.aside.is(thread) {
            return Outcome::Reply;
        }
        let by_owner = process_of(thread) == Some(window.owner.number);
        match by_owner || window.owner.has_ended() {
            true => Outcome::Later(later(request, What::Closed)),
            false => Outcome::Reply,
        }
    }

    /// Does something with a file's content where it is, and stays until that is done.
    pub(super) fn in_content<R>(&self, ino: InodeNo, work: impl FnOnce(Content<'_, L>) -> R) -> R {
        let Some(window) = self.windows.of(ino) else {
            return work(Content::Mounted);
        };
        match &*window.stage.read() {
            Stage::Open(transaction) => work(Content::Window(transaction.tree(), &window.lost)),
            Stage::Discarding => work(Content::Discarded),
            Stage::Over => work(Content::Mounted),
        }
    }

    /// Does something with the tree that has a file's content.
    pub(super) fn in_tree<R>(&self, ino: InodeNo, work: impl FnOnce(&FileSystem<L>) -> R) -> R {
        self.in_content(ino, |content| match content {
            Content::Window(tree, _) => work(tree),
            Content::Mounted | Content::Discarded => work(&self.fs),
        })
    }

    /// True if the file's content is, or may come to be, in another tree.
    pub(super) fn is_apart(&self, ino: InodeNo) -> bool {
        self.windows.of(ino).is_some()
    }
}

fn later(request: &Request<'_>, what: What) -> Later {
    let act = Act {
        what,
        thread: request.header.pid,
    };
    Later::window(request.header.unique, request.header.nodeid, act)
}
