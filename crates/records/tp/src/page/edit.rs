//! Changes the cells of a page. A change that does not fit, or whose cell does not exist,
//! returns false.

use super::cells::{INNER_CELL, LEAF_CELL};
use super::{Cell, PAGE_HEADER, Page, PageMut};

impl PageMut<'_> {
    /// Returns the position of free space for `bytes` of cell data and `slots` more
    /// offsets; packs the page if necessary.
    fn take(&mut self, bytes: usize, slots: usize) -> Option<usize> {
        let page = self.page();
        if page.used() + bytes + 2 * slots > page.room() {
            return None;
        }
        let gap = |page: Page<'_>| {
            let end = PAGE_HEADER + 2 * (page.count() + slots);
            usize::from(page.header().cells.get()).checked_sub(end)
        };
        if gap(page).is_none_or(|gap| gap < bytes) {
            self.pack();
            if gap(self.page())? < bytes {
                return None;
            }
        }
        let at = usize::from(self.page().header().cells.get()) - bytes;
        self.header().cells = (at as u16).into();
        Some(at)
    }

    fn make_slot(&mut self, at: usize, cell: usize) {
        let count = self.page().count();
        let from = PAGE_HEADER + 2 * at;
        let to = PAGE_HEADER + 2 * count;
        self.0.copy_within(from..to, from + 2);
        self.0[from..from + 2].copy_from_slice(&(cell as u16).to_le_bytes());
        self.header().count = (count as u16 + 1).into();
    }

    /// Inserts a cell into a leaf.
    #[must_use]
    pub(crate) fn insert(&mut self, at: usize, key: &[u8], value: Cell<'_>) -> bool {
        if at > self.page().count() || self.page().header().level != 0 {
            return false;
        }
        let Some(cell) = self.take(LEAF_CELL + key.len() + value.bytes.len(), 1) else {
            return false;
        };
        self.0[cell..cell + 2].copy_from_slice(&(key.len() as u16).to_le_bytes());
        self.0[cell + 2..cell + 6].copy_from_slice(&value.length_field().to_le_bytes());
        let start = cell + LEAF_CELL;
        self.0[start..start + key.len()].copy_from_slice(key);
        self.0[start + key.len()..][..value.bytes.len()].copy_from_slice(value.bytes);
        self.make_slot(at, cell);
        true
    }

    /// Inserts an entry into an inner page.
    #[must_use]
    pub(crate) fn insert_child(&mut self, at: usize, key: &[u8], child: u32) -> bool {
        if at > self.page().count() || self.page().header().level == 0 {
            return false;
        }
        let Some(cell) = self.take(INNER_CELL + key.len(), 1) else {
            return false;
        };
        self.0[cell..cell + 2].copy_from_slice(&(key.len() as u16).to_le_bytes());
        self.0[cell + 2..cell + 6].copy_from_slice(&child.to_le_bytes());
        self.0[cell + INNER_CELL..][..key.len()].copy_from_slice(key);
        self.make_slot(at, cell);
        true
    }

    /// Removes a cell.
    #[must_use]
    pub(crate) fn remove(&mut self, at: usize) -> bool {
        let count = self.page().count();
        if at >= count {
            return false;
        }
        let length = self.page().cell_bytes(at).len();
        let garbage = self.page().header().garbage.get() + length as u16;
        let from = PAGE_HEADER + 2 * (at + 1);
        let to = PAGE_HEADER + 2 * count;
        self.0.copy_within(from..to, from - 2);
        let header = self.header();
        header.count = (count as u16 - 1).into();
        header.garbage = garbage.into();
        true
    }

    /// Overwrites a part of a value.
    #[must_use]
    pub(crate) fn patch(&mut self, at: usize, offset: usize, bytes: &[u8]) -> bool {
        if at >= self.page().count() || self.page().header().level != 0 {
            return false;
        }
        let length = self.page().value(at).bytes.len();
        let start = self.page().value_start(at);
        if offset
            .checked_add(bytes.len())
            .is_none_or(|end| end > length)
        {
            return false;
        }
        self.0[start + offset..][..bytes.len()].copy_from_slice(bytes);
        true
    }

    /// Replaces the value of a key.
    #[must_use]
    pub(crate) fn replace(&mut self, at: usize, key: &[u8], value: Cell<'_>) -> bool {
        self.remove(at) && self.insert(at, key, value)
    }

    /// Keeps the first `count` cells, and sets the high fence and the right neighbour.
    #[must_use]
    pub(crate) fn cut(&mut self, count: usize, high: &[u8], right: u32) -> bool {
        if count > self.page().count() {
            return false;
        }
        let mut garbage = self.page().header().garbage.get();
        for at in count..self.page().count() {
            garbage += self.page().cell_bytes(at).len() as u16;
        }
        let header = self.header();
        header.count = (count as u16).into();
        header.garbage = garbage.into();
        header.right = right.into();
        self.set_high(Some(high))
    }

    /// Sets the high fence.
    #[must_use]
    pub(crate) fn set_high(&mut self, high: Option<&[u8]>) -> bool {
        let header = self.header();
        if header.high.get() != 0 {
            let garbage = header.garbage.get() + header.high_length.get();
            header.garbage = garbage.into();
        }
        (header.high, header.high_length) = (0.into(), 0.into());
        let Some(high) = high else {
            return true;
        };
        let Some(at) = self.take(high.len(), 0) else {
            return false;
        };
        self.0[at..at + high.len()].copy_from_slice(high);
        let header = self.header();
        header.high = (at as u16).into();
        header.high_length = (high.len() as u16).into();
        true
    }

    /// Sets the low fence of a new page.
    #[must_use]
    pub(crate) fn set_low(&mut self, low: &[u8]) -> bool {
        let Some(at) = self.take(low.len(), 0) else {
            return false;
        };
        self.0[at..at + low.len()].copy_from_slice(low);
        let header = self.header();
        header.low = (at as u16).into();
        header.low_length = (low.len() as u16).into();
        true
    }

    /// Appends the cells of a page of the same level, from `first` on.
    #[must_use]
    pub(crate) fn append_from(&mut self, from: Page<'_>, first: usize) -> bool {
        for at in first..from.count() {
            let bytes = from.cell_bytes(at);
            let Some(cell) = self.take(bytes.len(), 1) else {
                return false;
            };
            self.0[cell..cell + bytes.len()].copy_from_slice(bytes);
            let count = self.page().count();
            self.make_slot(count, cell);
        }
        true
    }

    /// Moves all cells together at the end, so that no bytes between them are lost.
    pub(crate) fn pack(&mut self) {
        let old = self.0.to_vec();
        let page = Page(&old);
        let mut end = self.0.len();
        let mut put = |to: &mut [u8], bytes: &[u8]| {
            end -= bytes.len();
            to[end..end + bytes.len()].copy_from_slice(bytes);
            end
        };
        let low = put(self.0, page.low());
        let high = page.high().map(|high| put(self.0, high));
        for at in 0..page.count() {
            let cell = put(self.0, page.cell_bytes(at));
            let slot = PAGE_HEADER + 2 * at;
            self.0[slot..slot + 2].copy_from_slice(&(cell as u16).to_le_bytes());
        }
        let header = self.header();
        header.low = (low as u16).into();
        header.high = (high.unwrap_or(0) as u16).into();
        header.cells = (end as u16).into();
        header.garbage = 0.into();
    }
}
