//! The map of shadow slots in a checkpoint.

use super::Pool;
use super::slots::{Captured, MapBlock, Slots, entries};
use crate::error::{Error, Result};
use crate::page::{self, PAGE_HEADER, Page, PageMut, kind};
use varve_device::sync::atomic::Ordering::Relaxed;

impl Pool {
    /// Returns the present map; in place it is empty. The caller must then call
    /// [`checkpoint_completed`](Self::checkpoint_completed) or
    /// [`checkpoint_failed`](Self::checkpoint_failed).
    pub(crate) fn capture(&self) -> Captured {
        self.layout.lock().capture()
    }

    /// Writes the changed blocks of a captured map, not durably. Adds the slots that they
    /// use to `taken`, also on failure.
    pub(crate) fn write_map(&self, captured: &mut Captured, taken: &mut Vec<u32>) -> Result<()> {
        for (block, slots) in &captured.changed {
            let bytes = map_block(*block, slots, self.page_bytes);
            let slot = self.layout.lock().shadow().map(Slots::allocate);
            let slot = slot.expect("only shadow slots have a map");
            taken.push(slot);
            self.file.write_at(self.offset(slot), &bytes)?;
            self.writes.fetch_add(1, Relaxed);
            if let Some(slots) = self.layout.lock().shadow() {
                slots.block_written(slot);
            }
            let crc = Page(&bytes).header().crc.get();
            captured.blocks[*block] = MapBlock { slot, crc };
        }
        Ok(())
    }

    pub(crate) fn checkpoint_completed(&self, captured: Captured) {
        if let Some(slots) = self.layout.lock().shadow() {
            slots.completed(captured);
        }
    }

    pub(crate) fn checkpoint_failed(&self, captured: &Captured, taken: &[u32]) {
        if let Some(slots) = self.layout.lock().shadow() {
            slots.failed(captured, taken);
        }
    }

    /// Returns the slots of `pages` pages from the blocks of a checkpoint's map.
    pub(crate) fn read_map(&self, blocks: &[MapBlock], pages: usize) -> Result<Vec<u32>> {
        let mut map = Vec::new();
        let mut bytes = vec![0; self.page_bytes];
        for (number, block) in blocks.iter().enumerate() {
            let at = self.offset(block.slot);
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

/// Returns the bytes of a block of a map.
pub(crate) fn map_block(number: usize, slots: &[u32], page_bytes: usize) -> Vec<u8> {
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
