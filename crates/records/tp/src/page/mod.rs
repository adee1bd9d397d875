//! Pages: bytes, and what trees do within one. `docs/spec/records.md` has the format.
//!
//! Invariants:
//! - A page in memory has passed [`check`]: its fences and cells lie within it, so that
//!   the accessors need not look again. Changes out of the log are checked as they are
//!   applied ([`PageMut`] answers `false` where there is no room or no such cell).
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

/// The first bytes of a page.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PageHeader {
    /// CRC-32C of what lies behind it, seeded with the page's number.
    pub crc: U32,
    /// Its number.
    pub number: U32,
    /// LSN of the last record applied to it.
    pub lsn: U64,
    /// The table.
    pub table: U32,
    /// [`kind`].
    pub kind: u8,
    /// 0 for leaves.
    pub level: u8,
    /// Cells.
    pub count: U16,
    /// Right neighbour; of a free page or one of a chain the next; 0: none.
    pub right: U32,
    /// Where cells begin.
    pub cells: U16,
    /// Bytes of cells that are no longer used.
    pub garbage: U16,
    /// Where the low fence lies, and its bytes.
    pub low: U16,
    /// Bytes of the low fence.
    pub low_length: U16,
    /// Where the high fence lies; 0: infinity.
    pub high: U16,
    /// Bytes of the high fence.
    pub high_length: U16,
}

/// Bytes of a [`PageHeader`].
pub(crate) const PAGE_HEADER: usize = 40;
const _: () = assert!(size_of::<PageHeader>() == PAGE_HEADER);

/// What a page is.
pub(crate) mod kind {
    pub(crate) const META: u8 = 1;
    pub(crate) const LEAF: u8 = 2;
    pub(crate) const INNER: u8 = 3;
    pub(crate) const OVERFLOW: u8 = 4;
    pub(crate) const MAP: u8 = 5;
    pub(crate) const FREE: u8 = 6;
}

/// The page that says how many there are, and which are free.
pub(crate) const META_PAGE: u32 = 0;
/// The root of the catalog.
pub(crate) const CATALOG_ROOT: u32 = 1;

/// A page that is read.
#[derive(Clone, Copy)]
pub(crate) struct Page<'a>(pub &'a [u8]);

/// A page that is changed.
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

    /// True for a page of this table's tree, at this level.
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

    /// Two numbers that the meta page holds: pages there are, and the first free one.
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

    /// An empty page of a tree.
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

/// The checksum of a page as it is stored.
pub(crate) fn sum(number: u32, bytes: &[u8]) -> u32 {
    crate::checksum(number, &bytes[4..])
}

/// Longest key that a tree has as it is, for this size of a page: four entries fit into an
/// inner page. One byte more has the key of a bundle.
pub(crate) fn longest_key(page_bytes: usize) -> usize {
    page_bytes / 8
}

/// Longest value that is kept in a leaf.
pub(crate) fn longest_inline(page_bytes: usize) -> usize {
    page_bytes / 4 - longest_key(page_bytes) / 2
}
