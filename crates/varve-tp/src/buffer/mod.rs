//! The buffer manager: pages in a fixed number of frames.
//!
//! Invariants:
//! - A page is in one frame at most. A frame with pins keeps its page.
//! - `first` of a dirty frame is at most the LSN of the first change that its slot lacks;
//!   it is set under the write latch under which the change was logged.
//! - A page is written to a free slot, from a copy made under its latch; the map is
//!   changed when the write has returned. So nothing here waits for the log: only a
//!   checkpoint makes the map count, and it flushes the log first (`docs/tp.md`).
//!
//! Order: a shard of the table before a latch that nobody else can want; no shard while
//! waiting for a latch; the queues before a shard; the slots' mutex last.
//!
//! Source: Seltzer 1992, §5.1.4.2 (pins); Yang and others 2023 (S3-FIFO).

mod frame;
mod load;
mod queues;
mod slots;
mod write;

pub(crate) use frame::{ReadPage, WritePage};
pub(crate) use slots::{MapBlock, SlotHold, entries};

use crate::error::{Error, Result};
use crate::storage::Named;
use foldhash::HashMap;
use frame::Frame;
use queues::Queues;
use slots::Slots;
use varve_device::sync::Mutex;
use varve_device::sync::atomic::AtomicU64;

/// A clean frame's `first`.
const CLEAN: u64 = u64::MAX;
const SHARDS: usize = 64;

/// CPUs fetch lines of 64 bytes in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<HashMap<u32, u32>>);

#[derive(Debug)]
pub(crate) struct Pool {
    frames: Box<[Frame]>,
    table: Box<[Shard]>,
    queues: Mutex<Queues>,
    slots: Mutex<Slots>,
    file: Named,
    pub page_bytes: usize,
    pub reads: AtomicU64,
    pub writes: AtomicU64,
}

impl Pool {
    /// A pool of so many frames, empty, over pages where `map` says they are.
    pub(crate) fn new(file: Named, page_bytes: usize, frames: usize) -> Self {
        let mut table = Vec::new();
        table.resize_with(SHARDS, Shard::default);
        Pool {
            frames: (0..frames).map(|_| Frame::new(page_bytes)).collect(),
            table: table.into(),
            queues: Mutex::new(Queues::new(frames)),
            slots: Mutex::new(Slots::default()),
            file,
            page_bytes,
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
        }
    }

    /// What the last durable checkpoint says of slots: the map, and its blocks.
    pub(crate) fn adopt(&self, map: Vec<u32>, blocks: Vec<MapBlock>) -> Result<()> {
        let slots = Slots::adopt(map, blocks, self.page_bytes);
        let slots = slots.map_err(|slot| {
            let what = format!("the map names slot {slot} twice");
            Error::damaged("pages", slot * self.page_bytes as u64, what)
        })?;
        *self.slots.lock() = slots;
        Ok(())
    }

    fn shard(&self, page: u32) -> &Mutex<HashMap<u32, u32>> {
        &self.table[page as usize % SHARDS].0
    }

    /// Frames that hold changes.
    pub(crate) fn dirty(&self) -> usize {
        let dirty = self.frames.iter().filter(|frame| frame.is_dirty());
        dirty.count()
    }

    pub(crate) fn frames(&self) -> usize {
        self.frames.len()
    }

    /// Pages that have a slot, slots in use, and slots that the file may have.
    pub(crate) fn slots_used(&self) -> (usize, usize) {
        let slots = self.slots.lock();
        slots.counts()
    }

    /// Keeps the slots of the durable checkpoint as they are.
    pub(crate) fn hold(&self) -> SlotHold {
        self.slots.lock().hold()
    }

    /// What a slot holds.
    pub(crate) fn read_slot(&self, slot: u32, bytes: &mut [u8]) -> Result<()> {
        let at = u64::from(slot) * self.page_bytes as u64;
        self.file.read_at(at, bytes)
    }

    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync()
    }
}
