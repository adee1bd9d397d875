//! Finding a page's frame, or one for it.

use super::frame::{NO_PAGE, Pin, ReadPage, WritePage};
use super::queues::{Leaving, Queues};
use super::{CLEAN, Pool};
use crate::error::{Error, Result};
use crate::page::{self, Page, PageMut};
use varve_device::sync::atomic::Ordering::*;

/// Looks at frames in a row before it says that all are pinned.
const PATIENCE: usize = 64;

impl Pool {
    /// A page for reading.
    pub(crate) fn read(&self, page: u32) -> Result<ReadPage<'_>> {
        loop {
            let pin = self.pin(page, true)?;
            let content = pin.0.latch.read();
            // False: the one who read it failed, and reports it.
            if content.loaded {
                return Ok(ReadPage { content, _pin: pin });
            }
        }
    }

    /// A page for writing.
    pub(crate) fn write(&self, page: u32) -> Result<WritePage<'_>> {
        loop {
            let pin = self.pin(page, true)?;
            let content = pin.0.latch.write();
            if content.loaded {
                return Ok(WritePage { content, pin });
            }
        }
    }

    /// A page that will be made anew: what it held before does not matter. One without
    /// a slot, and not in memory, is of zeros.
    pub(crate) fn make(&self, page: u32) -> Result<WritePage<'_>> {
        loop {
            let pin = self.pin(page, false)?;
            let content = pin.0.latch.write();
            if content.loaded {
                return Ok(WritePage { content, pin });
            }
        }
    }

    /// The page as redo finds it: in memory, in its slot, or not made yet.
    pub(crate) fn redo(&self, page: u32) -> Result<WritePage<'_>> {
        let slot = self.slots.lock().slot(page);
        if slot != 0 {
            return self.write(page);
        }
        self.make(page)
    }

    #[inline]
    fn pin(&self, page: u32, read: bool) -> Result<Pin<'_>> {
        let shard = self.shard(page).lock();
        if let Some(frame) = shard.get(&page) {
            let frame = &self.frames[*frame as usize];
            frame.pins.fetch_add(1, Acquire);
            drop(shard);
            frame.used();
            return Ok(Pin(frame));
        }
        drop(shard);
        self.load(page, read)
    }

    fn load(&self, page: u32, read: bool) -> Result<Pin<'_>> {
        let number = self.take_frame()?;
        let frame = &self.frames[number as usize];
        let mut shard = self.shard(page).lock();
        if let Some(other) = shard.get(&page) {
            let other = &self.frames[*other as usize];
            other.pins.fetch_add(1, Acquire);
            drop(shard);
            self.queues.lock().free.push(number);
            return Ok(Pin(other));
        }
        frame.pins.store(1, SeqCst);
        frame.page.store(page, SeqCst);
        frame.uses.store(0, Relaxed);
        shard.insert(page, number);
        // Nobody has it: it was in no page's use.
        let mut content = frame.latch.write();
        drop(shard);
        let pin = Pin(frame);
        content.loaded = false;
        content.bytes = match std::mem::take(&mut content.bytes) {
            bytes if bytes.is_empty() => vec![0; self.page_bytes].into(),
            bytes => bytes,
        };
        let loaded = match read {
            true => self.fetch(page, &mut content.bytes),
            false => {
                content.bytes.fill(0);
                PageMut(&mut content.bytes).header().number = page.into();
                Ok(())
            }
        };
        let entered = |lost| self.queues.lock().enter(page, number, lost);
        match loaded {
            Ok(()) => {
                content.loaded = true;
                drop(content);
                entered(false);
                Ok(pin)
            }
            Err(error) => {
                self.shard(page).lock().remove(&page);
                frame.page.store(NO_PAGE, SeqCst);
                drop(content);
                entered(true);
                Err(error)
            }
        }
    }

    /// Reads a page from its slot.
    fn fetch(&self, page: u32, bytes: &mut [u8]) -> Result<()> {
        let slot = self.slots.lock().slot(page);
        if slot == 0 {
            return Err(Error::damaged(
                "pages",
                0,
                format!("page {page} has no slot"),
            ));
        }
        let at = u64::from(slot) * self.page_bytes as u64;
        self.file.read_at(at, bytes)?;
        self.reads.fetch_add(1, Relaxed);
        let header = Page(bytes).header();
        if header.crc.get() != page::sum(page, bytes) {
            let what = format!("page {page} has a wrong checksum");
            return Err(Error::damaged("pages", at, what));
        }
        let number = header.number.get();
        let right = match number == page {
            true => page::check(bytes).map_err(str::to_owned),
            false => Err(format!("it says that it is page {number}")),
        };
        right.map_err(|what| Error::damaged("pages", at, format!("page {page}: {what}")))
    }

    /// A frame that nobody has, out of the table.
    fn take_frame(&self) -> Result<u32> {
        for _ in 0..PATIENCE {
            let dirty = {
                let mut queues = self.queues.lock();
                if let Some(frame) = queues.free.pop() {
                    return Ok(frame);
                }
                match self.evict(&mut queues) {
                    Evicted::Frame(frame) => return Ok(frame),
                    Evicted::Dirty(leaving, pin) => Some((leaving, pin)),
                    Evicted::None => None,
                }
            };
            let Some((leaving, pin)) = dirty else {
                varve_device::sync::thread::yield_now();
                continue;
            };
            let written = self.try_write_out(pin.0);
            let mut queues = self.queues.lock();
            // Who was written leaves: where all are dirty, the next is so, too.
            if written.is_ok()
                && let Some(page) = self.let_go(&pin)
            {
                queues.left(leaving, page);
                return Ok(leaving.frame);
            }
            queues.keep(leaving);
            drop(queues);
            written?;
        }
        let frames = self.frames.len();
        Err(Error::BufferFull { frames })
    }

    /// Takes a clean frame out of the table that nobody else has. Answers its page.
    fn let_go(&self, pin: &Pin<'_>) -> Option<u32> {
        let page = pin.0.page.load(SeqCst);
        let mut shard = self.shard(page).lock();
        if pin.0.pins.load(Acquire) > 1 || pin.0.is_dirty() {
            return None;
        }
        shard.remove(&page);
        pin.0.page.store(NO_PAGE, SeqCst);
        Some(page)
    }

    fn evict(&self, queues: &mut Queues) -> Evicted<'_> {
        // Every frame may have to be passed a few times until its uses are counted down.
        for _ in 0..self.frames.len() * 4 + 8 {
            let Some(leaving) = queues.next(|frame| &self.frames[frame as usize].uses) else {
                return Evicted::None;
            };
            let frame = &self.frames[leaving.frame as usize];
            let page = frame.page.load(SeqCst);
            if page == NO_PAGE {
                match frame.pins.load(Acquire) {
                    0 => return Evicted::Frame(leaving.frame),
                    _ => queues.keep(leaving),
                }
                continue;
            }
            let mut shard = self.shard(page).lock();
            if frame.pins.load(Acquire) > 0 {
                drop(shard);
                queues.keep(leaving);
                continue;
            }
            if frame.is_dirty() {
                frame.pins.fetch_add(1, Acquire);
                return Evicted::Dirty(leaving, Pin(frame));
            }
            shard.remove(&page);
            frame.page.store(NO_PAGE, SeqCst);
            queues.left(leaving, page);
            return Evicted::Frame(leaving.frame);
        }
        Evicted::None
    }

    /// The least LSN of a change that the slots lack, as of this moment or later.
    pub(crate) fn oldest_change(&self) -> u64 {
        let mut oldest = CLEAN;
        for frame in &self.frames {
            if frame.page.load(SeqCst) == NO_PAGE {
                continue;
            }
            let latched = frame.latch.read();
            // In this order: writing is set before first is cleared.
            let first = frame.first.load(SeqCst);
            oldest = oldest.min(first).min(frame.writing.load(SeqCst));
            drop(latched);
        }
        oldest
    }

    /// The dirty frames whose first change lies before this, pinned one by one.
    pub(super) fn dirty_before(&self, lsn: u64) -> impl Iterator<Item = Pin<'_>> {
        self.frames.iter().filter_map(move |frame| {
            let first = frame.first.load(SeqCst);
            if first >= lsn || first == CLEAN {
                return None;
            }
            let page = frame.page.load(SeqCst);
            let shard = self.shard(page).lock();
            let same = |number: &u32| std::ptr::eq(&self.frames[*number as usize], frame);
            shard.get(&page).filter(|number| same(number))?;
            frame.pins.fetch_add(1, Acquire);
            Some(Pin(frame))
        })
    }
}

enum Evicted<'a> {
    Frame(u32),
    Dirty(Leaving, Pin<'a>),
    None,
}
