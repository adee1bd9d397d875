//! A frame, and pages held for reading and writing.

use super::CLEAN;
use crate::log::Lsn;
use crate::page::{Page, PageMut};
use std::ops::Deref;
use varve_device::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::*};
use varve_device::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Uses are counted up to this.
const MOST_USES: u8 = 3;

/// What a frame holds.
#[derive(Debug)]
pub(super) struct Content {
    pub bytes: Box<[u8]>,
    /// False while it is read, and if that failed.
    pub loaded: bool,
}

/// CPUs fetch lines of 64 bytes in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Frame {
    pub pins: AtomicU32,
    pub page: AtomicU32,
    /// LSN of the first change since it was clean; [`CLEAN`].
    pub first: AtomicU64,
    /// The same of what is being written.
    pub writing: AtomicU64,
    pub uses: AtomicU8,
    pub latch: RwLock<Content>,
    /// Who writes it out.
    pub writer: Mutex<()>,
}

/// In no page's frame.
pub(super) const NO_PAGE: u32 = u32::MAX;

impl Frame {
    pub(super) fn new(_page_bytes: usize) -> Self {
        Frame {
            pins: AtomicU32::new(0),
            page: AtomicU32::new(NO_PAGE),
            first: AtomicU64::new(CLEAN),
            writing: AtomicU64::new(CLEAN),
            uses: AtomicU8::new(0),
            latch: RwLock::new(Content {
                bytes: Box::default(),
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
}

/// Keeps a page in its frame.
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
    pub(super) _pin: Pin<'a>,
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

    /// For changes that are logged.
    #[inline]
    pub(crate) fn edit(&mut self) -> PageMut<'_> {
        PageMut(&mut self.content.bytes)
    }

    /// The change that has been made, or is made under this same latch, is in the log.
    #[inline]
    pub(crate) fn mark(&mut self, lsn: Lsn) {
        self.edit().header().lsn = lsn.0.into();
        self.dirty_since(lsn);
    }

    /// Its slot lacks what the log has from `lsn` on.
    #[inline]
    pub(crate) fn dirty_since(&mut self, lsn: Lsn) {
        let first = &self.pin.0.first;
        if first.load(Relaxed) == CLEAN {
            // A write that fails meanwhile puts its own back.
            first.fetch_min(lsn.0, Relaxed);
        }
    }
}
