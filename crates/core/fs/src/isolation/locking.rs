//! What locking transactions lock: strict two-phase locks on parts of files.
//!
//! | object | read | written by |
//! |---|---|---|
//! | `Content`, then `Page` with a span | IR, then R | IW, then W; many pages: R or W of all |
//! | `Size` | reads that reach the end, `stat` | what changes it; appends that know no place: IW |
//! | `Attributes` | `stat` | what changes owner, rights, flags, attributes |
//! | `Names`, then `Name` | IR, then R; a listing: R of all | IW, then W |
//! | `Place` | | a directory's move |
//!
//! Who reads what he will write takes IW, then U: of two who read it for that, the
//! second waits at the read, and neither has to give up for the other's write.
//! A cut takes W of `Content`, so who uses a page inside the size need not lock that.
//! Of a file whose content lies in the inode the whole page is locked, always.

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

/// What locks are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Object {
    Content(InodeNo),
    Page(InodeNo, u64),
    Size(InodeNo),
    Attributes(InodeNo),
    Names(InodeNo),
    /// By the first cookie that the name may have.
    Name(InodeNo, u64),
    /// Where directories are.
    Place,
}

/// A file's content is locked as a whole rather than in more pages than this.
const PAGES_MAX: u64 = 64;

/// A private tree's part in the table.
pub(crate) struct Locking {
    pub table: Arc<LockTable<Object>>,
    pub owner: OwnerId,
    /// How long it waits for each.
    pub timeout: Option<Duration>,
    /// Pages are locked by the bytes that are used.
    pub subpage: bool,
    /// It has not got a lock, and is over.
    pub doomed: AtomicBool,
    /// Files that it appends to without a place, those included that have one now.
    pub appending: AtomicU32,
}

impl Locking {
    /// Of a new owner, nested in another if there is one.
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

    /// Of a transaction within this one.
    pub fn nested(&self) -> Self {
        Self::new(&self.table, Some(self.owner), self.timeout, self.subpage)
    }

    fn lock(&self, object: Object, mode: Mode) -> Result<()> {
        let locked = self.table.lock(self.owner, &object, mode, self.timeout);
        locked.map_err(refused)
    }

    /// The locks of a part.
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
            // What is meant is a write, so the whole needs no other lock for that.
            Access::Update => (Mode::IntentionWrite, Mode::Update),
            Access::Write => (Mode::IntentionWrite, Mode::Write),
        };
        match part {
            Part::Content(bytes) => self.take_pages(store, ino, bytes, (intention, mode)),
            Part::Size => self.lock(Object::Size(ino), mode),
            Part::End => self.lock(Object::Size(ino), intention),
            Part::Attributes => self.lock(Object::Attributes(ino), mode),
            // Who sets one locks the attributes; those that follow from changes are merged.
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

/// The locks of one operation, until it is dropped.
pub(crate) struct Outsider(pub Locking);

impl Drop for Outsider {
    fn drop(&mut self) {
        self.0.table.end(self.0.owner);
    }
}
