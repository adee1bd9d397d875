//! A page in a record of the log, without its gap; and pages of large values.

use super::{PAGE_HEADER, Page, PageMut, check, kind};

/// A packed page: what lies before its gap, and what behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image<'a> {
    pub front: &'a [u8],
    pub back: &'a [u8],
}

impl<'a> Image<'a> {
    /// Of a page that has been packed.
    pub(crate) fn of(page: &'a [u8]) -> Self {
        let header = Page(page).header();
        let front = PAGE_HEADER + 2 * usize::from(header.count.get());
        Image {
            front: &page[..front],
            back: &page[usize::from(header.cells.get())..],
        }
    }

    /// Makes a page of it that keeps its own number. False if it is none.
    #[must_use]
    pub(crate) fn restore(self, to: &mut [u8]) -> bool {
        let number = Page(to).header().number;
        let lsn = Page(to).header().lsn;
        if !self.unpack(to) {
            return false;
        }
        let back = to.len() - self.back.len();
        let mut page = PageMut(to);
        (page.header().number, page.header().lsn) = (number, lsn);
        usize::from(page.page().header().cells.get()) == back && check(page.0).is_ok()
    }

    /// Of a page of any kind as it is, for [`restore_whole`](Self::restore_whole).
    pub(crate) fn of_whole(page: &'a [u8]) -> Self {
        let header = Page(page).header();
        if matches!(header.kind, kind::LEAF | kind::INNER) {
            return Image::of(page);
        }
        let end = page.iter().rposition(|byte| *byte != 0);
        Image {
            front: &page[..end.map_or(PAGE_HEADER, |end| (end + 1).max(PAGE_HEADER))],
            back: &[],
        }
    }

    /// Makes the page `number` of it, with the LSN that it had. False if it is none.
    #[must_use]
    pub(crate) fn restore_whole(self, number: u32, to: &mut [u8]) -> bool {
        self.unpack(to) && Page(to).header().number.get() == number && check(to).is_ok()
    }

    /// The bytes as they were, with a gap of zeros. False if they are no page's.
    #[must_use]
    fn unpack(self, to: &mut [u8]) -> bool {
        let length = self.front.len() + self.back.len();
        if self.front.len() < PAGE_HEADER || length > to.len() {
            return false;
        }
        let back = to.len() - self.back.len();
        to.fill(0);
        to[..self.front.len()].copy_from_slice(self.front);
        to[back..].copy_from_slice(self.back);
        true
    }
}

/// Bytes of a value that a page of a chain holds.
pub(crate) fn overflow_room(page_bytes: usize) -> usize {
    page_bytes - PAGE_HEADER
}

impl<'a> Page<'a> {
    /// Bytes that a page of a chain holds; they share the fields of the low fence.
    pub(crate) fn overflow_length(self) -> usize {
        let header = self.header();
        usize::from(header.low.get()) | usize::from(header.low_length.get()) << 16
    }

    pub(crate) fn overflow_bytes(self) -> &'a [u8] {
        &self.0[PAGE_HEADER..][..self.overflow_length()]
    }
}

impl PageMut<'_> {
    /// A page of a chain.
    #[must_use]
    pub(crate) fn format_overflow(&mut self, bytes: &[u8], next: u32) -> bool {
        if bytes.len() > overflow_room(self.0.len()) {
            return false;
        }
        self.format(0, 0);
        let header = self.header();
        header.kind = kind::OVERFLOW;
        header.cells = 0.into();
        header.right = next.into();
        header.low = (bytes.len() as u16).into();
        self.0[PAGE_HEADER..][..bytes.len()].copy_from_slice(bytes);
        true
    }

    /// A page of the free list, and what comes behind it.
    pub(crate) fn format_free(&mut self, next: u32) {
        self.format(0, 0);
        let header = self.header();
        header.kind = kind::FREE;
        header.right = next.into();
    }
}
