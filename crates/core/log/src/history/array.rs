//! Sorted arrays of entries of one size, in blocks of the history file.

use crate::error::Result;
use std::sync::Arc;
use varve_device::Block;

/// Reads blocks of the history file.
pub(crate) trait Pages {
    /// Block `block` of the file.
    ///
    /// # Errors
    /// If it is missing or damaged.
    fn page(&self, block: u64) -> Result<Arc<Block>>;

    /// Bytes of a block.
    fn page_bytes(&self) -> usize;
}

/// An array whose entries have `entry_bytes` each, one after the other from the start of
/// a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array {
    pub first_block: u64,
    pub count: u64,
    pub entry_bytes: usize,
}

/// Reads entries of an array, and keeps the block that it read last.
pub(crate) struct ArrayCursor<'a> {
    array: Array,
    pages: &'a dyn Pages,
    page: Option<(u64, Arc<Block>)>,
    next: u64,
    entry: Vec<u8>,
}

impl ArrayCursor<'_> {
    fn page(&mut self, number: u64) -> Result<Arc<Block>> {
        if let Some((at, page)) = &self.page
            && *at == number
        {
            return Ok(Arc::clone(page));
        }
        let page = self.pages.page(self.array.first_block + number)?;
        self.page = Some((number, Arc::clone(&page)));
        Ok(page)
    }

    /// Entry `number`. One that crosses the end of a block is put together.
    fn get(&mut self, number: u64) -> Result<&[u8]> {
        let (page_bytes, length) = (self.pages.page_bytes(), self.array.entry_bytes);
        let byte = number * length as u64;
        let mut at = byte / page_bytes as u64;
        let mut start = (byte % page_bytes as u64) as usize;
        self.entry.clear();
        while self.entry.len() < length {
            let page = self.page(at)?;
            let wanted = length - self.entry.len();
            let here = &page[start.min(page.len())..page.len().min(start + wanted)];
            self.entry.extend_from_slice(here);
            if here.len() < wanted && page.len() < page_bytes {
                self.entry.resize(length, 0); // the block is stored without its zeros
            }
            (at, start) = (at + 1, 0);
        }
        Ok(&self.entry)
    }

    /// The next entry, from the one that the cursor was set to.
    ///
    /// # Errors
    /// As [`Pages::page`].
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        if self.next >= self.array.count {
            return Ok(None);
        }
        self.next += 1;
        self.get(self.next - 1).map(Some)
    }
}

impl Array {
    /// Blocks that it takes.
    pub fn pages(&self, page_bytes: usize) -> u64 {
        (self.count * self.entry_bytes as u64).div_ceil(page_bytes as u64)
    }

    /// Reads from entry `from` on.
    pub fn cursor<'a>(&self, pages: &'a dyn Pages, from: u64) -> ArrayCursor<'a> {
        ArrayCursor {
            array: *self,
            pages,
            page: None,
            next: from,
            entry: Vec::new(),
        }
    }

    /// A cursor at the first entry for which `is_before` is false; it is true of all
    /// entries before that one and false of all behind. Reads about one block for each
    /// halving, until the entries of one block are left.
    ///
    /// # Errors
    /// As [`Pages::page`], and what `is_before` fails with.
    pub fn seek<'a>(
        &self,
        pages: &'a dyn Pages,
        is_before: impl Fn(&[u8]) -> Result<bool>,
    ) -> Result<ArrayCursor<'a>> {
        let mut cursor = self.cursor(pages, 0);
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match is_before(cursor.get(middle)?)? {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        cursor.next = low;
        Ok(cursor)
    }
}
