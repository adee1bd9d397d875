//! Images of pages in log records, without the gap, and pages of large values.

use super::{PAGE_HEADER, Page, PageMut, check, kind};

/// A packed page: the bytes before its gap, and those behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image<'a> {
    pub front: &'a [u8],
    pub back: &'a [u8],
}

impl<'a> Image<'a> {
    /// Returns the image of a page that was packed.
    pub(crate) fn of(page: &'a [u8]) -> Self {
        let header = Page(page).header();
        let front = PAGE_HEADER + 2 * usize::from(header.count.get());
        Image {
            front: &page[..front],
            back: &page[usize::from(header.cells.get())..],
        }
    }

    /// Makes a page of the image that keeps its own number. Returns false if the image is
    /// invalid.
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

    /// Returns the image of a page of any kind as it is, for
    /// [`restore_whole`](Self::restore_whole).
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

    /// Makes page `number` of the image, with its former LSN. Returns false if the image
    /// is invalid.
    #[must_use]
    pub(crate) fn restore_whole(self, number: u32, to: &mut [u8]) -> bool {
        self.unpack(to) && Page(to).header().number.get() == number && check(to).is_ok()
    }

    /// Restores the bytes, with a gap of zeros. Returns false if they are not those of a
    /// page.
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

/// Returns the bytes of a value that a page of a chain can store.
pub(crate) fn overflow_room(page_bytes: usize) -> usize {
    page_bytes - PAGE_HEADER
}

impl<'a> Page<'a> {
    /// Returns the bytes stored in a page of a chain; the number shares the fields of the
    /// low fence.
    pub(crate) fn overflow_length(self) -> usize {
        let header = self.header();
        usize::from(header.low.get()) | usize::from(header.low_length.get()) << 16
    }

    pub(crate) fn overflow_bytes(self) -> &'a [u8] {
        &self.0[PAGE_HEADER..][..self.overflow_length()]
    }
}

impl PageMut<'_> {
    /// Formats a page of a chain.
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

    /// Formats a page of the free list, with the next page of the list.
    pub(crate) fn format_free(&mut self, next: u32) {
        self.format(0, 0);
        let header = self.header();
        header.kind = kind::FREE;
        header.right = next.into();
    }
}
