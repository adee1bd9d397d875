//! Reference counts of inode numbers whose vnodes are not in memory.
//!
//! A kernel references every inode in its cache, easily millions. The counts are small
//! and the numbers dense, so each takes one byte, in pages.

use crate::hash::MixBuilder;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

const PAGE: u64 = 64;
/// Marks a count that is stored separately.
const LARGE: u8 = u8::MAX;

/// Counts by index; absent ones are 0.
#[derive(Default)]
pub(crate) struct ParkedCounts {
    pages: HashMap<u64, Box<[u8; PAGE as usize]>, MixBuilder>,
    large: HashMap<u64, u64, MixBuilder>,
}

impl ParkedCounts {
    /// Sets the count of `index`.
    pub fn set(&mut self, index: u64, count: u64) {
        self.large.remove(&index);
        let short = u8::try_from(count).unwrap_or(LARGE);
        if short == LARGE {
            self.large.insert(index, count);
        }
        let slot = (index % PAGE) as usize;
        match self.pages.entry(index / PAGE) {
            Entry::Vacant(_) if count == 0 => {}
            Entry::Vacant(page) => page.insert(Box::new([0; PAGE as usize]))[slot] = short,
            Entry::Occupied(mut page) => {
                page.get_mut()[slot] = short;
                if count == 0 && page.get().iter().all(|&count| count == 0) {
                    page.remove();
                }
            }
        }
    }

    /// The count of `index`.
    pub fn get(&self, index: u64) -> u64 {
        let page = self.pages.get(&(index / PAGE));
        match page.map_or(0, |page| page[(index % PAGE) as usize]) {
            LARGE => self.large[&index],
            short => short.into(),
        }
    }

    /// Resets the count of `index` to 0, and returns it.
    pub fn take(&mut self, index: u64) -> u64 {
        let count = self.get(index);
        if count > 0 {
            self.set(index, 0);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_every_size_come_back_and_leave_nothing() {
        let mut counts = ParkedCounts::default();
        let each = [1, 2, 254, 255, 256, u64::MAX];
        for (index, &count) in (60..).zip(&each) {
            counts.set(index, count);
        }
        assert_eq!(counts.get(59), 0);
        for (index, &count) in (60..).zip(&each) {
            assert_eq!(counts.get(index), count);
        }
        counts.set(65, 7);
        assert_eq!(counts.take(65), 7);
        for (index, &count) in (60..65).zip(&each) {
            assert_eq!(counts.take(index), count);
        }
        assert!(counts.pages.is_empty() && counts.large.is_empty());
    }
}
