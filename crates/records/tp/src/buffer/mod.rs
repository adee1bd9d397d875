//! The buffer manager: pages in a fixed number of frames.
//!
//! Invariants:
//! - A page is in at most one frame. A pinned frame keeps its page.
//! - `first` of a dirty frame is at most the LSN of the first change that its slot lacks;
//!   it is set under the write latch under which the change was logged.
//! - A page is written from a copy made under its latch.
//! - With shadow slots the copy is written to a free slot, and the map is changed when
//!   the write has returned. The write does not wait for the log, because only a
//!   checkpoint makes the map valid, and it flushes the log first. In place the write
//!   waits for the log (`docs/spec/records.md`).
//!
//! Lock order: a shard of the table before a latch for which no other thread can wait; no
//! shard while waiting for a latch; the queues before a shard; `batching` before a
//! frame's writer, and that before its latch; the layout's mutex last, except for those
//! of `near.rs`.
//!
//! Source: Seltzer 1992, §5.1.4.2 (pins); Yang and others 2023 (S3-FIFO).

mod frame;
mod in_place;
mod layout;
mod load;
mod map;
mod near;
mod queues;
mod slots;
mod write;

pub(crate) use frame::{ReadPage, WritePage};
pub(crate) use map::map_block;
pub(crate) use slots::{MapBlock, SlotHold, entries};

use crate::error::{Error, Result};
use crate::log::{Log, Lsn};
use crate::options::Placement;
use crate::storage::Named;
use foldhash::HashMap;
use frame::{Frame, NO_PAGE, Pin};
use in_place::InPlace;
use layout::Layout;
use near::Near;
use queues::Queues;
use slots::Slots;
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_device::sync::Mutex;
use varve_device::sync::atomic::{AtomicU64, Ordering::*};

/// Value of `first` in a clean frame.
const CLEAN: u64 = u64::MAX;
const SHARDS: usize = 64;

/// The alignment is 128 because CPUs fetch lines of 64 bytes in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<HashMap<u32, u32>>);

#[derive(Debug)]
pub(crate) struct Pool {
    frames: Box<[Frame]>,
    table: Box<[Shard]>,
    near: Near,
    queues: Mutex<Queues>,
    layout: Mutex<Layout>,
    file: Named,
    log: Arc<Log>,
    /// Largest number of pages written together.
    batch: usize,
    /// Locked by the thread that writes several pages, because these are pinned
    /// meanwhile, and other threads need frames as well.
    batching: Mutex<()>,
    /// End of the log when few frames were dirty. While the log does not grow, no frame
    /// becomes dirty.
    few_dirty_at: AtomicU64,
    pub page_bytes: usize,
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    /// Images of pages appended to the log.
    pub images: AtomicU64,
}

impl Pool {
    /// Returns an empty pool of `frames` frames that writes at most `together` pages at a
    /// time.
    pub(crate) fn new(
        file: Named,
        log: Arc<Log>,
        page_bytes: usize,
        (frames, together): (usize, usize),
    ) -> Self {
        let mut table = Vec::new();
        table.resize_with(SHARDS, Shard::default);
        Pool {
            frames: (0..frames as u32).map(Frame::new).collect(),
            table: table.into(),
            near: Near::new(frames),
            queues: Mutex::new(Queues::new(frames)),
            layout: Mutex::new(Layout::Shadow(Slots::new(page_bytes))),
            file,
            log,
            batch: together.min(frames / 4).max(1),
            batching: Mutex::default(),
            few_dirty_at: AtomicU64::new(0),
            page_bytes,
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            images: AtomicU64::new(0),
        }
    }

    /// Adopts the pages of a durable checkpoint with this `redo`, whose map of `pages`
    /// pages has these blocks.
    pub(crate) fn adopt(
        &self,
        placement: Placement,
        redo: Lsn,
        (blocks, pages): (&[MapBlock], u32),
    ) -> Result<()> {
        let layout = match placement {
            Placement::Shadow => self.adopt_map(blocks, pages)?,
            Placement::InPlace(_) => Layout::InPlace(InPlace::new(placement.has_images(), redo.0)),
        };
        *self.layout.lock() = layout;
        Ok(())
    }

    fn adopt_map(&self, blocks: &[MapBlock], pages: u32) -> Result<Layout> {
        let map = self.read_map(blocks, pages as usize)?;
        let slots = Slots::adopt(map, blocks.to_vec(), self.page_bytes);
        let slots = slots.map_err(|slot| {
            let what = format!("the map names slot {slot} twice");
            Error::damaged("pages", slot * self.page_bytes as u64, what)
        })?;
        Ok(Layout::Shadow(slots))
    }

    /// Records images that the log has behind the checkpoint's `redo`.
    pub(crate) fn have_images(&self, images: &BTreeMap<u32, Lsn>) {
        if let Some(in_place) = self.layout.lock().in_place() {
            for (page, lsn) in images {
                in_place.imaged(*page, *lsn);
            }
        }
    }

    /// Starts without durable pages, for a new environment.
    pub(crate) fn adopt_nothing(&self, placement: Placement) {
        *self.layout.lock() = match placement {
            Placement::Shadow => Layout::Shadow(Slots::new(self.page_bytes)),
            Placement::InPlace(_) => Layout::InPlace(InPlace::new(false, 0)),
        };
    }

    fn shard(&self, page: u32) -> &Mutex<HashMap<u32, u32>> {
        &self.table[page as usize % SHARDS].0
    }

    /// Returns the number of dirty frames.
    pub(crate) fn dirty(&self) -> usize {
        let dirty = self.frames.iter().filter(|frame| frame.is_dirty());
        dirty.count()
    }

    pub(crate) fn frames(&self) -> usize {
        self.frames.len()
    }

    /// Returns the number of pages with a slot, and of slots in use. In place both follow
    /// from the length of the file.
    pub(crate) fn slots_used(&self) -> (usize, usize) {
        if let Some(slots) = self.layout.lock().shadow() {
            return slots.counts();
        }
        let pages = self.pages_in_file().unwrap_or(0) as usize;
        (pages, pages)
    }

    /// Returns the number of pages in the file, in place.
    pub(crate) fn pages_in_file(&self) -> Result<u32> {
        let pages = self.file.size()? / self.page_bytes as u64;
        u32::try_from(pages).map_err(|_| Error::damaged("pages", 0, "the file is too long"))
    }

    /// Pins the slots of the durable checkpoint, if they are shadow slots.
    pub(crate) fn hold(&self) -> Option<SlotHold> {
        self.layout.lock().hold()
    }

    /// Reads the content of a slot.
    pub(crate) fn read_slot(&self, slot: u32, bytes: &mut [u8]) -> Result<()> {
        self.file.read_at(self.offset(slot), bytes)
    }

    fn offset(&self, slot: u32) -> u64 {
        u64::from(slot) * self.page_bytes as u64
    }

    /// Returns at most `most` pages whose frames match, in ascending order.
    fn pages_of(&self, most: usize, wanted: impl Fn(&Frame) -> bool) -> Vec<u32> {
        let frames = self.frames.iter().filter(|frame| wanted(frame));
        let pages = frames.map(|frame| frame.page.load(SeqCst));
        let pages = pages.filter(|page| *page != NO_PAGE);
        let mut pages: Vec<u32> = pages.take(most).collect();
        pages.sort_unstable();
        pages
    }

    /// Pins a page's frame if it is in memory.
    fn held(&self, page: u32) -> Option<Pin<'_>> {
        let shard = self.shard(page).lock();
        let frame = &self.frames[*shard.get(&page)? as usize];
        frame.pins.fetch_add(1, Acquire);
        Some(Pin(frame))
    }

    /// Removes the pages of an earlier environment from the file.
    pub(crate) fn clear(&self) -> Result<()> {
        self.file.truncate(0)
    }

    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync()
    }
}
