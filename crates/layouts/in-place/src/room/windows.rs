//! Windows: space that policies allocated to files beyond their requests, in memory
//! only.

use super::{Extent, split_off, sum};
use std::collections::{HashMap, VecDeque};

/// Maximum number of files with windows; the most recent ones are kept.
pub(super) const FILES_MAX: usize = 1024;

#[derive(Debug)]
struct Window {
    extents: Vec<Extent>,
    /// Number of this window among all that were ever opened.
    nth: u64,
}

/// The windows of all files.
#[derive(Debug, Default)]
pub(super) struct Windows {
    of: HashMap<u64, Window>,
    /// File and number of each window in the order of opening; some are closed.
    order: VecDeque<(u64, u64)>,
    opened: u64,
    units: u64,
}

impl Windows {
    pub(super) fn units(&self) -> u64 {
        self.units
    }

    /// Takes up to `units` units from the beginning of a file's window.
    pub(super) fn take(&mut self, file: u64, units: u64) -> Vec<Extent> {
        let Some(window) = self.of.get_mut(&file) else {
            return Vec::new();
        };
        let rest = split_off(&mut window.extents, units);
        let taken = std::mem::replace(&mut window.extents, rest);
        self.units -= sum(&taken);
        if window.extents.is_empty() {
            self.of.remove(&file);
        }
        taken
    }

    /// Adds to a file's window. Returns the windows of other files that were closed in
    /// exchange.
    pub(super) fn put(&mut self, file: u64, extents: Vec<Extent>) -> Vec<Extent> {
        if extents.is_empty() {
            return Vec::new();
        }
        self.units += sum(&extents);
        if let Some(window) = self.of.get_mut(&file) {
            window.extents.extend(extents);
            return Vec::new();
        }
        self.opened += 1;
        let nth = self.opened;
        self.of.insert(file, Window { extents, nth });
        self.order.push_back((file, nth));
        let mut closed = Vec::new();
        while self.of.len() > FILES_MAX {
            let (oldest, nth) = self.order.pop_front().expect("each window is in it");
            if self.is_open(oldest, nth) {
                closed.extend(self.drop(oldest));
            }
        }
        if self.order.len() > 8 * FILES_MAX {
            let mut order = std::mem::take(&mut self.order);
            order.retain(|&(file, nth)| self.is_open(file, nth));
            self.order = order;
        }
        closed
    }

    fn is_open(&self, file: u64, nth: u64) -> bool {
        self.of.get(&file).is_some_and(|window| window.nth == nth)
    }

    /// Closes a file's window and returns its space.
    pub(super) fn drop(&mut self, file: u64) -> Vec<Extent> {
        let window = self.of.remove(&file);
        let extents = window.map(|window| window.extents).unwrap_or_default();
        self.units -= sum(&extents);
        extents
    }

    /// Closes all windows and returns their space.
    pub(super) fn drop_all(&mut self) -> Vec<Extent> {
        self.order.clear();
        self.units = 0;
        let all = self.of.drain();
        all.flat_map(|(_, window)| window.extents).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(start: u64) -> Vec<Extent> {
        vec![Extent { start, units: 10 }]
    }

    #[test]
    fn the_oldest_is_closed_and_one_that_is_used_is_not_closed_for_its_past() {
        let mut windows = Windows::default();
        let most = FILES_MAX as u64;
        for round in 0..20 {
            for file in 0..most {
                assert_eq!(windows.put(file, extents(file * 10)), []);
                assert_eq!(windows.units(), 10 * (file + 1));
            }
            for file in 0..most {
                // The files come in another order each time.
                let file = (file + round * 300) % most;
                assert_eq!(windows.take(file, 4).len(), 1);
                assert_eq!(windows.take(file, 40)[0].units, 6);
            }
            assert_eq!((windows.units(), windows.take(7, 1).len()), (0, 0));
        }
        (0..most).for_each(|file| drop(windows.put(file, extents(file * 10))));
        windows.put(3, extents(1 << 40));
        assert_eq!(windows.put(most, extents(1 << 41)), extents(0));
        assert_eq!(windows.drop(3).len(), 2);
        assert!(windows.order.len() <= 8 * FILES_MAX);
        assert_eq!(windows.drop_all().len() as u64, most - 1);
        assert_eq!(windows.units(), 0);
    }
}
