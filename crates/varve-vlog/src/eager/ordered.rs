//! The next free place in order, on a device that has no head to speak of.

use super::{Avoid, Eager, Want};
use crate::free_space::FreeSpace;

/// Looking for a place that is better goes no further than a few regions.
const NEAR_BLOCKS: usize = 256;
/// Nor for a hole further than this, so that a choice takes less than a
/// millisecond on whatever volume.
const HOLES_BLOCKS: usize = 1 << 16;
/// Nor for one that is filled.
const FILLED_BLOCKS: usize = 1 << 12;

impl Eager {
    /// The next free place after the last one chosen, round and round.
    pub(super) fn next_in_order(
        &mut self,
        free: &FreeSpace,
        want: Want,
        avoid: Avoid,
    ) -> Option<u64> {
        let units = u64::from(free.units_per_block());
        let regions = free.regions();
        let blocks = regions.blocks(regions.len() - 1).end;
        let from = ((self.cursor.div_ceil(units)) as u32).min(blocks);
        let count = want.units(free.units_per_block());
        let found = match want {
            Want::Unit if units == 1 => self
                .part_in(free, from..blocks, avoid, (want, Among::All))
                .or_else(|| self.part_in(free, 0..from, avoid, (want, Among::All))),
            // A partly used block just behind the cursor comes first: that is
            // where the last map sector went.
            Want::Unit | Want::Part(_) => {
                let [near, all] = [Among::NearHoles, Among::All].map(|among| (want, among));
                self.part_in(free, from.saturating_sub(1)..blocks, avoid, near)
                    .or_else(|| self.part_in(free, 0..from, avoid, near))
                    .or_else(|| self.part_in(free, from..blocks, avoid, all))
                    .or_else(|| self.part_in(free, 0..from, avoid, all))
            }
            Want::Hole { .. } => self
                .part_in(free, from..blocks, avoid, (want, Among::Holes))
                .or_else(|| self.part_in(free, 0..from, avoid, (want, Among::Holes))),
            Want::Block => self
                .pair_in(free, from..blocks, avoid)
                .or_else(|| self.block_in(free, from..blocks, avoid))
                .or_else(|| self.block_in(free, 0..from, avoid)),
        };
        match found {
            Some(unit) => {
                self.cursor = match want {
                    Want::Block => unit + units,
                    Want::Unit | Want::Part(_) => self.cursor.max(unit + u64::from(count)),
                    // Wherever there is one: nothing follows there.
                    Want::Hole { .. } => self.cursor,
                };
                Some(unit)
            }
            None if avoid.empty => {
                let all = Avoid {
                    empty: false,
                    ..avoid
                };
                self.next_in_order(free, want, all)
            }
            None => None,
        }
    }

    /// A free block with a free one behind it, if single ones are to be avoided
    /// and it is near.
    fn pair_in(&self, free: &FreeSpace, range: std::ops::Range<u32>, avoid: Avoid) -> Option<u64> {
        let end = range.end;
        let is_pair =
            |&block: &u32| free.mask(block) == 0 && block + 1 < end && free.mask(block + 1) == 0;
        let mut near = candidates(free, range, avoid, Among::All).take(NEAR_BLOCKS);
        let block = avoid.single.then(|| near.find(is_pair))??;
        Some(u64::from(block) * u64::from(free.units_per_block()))
    }

    fn block_in(&self, free: &FreeSpace, range: std::ops::Range<u32>, avoid: Avoid) -> Option<u64> {
        let block =
            candidates(free, range, avoid, Among::All).find(|&block| free.mask(block) == 0)?;
        Some(u64::from(block) * u64::from(free.units_per_block()))
    }

    /// So many free units behind each other in a block.
    fn part_in(
        &self,
        free: &FreeSpace,
        range: std::ops::Range<u32>,
        avoid: Avoid,
        (want, among): (Want, Among),
    ) -> Option<u64> {
        let near = match among {
            Among::NearHoles => NEAR_BLOCKS,
            Among::Holes if matches!(want, Want::Hole { filled: true, .. }) => FILLED_BLOCKS,
            Among::Holes => HOLES_BLOCKS,
            Among::All => usize::MAX,
        };
        let units = want.units(free.units_per_block());
        let filled = matches!(want, Want::Hole { filled: true, .. });
        let mut blocks = candidates(free, range, avoid, among).take(near);
        blocks.find_map(|block| {
            if among != Among::All && free.mask(block) == 0 {
                return None;
            }
            let rooms = free.rooms(block, units, filled);
            let first = u64::from(block) * u64::from(free.units_per_block());
            (rooms != 0).then(|| first + u64::from(rooms.trailing_zeros()))
        })
    }
}

/// Where units are looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Among {
    All,
    /// Blocks that are partly used, as far as there are some near.
    NearHoles,
    /// Blocks that are partly used, as far as one may look.
    Holes,
}

/// The blocks of a range, regions that are full or to be avoided left out.
fn candidates(
    free: &FreeSpace,
    range: std::ops::Range<u32>,
    avoid: Avoid,
    among: Among,
) -> impl Iterator<Item = u32> {
    let regions = free.regions();
    let first = if range.is_empty() {
        regions.len()
    } else {
        regions.of(range.start)
    };
    (first..regions.len())
        .map(move |region| (region, regions.blocks(region)))
        .take_while({
            let end = range.end;
            move |(_, blocks)| blocks.start < end
        })
        .filter(move |&(region, _)| {
            let avoided = avoid.region == Some(region as u32)
                || (avoid.empty && free.empty_regions().contains(&(region as u32)));
            let in_vain = among == Among::Holes && free.holes_in(region) == 0;
            !avoided && !free.is_full(region) && !in_vain
        })
        .flat_map(move |(_, blocks)| blocks.start.max(range.start)..blocks.end.min(range.end))
}
