//! Locks of locking transactions: strict two-phase locks on parts of files.
//!
//! | object | read | written by |
//! |---|---|---|
//! | `Content`, then `Page` with a span | IR, then R | IW, then W; many pages: R or W of all |
//! | `Size` | reads that reach the end, `stat` | changes of the size; appends without a known place: IW |
//! | `Attributes` | `stat` | changes of owner, rights, flags, attributes |
//! | `Names`, then `Name` | IR, then R; a listing: R of all | IW, then W |
//! | `Place` | | a directory's move |
//!
//! A read for update takes IW, then U: of two transactions that read the same page for
//! update, the second waits at its read, and neither has to abort for the other's write.
//! A cut takes W of `Content`, so a user of a page inside the size need not lock the
//! size. Of a file whose content is in the inode the whole page is locked, always.

use super::{Access, Part};
use crate::directory;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::memory::store::Store;
use crate::memory::vnode::Vnode;
use crate::types::InodeNo;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use varve_device::sync::atomic::{AtomicBool, AtomicU32};
use varve_locks::{LockError, LockTable, Mode, OwnerId};

/// An object that can be locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Object {
    Content(InodeNo),
    Page(InodeNo, u64),
    Size(InodeNo),
    Attributes(InodeNo),
    Names(InodeNo),
    /// A name, by the first cookie that it may have.
    Name(InodeNo, u64),
    /// The places of directories in the tree.
    Place,
}

/// Most pages of a file that are locked one by one; beyond that, the content is locked as
/// a whole.
const PAGES_MAX: u64 = 64;

/// A private tree's owner in the lock table.
pub(crate) struct Locking {
    pub table: Arc<LockTable<Object>>,
    pub owner: OwnerId,
    /// Longest wait for each lock.
    pub timeout: Option<Duration>,
    /// Pages are locked by the bytes that are used.
    pub subpage: bool,
    /// A lock was not granted, and the tree is over.
    pub doomed: AtomicBool,
    /// Number of files to which it appends without a known place, or did until the place
    /// was decided.
    pub appending: AtomicU32,
}

impl Locking {
    /// An owner in the table, nested in another if one is given.
    pub fn new(
        table: &Arc<LockTable<Object>>,
        parent: Option<OwnerId>,
        timeout: Option<Duration>,
        subpage: bool,
    ) -> Self {
        Locking {
            table: Arc::clone(table),
            owner: table.begin(parent),
            timeout,
            subpage,
            doomed: AtomicBool::new(false),
            appending: AtomicU32::new(0),
        }
    }

    /// An owner for a transaction nested in this one.
    pub fn nested(&self) -> Self {
        Self::new(&self.table, Some(self.owner), self.timeout, self.subpage)
    }

    fn lock(&self, object: Object, mode: Mode) -> Result<()> {
        let locked = self.table.lock(self.owner, &object, mode, self.timeout);
        locked.map_err(refused)
    }

    /// Takes the locks of a part of a file.
    pub fn take<L: Layout>(
        &self,
        store: &Store<L>,
        vnode: &Vnode,
        part: &Part<'_>,
        access: Access,
    ) -> Result<()> {
        let ino = vnode.ino;
        let (intention, mode) = match access {
            Access::Read => (Mode::IntentionRead, Mode::Read),
            // A write will follow, so the lock on the whole file need not be upgraded for
            // it.
            Access::Update => (Mode::IntentionWrite, Mode::Update),
            Access::Write => (Mode::IntentionWrite, Mode::Write),
        };
        match part {
            Part::Content(bytes) => self.take_pages(store, ino, bytes, (intention, mode)),
            Part::Size => self.lock(Object::Size(ino), mode),
            Part::End => self.lock(Object::Size(ino), intention),
            Part::Attributes => self.lock(Object::Attributes(ino), mode),
            // An explicit change of a time locks the attributes; times that follow from
            // changes are merged.
            Part::Times => Ok(()),
            Part::Name(name) => {
                let cookies = directory::cookies(&store.key(vnode), name);
                self.lock(Object::Names(ino), intention)?;
                self.lock(Object::Name(ino, *cookies.start()), mode)
            }
            Part::Names => self.lock(Object::Names(ino), mode),
            Part::Place => self.lock(Object::Place, mode),
            Part::All => {
                self.lock(Object::Content(ino), mode)?;
                self.lock(Object::Names(ino), mode)?;
                self.lock(Object::Size(ino), mode)?;
                self.lock(Object::Attributes(ino), mode)
            }
        }
    }

    fn take_pages<L: Layout>(
        &self,
        store: &Store<L>,
        ino: InodeNo,
        bytes: &Range<u64>,
        (intention, mode): (Mode, Mode),
    ) -> Result<()> {
        let first = bytes.start >> store.block_shift;
        let last = bytes.end.saturating_sub(1).max(bytes.start) >> store.block_shift;
        if last - first >= PAGES_MAX {
            return self.lock(Object::Content(ino), mode);
        }
        self.lock(Object::Content(ino), intention)?;
        for block in first..=last {
            let page = Object::Page(ino, block);
            let locked = match self.subpage {
                false => self.table.lock(self.owner, &page, mode, self.timeout),
                true => {
                    let span = store.within(block, bytes);
                    let span = span.start as u32..span.end as u32;
                    self.table
                        .lock_span(self.owner, &page, span, mode, self.timeout)
                }
            };
            locked.map_err(refused)?;
        }
        Ok(())
    }
}

fn refused(error: LockError) -> Error {
    match error {
        LockError::Deadlock => Error::Deadlock,
        LockError::Timeout => Error::TimedOut,
        LockError::Cancelled => Error::Aborted,
    }
}

/// The locks of one operation outside of transactions, released when this is dropped.
pub(crate) struct Outsider(pub Locking);

impl Drop for Outsider {
    fn drop(&mut self) {
        self.0.table.end(self.0.owner);
    }
}
