//! A frame, and pages latched for reading and writing.

use super::{CLEAN, Pool};
use crate::log::Lsn;
use crate::page::{Page, PageMut};
use std::ops::Deref;
use std::sync::Arc;
use varve_device::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::*};
use varve_device::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Largest count of uses.
const MOST_USES: u8 = 3;

/// Content of a frame.
#[derive(Debug)]
pub(super) struct Content {
    /// Bytes of the page. Tables of near pages (`near.rs`) may share them; they are
    /// changed in place only if no table does, and in a copy otherwise.
    pub bytes: Arc<[u8]>,
    /// False while the page is being read, and after that failed.
    pub loaded: bool,
}

/// The alignment is 128 because CPUs fetch lines of 64 bytes in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Frame {
    /// Number of the frame in the pool.
    pub number: u32,
    pub pins: AtomicU32,
    pub page: AtomicU32,
    /// LSN of the first change since the page was clean, or [`CLEAN`].
    pub first: AtomicU64,
    /// The same LSN for the version that is being written.
    pub writing: AtomicU64,
    pub uses: AtomicU8,
    /// Changes whenever the write latch is taken, and when the page leaves the frame
    /// (`near.rs`).
    pub edition: AtomicU64,
    pub latch: RwLock<Content>,
    /// Locked by the thread that writes the page out.
    pub writer: Mutex<()>,
}

/// Page number of a frame without a page.
pub(super) const NO_PAGE: u32 = u32::MAX;

impl Frame {
    pub(super) fn new(number: u32) -> Self {
        Frame {
            number,
            pins: AtomicU32::new(0),
            page: AtomicU32::new(NO_PAGE),
            first: AtomicU64::new(CLEAN),
            writing: AtomicU64::new(CLEAN),
            uses: AtomicU8::new(0),
            edition: AtomicU64::new(0),
            latch: RwLock::new(Content {
                bytes: Arc::default(),
                loaded: false,
            }),
            writer: Mutex::new(()),
        }
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.first.load(Relaxed) != CLEAN || self.writing.load(Relaxed) != CLEAN
    }

    #[inline]
    pub(super) fn used(&self) {
        let uses = self.uses.load(Relaxed);
        if uses < MOST_USES {
            self.uses.store(uses + 1, Relaxed);
        }
    }

    /// Returns true if its page has been used several times recently.
    pub(super) fn is_hot(&self) -> bool {
        self.uses.load(Relaxed) == MOST_USES
    }

    /// Latches the content for writing.
    #[inline]
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Content> {
        let content = self.latch.write();
        self.edition.fetch_add(1, SeqCst);
        content
    }

    /// Removes the page from the frame. It must not be pinned, and its shard of the table
    /// must be locked.
    pub(super) fn vacate(&self) {
        self.edition.fetch_add(1, SeqCst);
        self.page.store(NO_PAGE, SeqCst);
    }
}

/// A pin: the frame keeps its page while this exists.
#[derive(Debug)]
pub(super) struct Pin<'a>(pub &'a Frame);

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.pins.fetch_sub(1, Release);
    }
}

/// A page, latched for reading.
#[derive(Debug)]
pub(crate) struct ReadPage<'a> {
    pub(super) content: RwLockReadGuard<'a, Content>,
    pub(super) pin: Pin<'a>,
}

impl ReadPage<'_> {
    #[inline]
    pub(crate) fn page(&self) -> Page<'_> {
        Page(&self.content.bytes)
    }
}

/// A page, latched for writing.
#[derive(Debug)]
pub(crate) struct WritePage<'a> {
    pub(super) content: RwLockWriteGuard<'a, Content>,
    pub(super) pin: Pin<'a>,
    pub(super) pool: &'a Pool,
}

impl WritePage<'_> {
    #[inline]
    pub(crate) fn page(&self) -> Page<'_> {
        Page(&self.content.deref().bytes)
    }

    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.page().header().number.get()
    }

    /// Returns the page for a change that is logged.
    #[inline]
    pub(crate) fn edit(&mut self) -> PageMut<'_> {
        if Arc::get_mut(&mut self.content.bytes).is_none() {
            self.pool.near.strayed();
        }
        PageMut(Arc::make_mut(&mut self.content.bytes))
    }

    /// Sets the page's LSN to that of a change in the log, made under this latch.
    #[inline]
    pub(crate) fn mark(&mut self, lsn: Lsn) {
        self.edit().header().lsn = lsn.0.into();
        self.dirty_since(lsn);
    }

    /// Records that the slot lacks changes from `lsn` on.
    #[inline]
    pub(crate) fn dirty_since(&mut self, lsn: Lsn) {
        let first = &self.pin.0.first;
        if first.load(Relaxed) == CLEAN {
            // A concurrent write that fails restores its own value.
            first.fetch_min(lsn.0, Relaxed);
        }
    }
}
