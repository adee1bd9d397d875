//! Restricted buddies: a few block sizes, each a multiple of the one below.
//!
//! - *Grow policy*: a file's blocks grow from one size to the next when those of the
//!   smaller size together are `grow` times the larger. The size therefore follows from
//!   the length of the file, as long as the file consists of whole blocks.
//! - *Regions*: the volume is divided into bookkeeping regions. The next block is
//!   sought where the file ends; then in the region of the file's last block (of its
//!   inode, if it has none), there by splitting a larger block if necessary; then in
//!   the region of the greatest *free split ratio* that has such a block free; then by
//!   splitting, in the region of the greatest ratio. Largest blocks are taken from the
//!   region of the lowest ratio. A single region is the unclustered configuration.
//! - A released block is joined with its siblings once all of them are free.
//!
//! The free split ratio is the free space in smaller pieces over that in largest
//! blocks: taking from a region where it is great keeps largest blocks whole. The
//! thesis's text has directories made in the region of the lowest ratio, its table 3-5
//! in that of the greatest. The former spreads them, which is the purpose that the text
//! gives, and is done here.
//!
//! Source: Seltzer 1992, §3.3.2, table 3-5.

mod map;

use super::{Allocator, Extent, FileView, Kind, MapError, NoRoom, inside, push};
use map::{Map, Ratio};

/// The factor of growth: how many times a larger block a file's smaller blocks must be
/// before the file gets larger ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grow(
    /// The factor, at least 1.
    pub u64,
);

/// The reason why a configuration is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestrictedError {
    /// The sizes are not ascending, or one is not a multiple of the one before.
    #[error("block sizes {0:?} are no rising multiples of each other")]
    Sizes(Vec<u64>),
    /// The region does not consist of at least two whole largest blocks.
    #[error("a region of {region} units is not two or more whole blocks of {largest}")]
    Region {
        /// Number of units of a region.
        region: u64,
        /// Number of units of the largest block.
        largest: u64,
    },
    /// The factor of growth is zero.
    #[error("a grow policy of 0")]
    Grow,
}

/// The allocation policy of restricted buddies.
#[derive(Debug)]
pub struct Restricted {
    map: Map,
    /// For each size but the largest: the units that a file has when it gets the next
    /// size.
    thresholds: Vec<u64>,
}

impl Restricted {
    /// Creates an empty volume of `units` units, with blocks of these sizes in units
    /// and regions of `region` units; `None` makes one region of the whole volume.
    ///
    /// # Errors
    /// The rule that the configuration breaks.
    pub fn new(
        units: u64,
        sizes: &[u64],
        grow: Grow,
        region: Option<u64>,
    ) -> Result<Self, RestrictedError> {
        let rising = |pair: &[u64]| pair[1] > pair[0] && pair[1].is_multiple_of(pair[0]);
        let begins = sizes.first().is_some_and(|size| *size > 0);
        if !begins || !sizes.windows(2).all(rising) {
            return Err(RestrictedError::Sizes(sizes.to_vec()));
        }
        let largest = sizes[sizes.len() - 1];
        let region = match region {
            Some(region) if region < 2 * largest || !region.is_multiple_of(largest) => {
                return Err(RestrictedError::Region { region, largest });
            }
            Some(region) => region,
            None => units.next_multiple_of(largest).max(largest),
        };
        if grow.0 == 0 {
            return Err(RestrictedError::Grow);
        }
        let mut held: u64 = 0;
        let threshold = |larger: &u64| {
            // A large factor may exceed any possible size.
            held = held.saturating_add(grow.0.saturating_mul(*larger));
            held
        };
        Ok(Restricted {
            map: Map::new(units, sizes, region),
            thresholds: sizes[1..].iter().map(threshold).collect(),
        })
    }

    /// Returns the level of the next block of a file that has `held` units.
    fn level(&self, held: u64) -> usize {
        self.thresholds
            .partition_point(|threshold| *threshold <= held)
    }

    /// Chooses the next block of `level`: its first unit, and the level of the free
    /// block that contains it.
    fn choose(&self, level: usize, file: &FileView) -> Option<(u64, usize)> {
        let size = self.map.size(level);
        let last = file
            .end
            .map_or(file.home, |end| end - 1)
            .min(self.capacity().max(1) - 1);
        if let Some(end) = file.end
            && end.is_multiple_of(size)
            && let Some(holder) = self.map.holder(end / size, level)
        {
            return Some((end, holder));
        }
        let region = self.map.region_of(last);
        let near = file.end.unwrap_or(file.home);
        let here = self.map.find_in(region, level, near);
        here.or_else(|| self.elsewhere(level, near))
    }

    /// Chooses a block in any region by the free split ratio.
    fn elsewhere(&self, level: usize, near: u64) -> Option<(u64, usize)> {
        let largest = level + 1 == self.map.levels();
        let best = |with: &dyn Fn(usize) -> bool| -> Option<usize> {
            let regions = (0..self.map.regions()).filter(|region| with(*region));
            match largest {
                true => regions.min_by_key(|region| self.map.ratio(*region)),
                // Among equals the first one is chosen, as above.
                false => regions.rev().max_by_key(|region| self.map.ratio(*region)),
            }
        };
        let region = best(&|region| self.map.count(region, level) > 0).or_else(|| {
            let larger = level + 1..self.map.levels();
            best(&|region| {
                larger
                    .clone()
                    .any(|above| self.map.count(region, above) > 0)
            })
        })?;
        self.map.find_in(region, level, near)
    }
}

impl Allocator for Restricted {
    fn capacity(&self) -> u64 {
        self.map.capacity()
    }

    fn free_units(&self) -> u64 {
        self.map.free_units()
    }

    fn extend(&mut self, file: &FileView, units: u64, out: &mut Vec<Extent>) -> Result<(), NoRoom> {
        let from = out.len();
        let (mut now, mut got) = (*file, 0);
        while got < units {
            let level = self.level(now.held);
            let Some((start, holder)) = self.choose(level, &now) else {
                let taken = out.split_off(from);
                self.give_back(&taken);
                let free = self.free_units();
                return Err(NoRoom { units, free });
            };
            self.map.take(start, level, holder);
            let extent = Extent {
                start,
                units: self.map.size(level),
            };
            push(out, from, extent);
            now.end = Some(extent.end());
            now.held += extent.units;
            got += extent.units;
        }
        Ok(())
    }

    fn piece(&mut self, near: u64) -> Option<Extent> {
        let file = FileView {
            home: near,
            ..FileView::default()
        };
        let (start, holder) = self.choose(0, &file)?;
        self.map.take(start, 0, holder);
        let units = self.map.size(0);
        Some(Extent { start, units })
    }

    fn rounded(&self, _: &FileView, units: u64) -> u64 {
        let level = self.level(units);
        let from = match level {
            0 => 0,
            _ => self.thresholds[level - 1],
        };
        let size = self.map.size(level);
        from + (units - from).next_multiple_of(size)
    }

    fn release(&mut self, extent: Extent) -> Result<(), MapError> {
        self.whole(extent)?;
        if self.map.any_free(extent) {
            return Err(MapError::Free(extent));
        }
        self.map.give(extent);
        Ok(())
    }

    fn occupy(&mut self, extent: Extent) -> Result<(), MapError> {
        self.whole(extent)?;
        if !self.map.all_free(extent) {
            return Err(MapError::Taken(extent));
        }
        self.map.occupy(extent);
        Ok(())
    }

    fn is_free(&self, extent: Extent) -> bool {
        self.whole(extent).is_ok() && self.map.all_free(extent)
    }

    fn home(&self, near: u64, kind: Kind) -> u64 {
        if kind == Kind::File {
            return near;
        }
        let regions = 0..self.map.regions();
        let key = |region: &usize| -> (Ratio, std::cmp::Reverse<u64>) {
            (
                self.map.ratio(*region),
                std::cmp::Reverse(self.map.free_in(*region)),
            )
        };
        let best = regions.min_by_key(key);
        best.map_or(near, |region| self.map.region_start(region))
    }

    fn free_runs(&self) -> Vec<Extent> {
        self.map.free_runs()
    }
}

impl Restricted {
    fn whole(&self, extent: Extent) -> Result<(), MapError> {
        inside(extent, self.capacity())?;
        let block = self.map.size(0);
        match extent.start.is_multiple_of(block) && extent.units.is_multiple_of(block) {
            true => Ok(()),
            false => Err(MapError::Misaligned { extent, block }),
        }
    }
}

#[cfg(test)]
mod tests;
