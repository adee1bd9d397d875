//! Finds a page's frame, or a frame for it.

use super::Pool;
use super::frame::{NO_PAGE, Pin, ReadPage, WritePage};
use super::queues::{Leaving, Queues};
use crate::error::{Error, Result};
use crate::page::{self, Page, PageMut};
use crate::planted::{self, Planted};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use varve_device::sync::atomic::Ordering::*;
use varve_device::sync::thread;

/// Number of attempts to find a frame before the error that all are pinned, because the
/// threads that pin frames may wait for a sync of the log. They take about
/// a second, sleeps included.
const PATIENCE: usize = YIELDS + 1000;
/// Number of attempts before the thread sleeps between them.
const YIELDS: usize = 64;
const NAP: Duration = Duration::from_millis(1);

/// Treatment of a page that is not in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fetch {
    /// The page must exist and is read.
    Must,
    /// A page that was never written consists of zeros.
    IfWritten,
    /// The page is not read because it will be overwritten.
    No,
}

impl Pool {
    /// Latches a page for reading.
    pub(crate) fn read(&self, page: u32) -> Result<ReadPage<'_>> {
        loop {
            let pin = self.pin(page, Fetch::Must)?;
            let content = pin.0.latch.read();
            // The thread that failed to read the page reports the error.
            if content.loaded {
                return Ok(ReadPage { content, pin });
            }
        }
    }

    /// Latches a page for writing.
    pub(crate) fn write(&self, page: u32) -> Result<WritePage<'_>> {
        self.to_change(page, Fetch::Must)
    }

    /// Latches a page that will be overwritten. If it is not in memory, it consists of
    /// zeros.
    pub(crate) fn make(&self, page: u32) -> Result<WritePage<'_>> {
        self.to_change(page, Fetch::No)
    }

    /// Latches the page that redo creates, in its present state: in memory, in its slot,
    /// or not created yet.
    pub(crate) fn redo(&self, page: u32) -> Result<WritePage<'_>> {
        self.to_change(page, Fetch::IfWritten)
    }

    #[inline]
    fn to_change(&self, page: u32, fetch: Fetch) -> Result<WritePage<'_>> {
        loop {
            let pin = self.pin(page, fetch)?;
            let content = pin.0.write();
            if content.loaded {
                return Ok(WritePage {
                    content,
                    pin,
                    pool: self,
                });
            }
        }
    }

    #[inline]
    fn pin(&self, page: u32, fetch: Fetch) -> Result<Pin<'_>> {
        match self.held(page) {
            Some(pin) => {
                pin.0.used();
                Ok(pin)
            }
            None => self.load(page, fetch),
        }
    }

    fn load(&self, page: u32, fetch: Fetch) -> Result<Pin<'_>> {
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
        // The frame had no page, so no other thread uses it.
        let mut content = frame.write();
        drop(shard);
        let pin = Pin(frame);
        content.loaded = false;
        let bytes = self.own(&mut content.bytes);
        let loaded = match fetch {
            Fetch::No => Ok(false),
            _ => self.fetch(page, bytes),
        };
        let loaded = match loaded {
            Ok(false) if fetch == Fetch::Must => {
                let what = format!("page {page} was never written");
                Err(Error::damaged("pages", 0, what))
            }
            Ok(false) => {
                bytes.fill(0);
                PageMut(bytes).header().number = page.into();
                Ok(())
            }
            Ok(true) => Ok(()),
            Err(error) => Err(error),
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
                frame.vacate();
                drop(content);
                entered(true);
                Err(error)
            }
        }
    }

    /// Returns a frame's bytes to be overwritten. If a table of near pages shares them,
    /// they are replaced.
    fn own<'b>(&self, bytes: &'b mut Arc<[u8]>) -> &'b mut [u8] {
        if bytes.is_empty() {
            *bytes = vec![0; self.page_bytes].into();
        } else if Arc::get_mut(bytes).is_none() {
            self.near.strayed();
            *bytes = vec![0; self.page_bytes].into();
        }
        Arc::make_mut(bytes)
    }

    /// Reads a page from its slot. Returns false if it was never written.
    pub(crate) fn fetch(&self, page: u32, bytes: &mut [u8]) -> Result<bool> {
        let (slot, in_place) = {
            let mut layout = self.layout.lock();
            (layout.slot(page), layout.in_place().is_some())
        };
        let Some(slot) = slot else {
            return Ok(false);
        };
        let at = self.offset(slot);
        match self.file.read_at(at, bytes) {
            Err(Error::Io { source, .. })
                if in_place && source.kind() == io::ErrorKind::UnexpectedEof =>
            {
                return Ok(false);
            }
            read => read?,
        }
        self.reads.fetch_add(1, Relaxed);
        let header = Page(bytes).header();
        let right = if header.crc.get() != page::sum(page, bytes) {
            if in_place && bytes.iter().all(|byte| *byte == 0) {
                // The file has grown beyond the page.
                return Ok(false);
            }
            Err("has a wrong checksum".to_owned())
        } else if header.number.get() != page {
            Err(format!("says that it is page {}", header.number))
        } else if in_place && header.lsn.get() > self.log.end().0 {
            Err("is newer than the log".to_owned())
        } else {
            page::check(bytes).map_err(|what| format!("is none: {what}"))
        };
        right.map_err(|what| Error::damaged("pages", at, format!("page {page} {what}")))?;
        Ok(true)
    }

    /// Reads a page in place, in its present or a slightly earlier state. Returns false
    /// if it was never written.
    pub(crate) fn read_whole(&self, page: u32, bytes: &mut [u8]) -> Result<bool> {
        match self.fetch(page, bytes) {
            Err(Error::Damaged { .. }) if planted::is(Planted::PageCopiedTorn) => return Ok(true),
            // The page is being written.
            Err(Error::Damaged { .. }) => {}
            read => return read,
        }
        bytes.copy_from_slice(self.read(page)?.page().0);
        let sum = page::sum(page, bytes);
        PageMut(bytes).header().crc = sum.into();
        Ok(true)
    }

    /// Returns an unused frame, removed from the table.
    fn take_frame(&self) -> Result<u32> {
        for look in 0..PATIENCE {
            if look > 0 {
                thread::yield_now();
            }
            if look > YIELDS {
                thread::sleep(NAP);
            }
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
                continue;
            };
            let written = self.write_victim(leaving, &pin);
            let mut queues = self.queues.lock();
            // The written page is evicted at once, because if all frames are dirty, the
            // next candidate is dirty as well.
            if let Some(page) = self.let_go(&pin) {
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

    /// Writes a dirty page that is to be evicted. In place, the next candidates are
    /// written with it, because they share the flush of the log.
    fn write_victim(&self, leaving: Leaving, pin: &Pin<'_>) -> Result<()> {
        let in_place = self.layout.lock().in_place().is_some();
        let several = match in_place {
            true => self.batching.try_lock(),
            false => None,
        };
        let next = match &several {
            Some(_) => self.queues.lock().behind(leaving, self.batch - 1),
            None => Vec::new(),
        };
        let next: Vec<Pin<'_>> = next
            .into_iter()
            .map(|frame| &self.frames[frame as usize])
            .filter(|frame| frame.uses.load(Relaxed) == 0 && frame.is_dirty())
            .filter_map(|frame| self.held(frame.page.load(SeqCst)))
            .collect();
        self.try_write_out(std::iter::once(pin).chain(&next))
    }

    /// Removes a clean frame without other pins from the table. Returns its page.
    fn let_go(&self, pin: &Pin<'_>) -> Option<u32> {
        let page = pin.0.page.load(SeqCst);
        let mut shard = self.shard(page).lock();
        if pin.0.pins.load(Acquire) > 1 || pin.0.is_dirty() {
            return None;
        }
        pin.0.vacate();
        shard.remove(&page);
        Some(page)
    }

    fn evict(&self, queues: &mut Queues) -> Evicted<'_> {
        // A frame may have to be passed several times until its uses are counted down.
        let rounds = self.frames.len() * 8 + 8;
        for round in 0..rounds {
            let uses = |frame: u32| &self.frames[frame as usize].uses;
            let Some(leaving) = queues.next(uses, round >= rounds / 2) else {
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
            frame.vacate();
            shard.remove(&page);
            queues.left(leaving, page);
            return Evicted::Frame(leaving.frame);
        }
        Evicted::None
    }
}

enum Evicted<'a> {
    Frame(u32),
    Dirty(Leaving, Pin<'a>),
    None,
}
