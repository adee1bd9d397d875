//! Blocks of one size.
//!
//! In order, a file gets the next free block behind its last one. Aged, it gets the
//! first block of a free list that years of use have shuffled: the blocks are ranked by
//! a permutation, and the list is used cyclically. The rank follows from the seed, so
//! the list needs no space on a disk. The position in the list is lost at an unmount.
//!
//! Source: Seltzer 1992, §3.3.4 (its fixed-block system is the control).

use super::bits::BitTree;
use super::mix::Permutation;
use super::{Allocator, Extent, FileView, MapError, NoRoom, inside, push};

/// The order in which free blocks are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// The block behind the file's last one, or behind its home, is next.
    InOrder,
    /// The order of a shuffled list.
    Aged {
        /// Seed of the permutation.
        seed: u64,
    },
}

/// The allocation policy of blocks of one size.
#[derive(Debug)]
pub struct Fixed {
    block: u64,
    /// The free blocks: by rank if there is a permutation, otherwise by number.
    free: BitTree,
    ranks: Option<Permutation>,
    cursor: u64,
}

impl Fixed {
    /// Creates an empty volume of `units` units, in blocks of `block` units. Units
    /// behind the last whole block are not used.
    ///
    /// # Panics
    /// If `block` is zero.
    pub fn new(units: u64, block: u64, order: Order) -> Self {
        let blocks = units / block;
        Fixed {
            block,
            free: BitTree::full(blocks),
            ranks: match order {
                Order::InOrder => None,
                Order::Aged { seed } => Some(Permutation::new(blocks, seed)),
            },
            cursor: 0,
        }
    }

    fn rank(&self, block: u64) -> u64 {
        self.ranks.map_or(block, |ranks| ranks.of(block))
    }

    fn take(&mut self, after: u64) -> Option<u64> {
        let from = match self.ranks {
            None => after,
            Some(_) => self.cursor,
        };
        let rank = self.free.next_around(from)?;
        self.free.remove(rank);
        self.cursor = rank + 1;
        Some(self.ranks.map_or(rank, |ranks| ranks.back(rank)))
    }

    /// Returns the blocks of an extent of whole blocks.
    fn blocks(&self, extent: Extent) -> Result<std::ops::Range<u64>, MapError> {
        inside(extent, self.capacity())?;
        let block = self.block;
        match extent.start.is_multiple_of(block) && extent.units.is_multiple_of(block) {
            true => Ok(extent.start / block..extent.end() / block),
            false => Err(MapError::Misaligned { extent, block }),
        }
    }
}

impl Allocator for Fixed {
    fn capacity(&self) -> u64 {
        self.free.size() * self.block
    }

    fn free_units(&self) -> u64 {
        self.free.count() * self.block
    }

    fn extend(&mut self, file: &FileView, units: u64, out: &mut Vec<Extent>) -> Result<(), NoRoom> {
        let free = self.free_units();
        let blocks = units.div_ceil(self.block);
        if blocks > self.free.count() {
            return Err(NoRoom { units, free });
        }
        let from = out.len();
        let mut after = file.end.unwrap_or(file.home) / self.block;
        for _ in 0..blocks {
            let block = self.take(after).expect("they were counted");
            after = block + 1;
            let extent = Extent {
                start: block * self.block,
                units: self.block,
            };
            push(out, from, extent);
        }
        Ok(())
    }

    fn fits(&mut self, _: &FileView, units: u64) -> bool {
        units.div_ceil(self.block) <= self.free.count()
    }

    fn piece(&mut self, near: u64) -> Option<Extent> {
        let start = self.take(near / self.block)? * self.block;
        let units = self.block;
        Some(Extent { start, units })
    }

    fn rounded(&self, _: &FileView, units: u64) -> u64 {
        units.next_multiple_of(self.block)
    }

    fn release(&mut self, extent: Extent) -> Result<(), MapError> {
        let blocks = self.blocks(extent)?;
        if blocks
            .clone()
            .any(|block| self.free.contains(self.rank(block)))
        {
            return Err(MapError::Free(extent));
        }
        for block in blocks {
            self.free.insert(self.rank(block));
        }
        Ok(())
    }

    fn occupy(&mut self, extent: Extent) -> Result<(), MapError> {
        let blocks = self.blocks(extent)?;
        if !self.is_free(extent) {
            return Err(MapError::Taken(extent));
        }
        for block in blocks {
            self.free.remove(self.rank(block));
        }
        Ok(())
    }

    fn is_free(&self, extent: Extent) -> bool {
        let free = |block| self.free.contains(self.rank(block));
        let blocks = self.blocks(extent);
        blocks.is_ok_and(|mut blocks| blocks.all(free))
    }

    /// Returns the free runs. Adjacent blocks are one run, because a file can continue
    /// from one to the next.
    fn free_runs(&self) -> Vec<Extent> {
        let mut runs = Vec::new();
        let add = |block| {
            let extent = Extent {
                start: block * self.block,
                units: self.block,
            };
            push(&mut runs, 0, extent);
        };
        match self.ranks {
            None => self.free.iter().for_each(add),
            Some(ranks) => {
                let blocks = self.free.iter().map(|rank| ranks.back(rank));
                let mut blocks: Vec<u64> = blocks.collect();
                blocks.sort_unstable();
                blocks.into_iter().for_each(add);
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_a_file_goes_on_behind_its_end_and_around() {
        let mut map = Fixed::new(43, 4, Order::InOrder);
        assert_eq!(map.capacity(), 40);
        let mut out = Vec::new();
        let mut file = FileView {
            home: 30,
            ..FileView::default()
        };
        map.extend(&file, 9, &mut out).unwrap();
        assert_eq!(
            out,
            [(28, 12)].map(|(start, units)| Extent { start, units })
        );
        file = file.with(&out);
        out.clear();
        map.extend(&file, 1, &mut out).unwrap();
        assert_eq!(out, [Extent { start: 0, units: 4 }]);
        assert_eq!((map.free_units(), map.rounded(&file, 9)), (24, 12));
        assert_eq!(
            map.free_runs(),
            [Extent {
                start: 4,
                units: 24
            }]
        );
        assert!(!map.fits(&file, 25) && map.fits(&file, 24));
    }

    #[test]
    fn an_aged_list_scatters_a_file() {
        let mut map = Fixed::new(4000, 4, Order::Aged { seed: 1 });
        let mut out = Vec::new();
        map.extend(&FileView::default(), 400, &mut out).unwrap();
        assert!(out.len() > 90, "{} runs of 100 blocks", out.len());
    }

    #[test]
    fn parts_of_blocks_are_refused() {
        let mut map = Fixed::new(40, 4, Order::InOrder);
        let extent = Extent { start: 2, units: 4 };
        let block = 4;
        assert_eq!(
            map.occupy(extent),
            Err(MapError::Misaligned { extent, block })
        );
    }
}
