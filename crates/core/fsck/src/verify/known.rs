//! The verification's record of inodes: bits for all, link counts for a window.

use varve_fs::FileKind;

/// Number of inodes whose link counts are compared in one pass over the directories, in 5
/// MiB. Larger volumes take several passes.
pub const WINDOW: u64 = if cfg!(test) { 64 } else { 1 << 20 };

/// A set of inode numbers.
#[derive(Clone, Debug, Default)]
pub struct Bits(Vec<u64>);

impl Bits {
    pub fn insert(&mut self, number: u64) {
        let word = (number / 64) as usize;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (number % 64);
    }

    pub fn contains(&self, number: u64) -> bool {
        let word = self.0.get((number / 64) as usize).copied().unwrap_or(0);
        word & 1 << (number % 64) != 0
    }

    /// Returns the first member at or behind `from`.
    pub fn next(&self, from: u64) -> Option<u64> {
        let first = (from / 64) as usize;
        (first..self.0.len()).find_map(|word| {
            let mut bits = self.0[word];
            if word == first {
                bits &= u64::MAX << (from % 64);
            }
            (bits != 0).then(|| word as u64 * 64 + u64::from(bits.trailing_zeros()))
        })
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

const KIND: u8 = 0x0f;
const DAMAGED: u8 = 0x10;
const NAMED: u8 = 0x20;

/// Kinds and missing names of the inodes in a range of numbers.
#[derive(Debug)]
pub struct Known {
    first: u64,
    /// Link counts minus the names found, modulo 2^32.
    left: Vec<u32>,
    marks: Vec<u8>,
}

impl Known {
    /// Returns a record of the numbers from `first`, below `end`.
    pub fn new(first: u64, end: u64) -> Self {
        let count = end.saturating_sub(first).min(WINDOW) as usize;
        Known {
            first,
            left: vec![0; count],
            marks: vec![0; count],
        }
    }

    fn at(&self, ino: u64) -> Option<usize> {
        let at = usize::try_from(ino.checked_sub(self.first)?).ok()?;
        (at < self.marks.len()).then_some(at)
    }

    pub fn covers(&self, ino: u64) -> bool {
        self.at(ino).is_some()
    }

    /// Returns the first number behind the range.
    pub fn end(&self) -> u64 {
        self.first + self.marks.len() as u64
    }

    pub fn numbers(&self) -> std::ops::Range<u64> {
        self.first..self.end()
    }

    /// Records an inode with its link count.
    pub fn insert(&mut self, ino: u64, kind: FileKind, links: u32) {
        if let Some(at) = self.at(ino) {
            self.marks[at] = kind as u8 & KIND;
            self.left[at] = links;
        }
    }

    /// Records an inode that exists and cannot be read.
    pub fn insert_damaged(&mut self, ino: u64) {
        if let Some(at) = self.at(ino) {
            self.marks[at] = DAMAGED;
        }
    }

    pub fn exists(&self, ino: u64) -> bool {
        self.at(ino).is_some_and(|at| self.marks[at] != 0)
    }

    pub fn kind(&self, ino: u64) -> Option<FileKind> {
        FileKind::from_raw(self.marks[self.at(ino)?] & KIND)
    }

    pub fn is_named(&self, ino: u64) -> bool {
        self.at(ino).is_some_and(|at| self.marks[at] & NAMED != 0)
    }

    pub fn set_named(&mut self, ino: u64) {
        if let Some(at) = self.at(ino) {
            self.marks[at] |= NAMED;
        }
    }

    /// Counts a name, or the `..` of a subdirectory.
    pub fn found_link(&mut self, ino: u64) {
        if let Some(at) = self.at(ino) {
            self.left[at] = self.left[at].wrapping_sub(1);
        }
    }

    /// Returns the link count minus the names found.
    pub fn left(&self, ino: u64) -> u32 {
        self.at(ino).map_or(0, |at| self.left[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_found_in_order() {
        let mut bits = Bits::default();
        for number in [0, 63, 64, 1000] {
            bits.insert(number);
        }
        assert!(bits.contains(64) && !bits.contains(65) && !bits.contains(1 << 40));
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(number) = bits.next(from) {
            found.push(number);
            from = number + 1;
        }
        assert_eq!(found, [0, 63, 64, 1000]);
        assert_eq!(bits.count(), 4);
    }

    #[test]
    fn a_window_knows_its_own_numbers_only() {
        let mut known = Known::new(100, 110);
        known.insert(105, FileKind::Regular, 2);
        known.insert(99, FileKind::Regular, 2);
        known.insert_damaged(106);
        known.found_link(105);
        assert_eq!((known.left(105), known.end()), (1, 110));
        assert_eq!(known.kind(105), Some(FileKind::Regular));
        assert!(known.exists(106) && known.kind(106).is_none());
        assert!(!known.exists(99) && !known.exists(107) && !known.covers(110));
    }
}
