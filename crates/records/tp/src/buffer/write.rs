//! Writes pages out, in batches, and the map for a checkpoint.

use super::frame::{Content, Frame, NO_PAGE, Pin};
use super::layout::Layout;
use super::{CLEAN, Pool};
use crate::change::Change;
use crate::error::Result;
use crate::log::format::RecordHeader;
use crate::log::{Draft, Lsn};
use crate::page::{self, Image, Page, PageMut};
use crate::planted::{self, Planted};
use varve_device::sync::atomic::Ordering::*;
use varve_device::sync::{MutexGuard, RwLockReadGuard};

/// Bytes of pages after which they are synced.
const SYNCED_BYTES: usize = 1 << 20;

/// A page that is being written, as it was under its latch. If the write fails, its frame
/// remains as dirty as before.
struct Writing<'a> {
    frame: &'a Frame,
    _alone: MutexGuard<'a, ()>,
    page: u32,
    bytes: Box<[u8]>,
    /// LSN up to which the log must be durable before the write.
    logged: Lsn,
    written: bool,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !self.written {
            let first = self.frame.writing.load(SeqCst);
            self.frame.first.fetch_min(first, SeqCst);
        }
        self.frame.writing.store(CLEAN, SeqCst);
    }
}

impl Pool {
    /// Writes a pinned frame out if it is dirty. It waits for the latch, so the caller
    /// must not own one.
    fn write_out(&self, frame: &Frame) -> Result<()> {
        let alone = frame.writer.lock();
        let begun = self.begin(frame, alone, frame.latch.read())?;
        self.finish(begun.into_iter().collect())
    }

    /// Writes out the dirty ones of pinned frames without waiting for their latches,
    /// because a caller that needs a frame may own latches for which other threads wait.
    pub(super) fn try_write_out<'a>(
        &self,
        pins: impl IntoIterator<Item = &'a Pin<'a>>,
    ) -> Result<()> {
        let mut begun = Vec::new();
        for pin in pins {
            let Some(alone) = pin.0.writer.try_lock() else {
                continue;
            };
            if let Some(content) = pin.0.latch.try_read() {
                begun.extend(self.begin(pin.0, alone, content)?);
            }
        }
        self.finish(begun)
    }

    fn begin<'a>(
        &self,
        frame: &'a Frame,
        alone: MutexGuard<'a, ()>,
        content: RwLockReadGuard<'_, Content>,
    ) -> Result<Option<Writing<'a>>> {
        let first = frame.first.load(SeqCst);
        if first == CLEAN {
            return Ok(None);
        }
        let page = frame.page.load(SeqCst);
        let logged = self.log_before(page, &content.bytes)?;
        frame.writing.store(first, SeqCst);
        frame.first.store(CLEAN, SeqCst);
        Ok(Some(Writing {
            frame,
            _alone: alone,
            page,
            bytes: content.bytes[..].into(),
            logged,
            written: false,
        }))
    }

    /// Appends the image that must be in the log before a latched page is written.
    /// Returns the LSN up to which the log must be durable (rules I1 and I3).
    fn log_before(&self, page: u32, bytes: &[u8]) -> Result<Lsn> {
        let image = match &*self.layout.lock() {
            // Only the checkpoint makes slots valid, and it flushes the log.
            Layout::Shadow(_) => return Ok(Lsn::NONE),
            Layout::InPlace(in_place) => in_place.image(page),
        };
        if let Some(image) = image {
            // The image may have been appended by a thread whose flush failed.
            return Ok(Lsn(Page(bytes).lsn()).max(image));
        }
        let mut draft = Draft::new();
        let image = Image::of_whole(bytes);
        let kind = Change::Image { page, image }.encode(draft.clear());
        draft.seal(RecordHeader::of_nobody(
            kind,
            Page(bytes).header().table.get(),
        ));
        let lsn = self.log.append(&draft)?;
        self.images.fetch_add(1, Relaxed);
        if let Some(in_place) = self.layout.lock().in_place() {
            in_place.imaged(page, lsn);
        }
        Ok(lsn)
    }

    /// Writes in the order of the pages' numbers. After a failure the other pages are
    /// still written.
    fn finish(&self, mut begun: Vec<Writing<'_>>) -> Result<()> {
        let logged = begun.iter().map(|writing| writing.logged).max();
        let logged = logged.unwrap_or(Lsn::NONE);
        if logged != Lsn::NONE && !planted::is(Planted::PageBeforeLog) {
            self.log.flush_now(logged)?;
        }
        begun.sort_by_key(|writing| writing.page);
        let mut result = Ok(());
        for writing in &mut begun {
            let sum = page::sum(writing.page, &writing.bytes);
            PageMut(&mut writing.bytes).header().crc = sum.into();
            match self.write_page(writing.page, &writing.bytes) {
                Ok(()) => writing.written = true,
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    fn write_page(&self, page: u32, bytes: &[u8]) -> Result<()> {
        let slot = self.layout.lock().slot_to_write(page);
        let written = self.file.write_at(self.offset(slot), bytes);
        self.layout.lock().written(page, slot, written.is_ok());
        self.writes.fetch_add(1, Relaxed);
        written
    }

    /// Writes out the pages whose first change precedes `lsn` and the log's present end.
    pub(crate) fn write_before(&self, lsn: u64) -> Result<()> {
        let lsn = lsn.min(self.log.end().0);
        let before = |frame: &Frame| frame.first.load(SeqCst) < lsn;
        let mut unsynced = 0;
        for pages in self.pages_of(usize::MAX, before).chunks(self.batch) {
            self.sync_some(&mut unsynced, pages.len())?;
            let _several = self.batching.lock();
            let pins: Vec<Pin<'_>> = pages.iter().filter_map(|page| self.held(*page)).collect();
            self.try_write_out(&pins)?;
            // The remaining pages were latched by other threads.
            let rest = pins.iter().filter(|pin| before(pin.0));
            rest.map(|pin| pin.0)
                .try_for_each(|frame| self.write_out(frame))?;
        }
        Ok(())
    }

    /// Syncs earlier pages if they are many, before `pages` more are written. A
    /// concurrent commit waits at the disk for these only, not for all.
    fn sync_some(&self, unsynced: &mut usize, pages: usize) -> Result<()> {
        *unsynced += pages * self.page_bytes;
        if *unsynced < SYNCED_BYTES {
            return Ok(());
        }
        *unsynced = 0;
        // The content of the medium is unknown if the sync fails.
        self.sync().inspect_err(|error| self.log.poison(error))
    }

    /// Writes cold pages out while more than half of the frames are dirty, so that
    /// threads that need frames find clean ones. Frames are not counted again if nothing
    /// was logged since, because counting reads a line of memory for each.
    pub(crate) fn write_cold(&self) -> Result<()> {
        let end = self.log.end().0;
        if self.few_dirty_at.load(Relaxed) == end {
            return Ok(());
        }
        let spare = self.dirty().saturating_sub(self.frames.len() / 2);
        if spare == 0 {
            self.few_dirty_at.store(end, Relaxed);
            return Ok(());
        }
        let cold =
            |frame: &Frame| frame.first.load(SeqCst) != CLEAN && frame.uses.load(Relaxed) == 0;
        let mut unsynced = 0;
        for pages in self.pages_of(spare, cold).chunks(self.batch) {
            self.sync_some(&mut unsynced, pages.len())?;
            let _several = self.batching.lock();
            let pins: Vec<Pin<'_>> = pages.iter().filter_map(|page| self.held(*page)).collect();
            self.try_write_out(&pins)?;
        }
        Ok(())
    }

    /// Begins a checkpoint at `begin`. Returns the least LSN of a change that the slots
    /// lack at this moment or later.
    pub(crate) fn begin_checkpoint(&self, begin: Lsn) -> Lsn {
        if let Some(in_place) = self.layout.lock().in_place() {
            in_place.begin_checkpoint(begin);
        }
        self.oldest_change().min(begin)
    }

    /// Returns the LSN of the oldest change in a dirty frame, after all running writes
    /// have returned.
    fn oldest_change(&self) -> Lsn {
        let mut oldest = CLEAN;
        for frame in &self.frames {
            if frame.page.load(SeqCst) != NO_PAGE {
                let _written = frame.writer.lock();
                let _latched = frame.latch.read();
                oldest = oldest.min(frame.first.load(SeqCst));
            }
        }
        Lsn(oldest)
    }
}
