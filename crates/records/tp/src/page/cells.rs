//! Reads the cells of leaves and inner pages.

use super::{PAGE_HEADER, Page};
use std::cmp::Ordering;

/// The highest bit of a value's length: the value is an overflow descriptor.
pub(crate) const OVERFLOW: u32 = 1 << 31;
/// Bytes before the key of a leaf's cell.
pub(super) const LEAF_CELL: usize = 6;
/// Bytes before the key of an inner page's cell.
pub(super) const INNER_CELL: usize = 6;

/// A value in the form of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell<'a> {
    /// True if the bytes are a descriptor of the value.
    pub overflow: bool,
    pub bytes: &'a [u8],
}

impl<'a> Cell<'a> {
    pub(crate) fn length_field(self) -> u32 {
        self.bytes.len() as u32 | if self.overflow { OVERFLOW } else { 0 }
    }
}

/// Result of a search for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    At(usize),
    /// The key is missing; this is the position at which it would be inserted.
    Missing(usize),
}

/// Compares two keys byte by byte. The first eight bytes usually decide, without a call.
#[inline]
pub(crate) fn order(one: &[u8], other: &[u8]) -> Ordering {
    head(one).cmp(&head(other)).then_with(|| one.cmp(other))
}

/// Returns the first eight bytes as a number, padded with zeros. A key that sorts later
/// never has a smaller one.
#[inline]
fn head(key: &[u8]) -> u64 {
    let of_four = |bytes: &[u8; 4]| u64::from(u32::from_be_bytes(*bytes));
    if let Some(first) = key.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    match (key.first_chunk(), key.last_chunk()) {
        (Some(first), Some(last)) => {
            let behind = 8 * (8 - key.len());
            of_four(first) << 32 | of_four(last) << behind
        }
        _ => (0..).zip(key).fold(0, |head, (at, &byte)| {
            head | u64::from(byte) << (56 - 8 * at)
        }),
    }
}

impl<'a> Page<'a> {
    #[inline]
    pub(super) fn slot(self, at: usize) -> usize {
        let at = PAGE_HEADER + 2 * at;
        usize::from(u16::from_le_bytes([self.0[at], self.0[at + 1]]))
    }

    #[inline]
    fn u32_at(self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("4 bytes"))
    }

    #[inline]
    fn key_length(self, cell: usize) -> usize {
        usize::from(u16::from_le_bytes([self.0[cell], self.0[cell + 1]]))
    }

    /// Returns the key at a position, for leaves and inner pages.
    #[inline]
    pub(crate) fn key(self, at: usize) -> &'a [u8] {
        let cell = self.slot(at);
        let length = self.key_length(cell);
        &self.0[cell + LEAF_CELL..][..length]
    }

    /// Returns the beginning of the value of a leaf's cell, and its length field.
    fn value_at(self, at: usize) -> (usize, u32) {
        let cell = self.slot(at);
        let length = self.u32_at(cell + 2);
        (cell + LEAF_CELL + self.key_length(cell), length)
    }

    #[inline]
    pub(crate) fn value(self, at: usize) -> Cell<'a> {
        let (start, length) = self.value_at(at);
        Cell {
            overflow: length & OVERFLOW != 0,
            bytes: &self.0[start..][..(length & !OVERFLOW) as usize],
        }
    }

    pub(super) fn value_start(self, at: usize) -> usize {
        self.value_at(at).0
    }

    #[inline]
    pub(crate) fn child(self, at: usize) -> u32 {
        self.u32_at(self.slot(at) + 2)
    }

    /// Returns the bytes of the cell at a position.
    pub(crate) fn cell_bytes(self, at: usize) -> &'a [u8] {
        let cell = self.slot(at);
        let mut length = LEAF_CELL + self.key_length(cell);
        if self.header().level == 0 {
            length += (self.u32_at(cell + 2) & !OVERFLOW) as usize;
        }
        &self.0[cell..cell + length]
    }

    /// Finds a key by binary search.
    #[inline]
    pub(crate) fn search(self, key: &[u8]) -> Found {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = (low + high) / 2;
            match order(self.key(middle), key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Found::At(middle),
                Ordering::Greater => high = middle,
            }
        }
        Found::Missing(low)
    }

    /// Returns the position of the inner page's entry to which a key belongs.
    #[inline]
    pub(crate) fn entry_for(self, key: &[u8]) -> usize {
        match self.search(key) {
            Found::At(at) => at,
            Found::Missing(at) => at.saturating_sub(1),
        }
    }

    /// Returns the bytes that cells, their offsets and fences take. Redo also asks pages
    /// that a damaged record may have made, so no field is trusted.
    pub(crate) fn used(self) -> usize {
        let header = self.header();
        let cells = self.0.len().saturating_sub(header.cells.get().into());
        cells.saturating_sub(header.garbage.get().into()) + 2 * self.count()
    }

    /// Returns the bytes available for cells, offsets and fences.
    pub(crate) fn room(self) -> usize {
        self.0.len() - PAGE_HEADER
    }

    /// Returns true if a cell with these bytes of key and value fits after the page is
    /// packed.
    #[inline]
    pub(crate) fn fits(self, key: usize, value: usize) -> bool {
        self.used() + LEAF_CELL + key + value + 2 <= self.room()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_slices_are() {
        let bytes = [0, 1, 127, 128, 255];
        let mut keys = vec![Vec::new()];
        for length in 1..12 {
            for (at, byte) in (0..length).flat_map(|at| bytes.map(|byte| (at, byte))) {
                for around in bytes {
                    let mut key = vec![around; length];
                    key[at] = byte;
                    keys.push(key);
                }
            }
        }
        for one in &keys {
            for other in &keys {
                assert_eq!(order(one, other), one.cmp(other), "{one:?} {other:?}");
            }
        }
    }
}
