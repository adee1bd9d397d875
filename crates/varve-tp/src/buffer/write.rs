//! Writing pages to free slots, and the map for a checkpoint.

use super::frame::{Content, Frame};
use super::slots::{Captured, MapBlock, entries};
use super::{CLEAN, Pool};
use crate::error::{Error, Result};
use crate::page::{self, PAGE_HEADER, Page, PageMut, kind};
use crate::planted::{self, Planted};
use varve_device::sync::RwLockReadGuard;
use varve_device::sync::atomic::Ordering::*;

impl Pool {
    /// Writes a pinned frame out, if it is dirty, waiting for its latch: for those who
    /// hold none.
    pub(super) fn write_out(&self, frame: &Frame) -> Result<()> {
        let _alone = frame.writer.lock();
        self.write_content(frame, frame.latch.read())
    }

    /// The same without waiting: whoever needs a frame may hold latches for which the
    /// holder of this one waits.
    pub(super) fn try_write_out(&self, frame: &Frame) -> Result<()> {
        let Some(_alone) = frame.writer.try_lock() else {
            return Ok(());
        };
        match frame.latch.try_read() {
            Some(content) => self.write_content(frame, content),
            None => Ok(()),
        }
    }

    fn write_content(&self, frame: &Frame, content: RwLockReadGuard<'_, Content>) -> Result<()> {
        let (page, mut bytes) = {
            let first = frame.first.load(SeqCst);
            if first == CLEAN {
                return Ok(());
            }
            frame.writing.store(first, SeqCst);
            frame.first.store(CLEAN, SeqCst);
            let copy = (frame.page.load(SeqCst), content.bytes.clone());
            drop(content);
            copy
        };
        let sum = page::sum(page, &bytes);
        PageMut(&mut bytes).header().crc = sum.into();
        match self.write_page(page, &bytes) {
            Ok(()) => frame.writing.store(CLEAN, SeqCst),
            Err(error) => {
                let _exclusive = frame.latch.write();
                frame.first.store(frame.writing.load(SeqCst), SeqCst);
                frame.writing.store(CLEAN, SeqCst);
                return Err(error);
            }
        }
        Ok(())
    }

    fn write_page(&self, page: u32, bytes: &[u8]) -> Result<()> {
        let slot = {
            let mut slots = self.slots.lock();
            match slots.slot(page) {
                old if old != 0 && planted::is(Planted::PageInPlace) => old,
                _ => slots.allocate(),
            }
        };
        let written = self
            .file
            .write_at(u64::from(slot) * self.page_bytes as u64, bytes);
        let mut slots = self.slots.lock();
        match &written {
            Ok(()) => slots.moved(page, slot),
            Err(_) => slots.give_back(slot),
        }
        self.writes.fetch_add(1, Relaxed);
        written
    }

    /// Writes the pages out whose first change lies before `lsn`.
    pub(crate) fn write_before(&self, lsn: u64) -> Result<usize> {
        let mut written = 0;
        for pin in self.dirty_before(lsn) {
            self.write_out(pin.0)?;
            written += 1;
        }
        Ok(written)
    }

    /// The map now. Ends with [`checkpoint_completed`](Self::checkpoint_completed) or
    /// [`checkpoint_failed`](Self::checkpoint_failed).
    pub(crate) fn capture(&self) -> Captured {
        self.slots.lock().capture()
    }

    /// Writes the changed blocks of a captured map. Not durable. Answers which slots
    /// they took, also if it fails.
    pub(crate) fn write_map(&self, captured: &mut Captured, taken: &mut Vec<u32>) -> Result<()> {
        for (block, slots) in &captured.changed {
            let bytes = map_block(*block, slots, self.page_bytes);
            let slot = self.slots.lock().allocate();
            taken.push(slot);
            self.file
                .write_at(u64::from(slot) * self.page_bytes as u64, &bytes)?;
            self.writes.fetch_add(1, Relaxed);
            self.slots.lock().block_written(slot);
            let crc = Page(&bytes).header().crc.get();
            captured.blocks[*block] = MapBlock { slot, crc };
        }
        Ok(())
    }

    pub(crate) fn checkpoint_completed(&self, captured: Captured) {
        self.slots.lock().completed(captured);
    }

    pub(crate) fn checkpoint_failed(&self, captured: &Captured, taken: &[u32]) {
        self.slots.lock().failed(captured, taken);
    }

    /// The slots of `pages` pages, from the blocks of a checkpoint's map.
    pub(crate) fn read_map(&self, blocks: &[MapBlock], pages: usize) -> Result<Vec<u32>> {
        let mut map = Vec::new();
        let mut bytes = vec![0; self.page_bytes];
        for (number, block) in blocks.iter().enumerate() {
            let at = u64::from(block.slot) * self.page_bytes as u64;
            self.file.read_at(at, &mut bytes)?;
            let sum = page::sum(number as u32, &bytes);
            let header = Page(&bytes).header();
            if sum != block.crc || header.kind != kind::MAP {
                let what = format!("block {number} of the page map is not what was written");
                return Err(Error::damaged("pages", at, what));
            }
            let (slots, _) = bytes[PAGE_HEADER..].as_chunks::<4>();
            map.extend(slots.iter().map(|slot| u32::from_le_bytes(*slot)));
        }
        if map.len() < pages {
            let what = "the page map has too few blocks";
            return Err(Error::damaged("pages", 0, what));
        }
        map.truncate(pages);
        Ok(map)
    }
}

fn map_block(number: usize, slots: &[u32], page_bytes: usize) -> Vec<u8> {
    assert!(slots.len() <= entries(page_bytes));
    let mut bytes = vec![0; page_bytes];
    let mut page = PageMut(&mut bytes);
    page.header().kind = kind::MAP;
    page.header().number = (number as u32).into();
    for (to, slot) in bytes[PAGE_HEADER..].chunks_exact_mut(4).zip(slots) {
        to.copy_from_slice(&slot.to_le_bytes());
    }
    let sum = page::sum(number as u32, &bytes);
    PageMut(&mut bytes).header().crc = sum.into();
    bytes
}

impl Pool {
    /// Writes cold pages out while more than half of the frames are dirty, so that those
    /// who need frames find clean ones.
    pub(crate) fn write_cold(&self) -> Result<()> {
        let limit = self.frames.len() / 2;
        let dirty = self.dirty();
        if dirty <= limit {
            return Ok(());
        }
        let cold = self
            .dirty_before(u64::MAX)
            .filter(|pin| pin.0.uses.load(Relaxed) == 0);
        for pin in cold.take(dirty - limit) {
            self.write_out(pin.0)?;
        }
        Ok(())
    }
}
