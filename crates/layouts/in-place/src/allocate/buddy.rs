//! Binary buddies: blocks whose sizes are powers of two, each at a multiple of its
//! size.
//!
//! A file's next extent doubles the file. If no free block has that size, the smallest
//! larger one is halved until one has it. A released block is joined with its buddy as
//! long as that is free. Among free blocks of one size the next one behind the file's
//! end is taken, so that extents are adjacent where possible.
//!
//! `reallocate` is Koch's nightly reallocation: a file moves into at most three extents
//! that waste little. The caller copies the bytes.
//!
//! Sources: Koch 1987; Seltzer 1992, §2.1.1.5 and §3.3.1.

use super::bits::BitTree;
use super::{Allocator, Extent, FileView, MapError, NoRoom, inside, push};

/// The allocation policy of binary buddies.
#[derive(Debug)]
pub struct Buddy {
    capacity: u64,
    free: u64,
    /// The free blocks of `2^order` units, by number.
    orders: Vec<BitTree>,
}

impl Buddy {
    /// Creates an empty volume of `units` units. Its free blocks are the largest
    /// aligned ones that it can be divided into.
    pub fn new(units: u64) -> Self {
        let orders = 64 - units.leading_zeros().min(63);
        let tree = |order: u32| BitTree::new(units >> order);
        let mut buddy = Buddy {
            capacity: units,
            free: 0,
            orders: (0..orders).map(tree).collect(),
        };
        buddy.put_all(0, units);
        buddy
    }

    /// Returns the order of the largest aligned block at `start` that does not extend
    /// beyond `end`.
    fn order_at(start: u64, end: u64) -> u32 {
        let aligned = start.trailing_zeros();
        let fitting = (end - start).ilog2();
        aligned.min(fitting)
    }

    fn put_all(&mut self, mut start: u64, end: u64) {
        while start < end {
            let order = Self::order_at(start, end);
            self.put(start >> order, order);
            start += 1 << order;
        }
    }

    /// Marks a block as free, and joins it with its buddy as long as that is free.
    fn put(&mut self, mut number: u64, mut order: u32) {
        self.free += 1 << order;
        while let Some(tree) = self.orders.get_mut(order as usize + 1) {
            if number / 2 >= tree.size() || !self.orders[order as usize].remove(number ^ 1) {
                break;
            }
            number /= 2;
            order += 1;
        }
        self.orders[order as usize].insert(number);
    }

    /// Takes a block of `2^order` units, the next one behind `after` if there is one.
    fn take(&mut self, order: u32, after: u64) -> Option<u64> {
        let larger = |from: &u32| self.orders[*from as usize].count() > 0;
        let from = (order..self.orders.len() as u32).find(larger)?;
        let number = self.orders[from as usize].next_around(after.div_ceil(1 << from))?;
        self.split(number, from, number << (from - order), order);
        Some(number << from)
    }

    /// Takes block `wanted` of order `to` out of the free block `number` of order
    /// `from` that contains it; the other halves stay free.
    fn split(&mut self, number: u64, from: u32, wanted: u64, to: u32) {
        self.orders[from as usize].remove(number);
        for order in to..from {
            let kept = wanted >> (order - to);
            self.orders[order as usize].insert(kept ^ 1);
        }
        self.free -= 1 << to;
    }

    /// Returns the free block that contains block `number` of `order`, if there is one.
    fn holder(&self, number: u64, order: u32) -> Option<(u64, u32)> {
        let blocks = (order..self.orders.len() as u32).map(|o| (number >> (o - order), o));
        let mut free = blocks.filter(|(n, o)| self.orders[*o as usize].contains(*n));
        free.next()
    }

    /// Returns true if any unit of the block is free.
    fn any_free(&self, number: u64, order: u32) -> bool {
        let below = |o: u32| {
            let first = number << (order - o);
            let end = (number + 1) << (order - o);
            self.orders[o as usize].next_within(first, end).is_some()
        };
        self.holder(number, order).is_some() || (0..order).any(below)
    }

    /// Returns the numbers and orders of the aligned blocks that an extent consists of.
    fn blocks(extent: Extent) -> impl Iterator<Item = (u64, u32)> {
        let (mut start, end) = (extent.start, extent.end());
        std::iter::from_fn(move || {
            let order = (start < end).then(|| Self::order_at(start, end))?;
            let number = start >> order;
            start += 1 << order;
            Some((number, order))
        })
    }
}

impl Allocator for Buddy {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn free_units(&self) -> u64 {
        self.free
    }

    fn extend(&mut self, file: &FileView, units: u64, out: &mut Vec<Extent>) -> Result<(), NoRoom> {
        let from = out.len();
        let (mut held, mut got) = (file.held, 0);
        let mut after = file.end.unwrap_or(file.home);
        while got < units {
            let double = match held {
                0 => units,
                held => held,
            };
            let block = double.checked_next_power_of_two().map(u64::ilog2);
            let taken = block.and_then(|order| Some((self.take(order, after)?, 1 << order)));
            let Some((start, units_here)) = taken else {
                let taken = out.split_off(from);
                self.give_back(&taken);
                let free = self.free;
                return Err(NoRoom { units, free });
            };
            let extent = Extent {
                start,
                units: units_here,
            };
            push(out, from, extent);
            after = extent.end();
            got += units_here;
            held += units_here;
        }
        Ok(())
    }

    /// Takes a unit from a smallest free block.
    fn piece(&mut self, near: u64) -> Option<Extent> {
        let start = self.take(0, near)?;
        Some(Extent { start, units: 1 })
    }

    fn rounded(&self, _: &FileView, units: u64) -> u64 {
        match units {
            0 => 0,
            units => units.next_power_of_two(),
        }
    }

    fn release(&mut self, extent: Extent) -> Result<(), MapError> {
        inside(extent, self.capacity)?;
        if Self::blocks(extent).any(|(number, order)| self.any_free(number, order)) {
            return Err(MapError::Free(extent));
        }
        self.put_all(extent.start, extent.end());
        Ok(())
    }

    fn occupy(&mut self, extent: Extent) -> Result<(), MapError> {
        inside(extent, self.capacity)?;
        if !self.is_free(extent) {
            return Err(MapError::Taken(extent));
        }
        for (number, order) in Self::blocks(extent) {
            let (holder, from) = self.holder(number, order).expect("it is free");
            self.split(holder, from, number, order);
        }
        Ok(())
    }

    fn is_free(&self, extent: Extent) -> bool {
        // An aligned block that is entirely free is contained in one free block.
        let free = |(number, order)| self.holder(number, order).is_some();
        inside(extent, self.capacity).is_ok() && Self::blocks(extent).all(free)
    }

    /// Takes at most three extents: the two largest powers of two in `units`, and the
    /// smallest one that contains the rest. If sizes of files are evenly distributed,
    /// about 4 % is unused.
    fn reallocate(&mut self, file: &FileView, units: u64) -> Option<Vec<Extent>> {
        let mut parts = Vec::with_capacity(3);
        let mut rest = units;
        for nth in 0..3 {
            if rest == 0 {
                break;
            }
            let order = match nth {
                0 | 1 => rest.ilog2(),
                _ => rest.next_power_of_two().ilog2(),
            };
            parts.push(order);
            rest = rest.saturating_sub(1 << order);
        }
        let sum: u64 = parts.iter().map(|order| 1u64 << order).sum();
        if sum >= file.held {
            return None;
        }
        let mut taken = Vec::with_capacity(3);
        for order in parts {
            let after = taken.last().map_or(0, |last: &Extent| last.end());
            let Some(start) = self.take(order, after) else {
                self.give_back(&taken);
                return None;
            };
            push(
                &mut taken,
                0,
                Extent {
                    start,
                    units: 1 << order,
                },
            );
        }
        Some(taken)
    }

    fn free_runs(&self) -> Vec<Extent> {
        let of = |(order, tree): (usize, &BitTree)| {
            let extent = |number| Extent {
                start: number << order,
                units: 1 << order,
            };
            tree.iter().map(extent).collect::<Vec<_>>()
        };
        let mut runs: Vec<Extent> = self.orders.iter().enumerate().flat_map(of).collect();
        runs.sort_unstable();
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, units: u64) -> Extent {
        Extent { start, units }
    }

    #[test]
    fn the_smallest_larger_block_is_halved_until_it_fits() {
        // Figure 3-1: a disk with one block.
        let mut map = Buddy::new(64);
        let mut out = Vec::new();
        map.extend(&FileView::default(), 5, &mut out).unwrap();
        assert_eq!(out, [extent(0, 8)]);
        let free = [extent(8, 8), extent(16, 16), extent(32, 32)];
        assert_eq!(map.free_runs(), free);
        map.release(extent(0, 8)).unwrap();
        assert_eq!(map.free_runs(), [extent(0, 64)]);
    }

    #[test]
    fn a_file_doubles_whenever_it_outgrows_what_it_holds() {
        let mut map = Buddy::new(1 << 20);
        let mut file = FileView::default();
        let mut held = Vec::new();
        for _ in 0..20 {
            let mut out = Vec::new();
            // One byte more than the file has space for.
            map.extend(&file, 1, &mut out).unwrap();
            file = file.with(&out);
            held.push(file.held);
        }
        let doubled: Vec<u64> = (0..20).map(|n| 1 << n).collect();
        assert_eq!(held, doubled);
        assert!(map.fits(&file, 1 << 19), "the other half");
        assert!(!map.fits(&FileView::default(), (1 << 19) + 1));
    }

    #[test]
    fn a_volume_that_is_no_power_of_two_is_several_blocks() {
        // 2700 MB, the capacity of the eight drives of table 3-1.
        let map = Buddy::new(2700);
        let units: Vec<u64> = map.free_runs().iter().map(|run| run.units).collect();
        assert_eq!(units, [2048, 512, 128, 8, 4]);
    }

    #[test]
    fn reallocation_leaves_three_extents_and_little_unused() {
        let mut map = Buddy::new(1 << 22);
        let holding = |held| FileView {
            held,
            ..FileView::default()
        };
        let (mut used, mut held) = (0, 0);
        for units in (1000..20_000u64).step_by(7) {
            let Some(moved) = map.reallocate(&holding(units.next_power_of_two()), units) else {
                continue;
            };
            assert!(moved.len() <= 3);
            used += units;
            held += moved.iter().map(|extent| extent.units).sum::<u64>();
            map.give_back(&moved);
        }
        // Koch: less than 4 % on average.
        let unused = 1.0 - used as f64 / held as f64;
        assert!((0.01..0.05).contains(&unused), "{unused}");
        assert_eq!(map.free_runs(), [extent(0, 1 << 22)]);
        assert_eq!(map.reallocate(&holding(64), 64), None);
    }
}
