//! Pages: their bytes, and the operations of trees within one page. The format is in
//! `docs/spec/records.md`.
//!
//! Invariants:
//! - A page in memory has passed [`check`]: its fences and cells are within it, so that
//!   the accessors need not check again. Changes from the log are checked as they are
//!   applied ([`PageMut`] returns false if there is no space or no such cell).
//! - Cells are in the order of their keys, and `low <= key < high`.

mod cells;
mod check;
mod edit;
mod image;

pub(crate) use cells::{Cell, Found, OVERFLOW, order};
pub use check::check;
pub(crate) use image::{Image, overflow_room};

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Header of a page.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PageHeader {
    /// CRC-32C of the bytes behind it, seeded with the page's number.
    pub crc: U32,
    /// Number of the page.
    pub number: U32,
    /// LSN of the last record applied to it.
    pub lsn: U64,
    /// Number of the table.
    pub table: U32,
    /// One of [`kind`].
    pub kind: u8,
    /// Level; 0 for leaves.
    pub level: u8,
    /// Number of cells.
    pub count: U16,
    /// Right neighbour; for a free page or one of a chain the next page; 0 for none.
    pub right: U32,
    /// Offset at which the cells begin.
    pub cells: U16,
    /// Bytes of cells that are no longer used.
    pub garbage: U16,
    /// Offset of the low fence.
    pub low: U16,
    /// Bytes of the low fence.
    pub low_length: U16,
    /// Offset of the high fence; 0 for infinity.
    pub high: U16,
    /// Bytes of the high fence.
    pub high_length: U16,
}

/// Bytes of a [`PageHeader`].
pub(crate) const PAGE_HEADER: usize = 40;
const _: () = assert!(size_of::<PageHeader>() == PAGE_HEADER);

/// Kinds of pages.
pub(crate) mod kind {
    pub(crate) const META: u8 = 1;
    pub(crate) const LEAF: u8 = 2;
    pub(crate) const INNER: u8 = 3;
    pub(crate) const OVERFLOW: u8 = 4;
    pub(crate) const MAP: u8 = 5;
    pub(crate) const FREE: u8 = 6;
}

/// The page with the number of pages and the head of the free list.
pub(crate) const META_PAGE: u32 = 0;
/// The root of the catalog.
pub(crate) const CATALOG_ROOT: u32 = 1;

/// A page for reading.
#[derive(Clone, Copy)]
pub(crate) struct Page<'a>(pub &'a [u8]);

/// A page for changing.
pub(crate) struct PageMut<'a>(pub &'a mut [u8]);

impl<'a> Page<'a> {
    #[inline]
    pub(crate) fn header(self) -> &'a PageHeader {
        PageHeader::ref_from_prefix(self.0)
            .expect("a page is larger")
            .0
    }

    #[inline]
    pub(crate) fn lsn(self) -> u64 {
        self.header().lsn.get()
    }

    #[inline]
    pub(crate) fn count(self) -> usize {
        self.header().count.get().into()
    }

    /// Returns true for a page of this table's tree, at any level.
    #[inline]
    pub(crate) fn is_of_tree(self, table: u32) -> bool {
        let header = self.header();
        header.table.get() == table && matches!(header.kind, kind::LEAF | kind::INNER)
    }

    #[inline]
    pub(crate) fn low(self) -> &'a [u8] {
        let header = self.header();
        let (at, length) = (header.low.get() as usize, header.low_length.get() as usize);
        &self.0[at..at + length]
    }

    #[inline]
    pub(crate) fn high(self) -> Option<&'a [u8]> {
        let header = self.header();
        let (at, length) = (
            header.high.get() as usize,
            header.high_length.get() as usize,
        );
        (at != 0).then(|| &self.0[at..at + length])
    }

    /// Returns the two numbers in the meta page: the number of pages, and the first free
    /// one.
    pub(crate) fn meta(self) -> (u32, u32) {
        let at = |at: usize| u32::from_le_bytes(self.0[at..at + 4].try_into().expect("4 bytes"));
        (at(PAGE_HEADER), at(PAGE_HEADER + 4))
    }
}

impl PageMut<'_> {
    #[inline]
    pub(crate) fn page(&self) -> Page<'_> {
        Page(self.0)
    }

    #[inline]
    pub(crate) fn header(&mut self) -> &mut PageHeader {
        PageHeader::mut_from_prefix(self.0)
            .expect("a page is larger")
            .0
    }

    pub(crate) fn set_meta(&mut self, count: u32, free: u32) {
        self.header().kind = kind::META;
        self.0[PAGE_HEADER..PAGE_HEADER + 4].copy_from_slice(&count.to_le_bytes());
        self.0[PAGE_HEADER + 4..PAGE_HEADER + 8].copy_from_slice(&free.to_le_bytes());
    }

    /// Formats an empty page of a tree.
    pub(crate) fn format(&mut self, table: u32, level: u8) {
        let (number, lsn) = (self.page().header().number, self.page().header().lsn);
        let size = self.0.len() as u16;
        self.0.fill(0);
        let header = self.header();
        (header.number, header.lsn) = (number, lsn);
        header.table = table.into();
        header.kind = if level == 0 { kind::LEAF } else { kind::INNER };
        header.level = level;
        header.cells = size.into();
        header.low = size.into();
    }
}

/// Returns the checksum of a page as it is stored.
pub(crate) fn sum(number: u32, bytes: &[u8]) -> u32 {
    crate::checksum(number, &bytes[4..])
}

/// Returns the length of the longest key that a tree stores unchanged, for this page
/// size: four entries fit into an inner page. The key of a bundle has one byte more.
pub(crate) fn longest_key(page_bytes: usize) -> usize {
    page_bytes / 8
}

/// Returns the length of the longest value that is stored in a leaf.
pub(crate) fn longest_inline(page_bytes: usize) -> usize {
    page_bytes / 4 - longest_key(page_bytes) / 2
}
