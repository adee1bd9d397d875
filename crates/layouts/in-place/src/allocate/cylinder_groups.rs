//! FFS: blocks and fragments in cylinder groups (McKusick et al. 1984, §3.3).
//!
//! A unit is a fragment. A file gets the block behind its last one, one near it,
//! one in the same group, one in another; fragments go where they fit best, and
//! never lie in two blocks. After `maxcontig` blocks a gap of `rotdelay` follows,
//! after a quarter of a group another group. With `clusters` as many blocks as are
//! asked for are sought behind each other first, which is where later FFSs come to
//! by reallocating; without, each block is sought by itself, and a file goes to
//! another group with its first indirect block, as in 4.4BSD-Lite (Seltzer et al.
//! 1995, §5).
//!
//! Invariants: counts, broken blocks and whole ones are those of the bits; the
//! heads of groups are never free.

use super::bits::BitTree;
use super::{Allocator, Extent, FileView, MapError, NoRoom, inside, push};
use crate::bits::Bits;
use std::collections::BTreeSet;

/// Blocks of a file that no indirect block leads to.
pub(crate) const DIRECT: u64 = 12;

/// How a volume is divided, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Of all groups. The last one may be shorter.
    pub units: u64,
    /// Of a block: 1, 2, 4 or 8.
    pub block: u64,
    /// Of a group, a multiple of a block.
    pub group: u64,
    /// At the beginning of each group, for metadata; whole blocks.
    pub head: u64,
}

/// How blocks of a file lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Blocks behind each other before a gap, at least 1.
    pub maxcontig: u64,
    /// Blocks of the gap.
    pub rotdelay: u64,
    /// Blocks asked for together are sought behind each other.
    pub clusters: bool,
    /// So few whole blocks may be left before tails look for broken ones in all
    /// groups.
    pub scarce: u64,
}

#[derive(Clone, Debug, Default)]
struct Group {
    free_blocks: u64,
    /// Broken blocks by the longest run of free fragments in them.
    broken: [BTreeSet<u64>; 8],
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct CylinderGroups {
    shape: Shape,
    placement: Placement,
    busy: Bits,
    /// Blocks that are free altogether.
    whole: BitTree,
    groups: Vec<Group>,
    free: u64,
}

/// The longest run of zeros among the low `count` bits.
fn longest_run(bits: u8, count: u64) -> u64 {
    let (mut longest, mut run) = (0, 0);
    for at in 0..count {
        run = if bits >> at & 1 == 0 { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

impl CylinderGroups {
    /// An empty volume. What is behind the last whole block is nobody's.
    ///
    /// # Panics
    /// If a block has not 1, 2, 4 or 8 units, or a group not whole blocks.
    pub fn new(shape: Shape, placement: Placement) -> Self {
        let Shape { block, group, .. } = shape;
        let whole = |units: u64| units.is_multiple_of(block);
        assert!([1, 2, 4, 8].contains(&block) && group > 0, "{shape:?}");
        assert!(whole(group) && whole(shape.head), "{shape:?}");
        let shape = Shape {
            units: shape.units / block * block,
            ..shape
        };
        let groups = shape.units.div_ceil(group);
        let mut map = CylinderGroups {
            shape,
            placement,
            busy: Bits::new(shape.units),
            whole: BitTree::full(shape.units / block),
            groups: vec![Group::default(); groups as usize],
            free: 0,
        };
        for at in 0..groups {
            let (begin, data) = (at * group, map.data(at));
            map.busy.fill(begin..data.start, true);
            for head in begin / block..data.start / block {
                map.whole.remove(head);
            }
            map.groups[at as usize].free_blocks = (data.end - data.start) / block;
            map.free += data.end - data.start;
        }
        map
    }

    /// Units of a group that are for data.
    fn data(&self, group: u64) -> std::ops::Range<u64> {
        let end = ((group + 1) * self.shape.group).min(self.shape.units);
        (group * self.shape.group + self.shape.head).min(end)..end
    }

    fn group_of(&self, unit: u64) -> u64 {
        (unit / self.shape.group).min((self.groups.len() as u64).saturating_sub(1))
    }

    fn block_of(&self, unit: u64) -> u64 {
        unit / self.shape.block * self.shape.block
    }

    /// Counts a block, named by its first unit, in or out.
    fn count(&mut self, block: u64, enters: bool) {
        let each = self.shape.block;
        let bits = self.busy.few(block, each);
        let free = each - u64::from(bits.count_ones());
        if free == 0 {
            return;
        }
        let group = &mut self.groups[(block / self.shape.group) as usize];
        let run = longest_run(bits, each) as usize;
        match enters {
            true => self.free += free,
            false => self.free -= free,
        }
        match (free == each, enters) {
            (true, true) => {
                self.whole.insert(block / each);
                group.free_blocks += 1;
            }
            (true, false) => {
                self.whole.remove(block / each);
                group.free_blocks -= 1;
            }
            (false, true) => {
                group.broken[run].insert(block);
            }
            (false, false) => {
                group.broken[run].remove(&block);
            }
        }
    }

    fn mark(&mut self, extent: Extent, busy: bool) {
        let each = self.shape.block;
        let mut at = extent.start;
        while at < extent.end() {
            let block = self.block_of(at);
            let end = extent.end().min(block + each);
            self.count(block, false);
            self.busy.fill(at..end, busy);
            self.count(block, true);
            at = end;
        }
    }

    fn take(&mut self, start: u64, units: u64) -> Extent {
        let extent = Extent { start, units };
        self.mark(extent, true);
        extent
    }

    fn are_free(&self, mut units: std::ops::Range<u64>) -> bool {
        units.all(|unit| !self.busy.get(unit))
    }

    /// As many free blocks behind each other as are wanted, if they are in `near`'s
    /// group or right at it, or in another group that has them; otherwise a single
    /// block.
    fn run(&mut self, near: u64, wanted: u64) -> Option<Extent> {
        let each = self.shape.block;
        let home = self.group_of(near);
        for group in self.groups_from(home) {
            if self.groups[group as usize].free_blocks == 0 {
                continue;
            }
            let begin = self.data(group).start;
            let from = if group == home { near } else { begin };
            if wanted > 1
                && self.groups[group as usize].free_blocks >= wanted
                && let Some(found) = self.search(group, from, wanted)
            {
                return Some(self.take(found, wanted * each));
            }
            if let Some(found) = self.search(group, from, 1) {
                return Some(self.take(found, each));
            }
        }
        None
    }

    /// The first run of so many free blocks at or behind `near` in a group, or from
    /// its beginning.
    fn search(&self, group: u64, near: u64, wanted: u64) -> Option<u64> {
        let each = self.shape.block;
        let data = self.data(group);
        let (first, end) = (data.start / each, data.end / each);
        let near = (near / each).clamp(first, end);
        let look = |mut from: u64, to: u64| {
            while let Some(begin) = self.whole.next_within(from, to) {
                let mut behind = begin + 1;
                while behind < begin + wanted && behind < to && self.whole.contains(behind) {
                    behind += 1;
                }
                if behind == begin + wanted {
                    return Some(begin * each);
                }
                from = behind;
            }
            None
        };
        look(near, end).or_else(|| look(first, (near + wanted).min(end)))
    }

    /// Groups in the order in which they are tried: by leaps that double, then one
    /// by one.
    fn groups_from(&self, home: u64) -> impl Iterator<Item = u64> + use<> {
        let groups = (self.groups.len() as u64).max(1);
        let leaps = std::iter::successors(Some(1u64), move |leap| {
            (leap * 2 < groups).then_some(leap * 2)
        });
        let leapt = leaps.scan(home, move |at, leap| {
            *at = (*at + leap) % groups;
            Some(*at)
        });
        let rest = (2..groups).map(move |step| (home + step) % groups);
        std::iter::once(home).chain(leapt).chain(rest)
    }

    /// The broken block of a group in which so many fragments fit best, and where
    /// in it.
    fn fitting(&self, group: u64, near: u64, count: u64) -> Option<u64> {
        let each = self.shape.block;
        let broken = &self.groups[group as usize].broken;
        let run = (count as usize..each as usize).find(|&run| !broken[run].is_empty())?;
        let behind = broken[run].range(near..).next();
        let block = *behind.or_else(|| broken[run].first())?;
        let mut starts = block..block + each - count + 1;
        starts.find(|&start| self.are_free(start..start + count))
    }

    /// So many fragments, fewer than a block's: in the broken block of the group in
    /// which they fit best, else of a new one; where whole blocks are scarce, in a
    /// broken one of any group first.
    fn fragments(&mut self, near: u64, count: u64) -> Option<Extent> {
        let home = self.group_of(near);
        let from = |group| if group == home { near } else { 0 };
        if self.whole.count() <= self.placement.scarce {
            let mut groups = self.groups_from(home);
            let found = groups.find_map(|group| self.fitting(group, from(group), count));
            if let Some(found) = found {
                return Some(self.take(found, count));
            }
        }
        for group in self.groups_from(home) {
            let found = self.fitting(group, from(group), count);
            if let Some(found) = found.or_else(|| self.search(group, from(group), 1)) {
                return Some(self.take(found, count));
            }
        }
        None
    }

    /// A group for what follows in a large file: the next with as much room as the
    /// average has.
    fn next_group(&self, group: u64) -> u64 {
        let groups = self.groups.len() as u64;
        let average = self.whole.count() / groups;
        let mut next = (1..=groups).map(|step| (group + step) % groups);
        next.find(|&at| self.groups[at as usize].free_blocks >= average.max(1))
            .unwrap_or(group)
    }

    /// Where the next block would best be of a file that has `blocks` of them, the
    /// last of which ends at `end`.
    fn preferred(&self, blocks: u64, end: u64) -> u64 {
        let each = self.shape.block;
        let behind = end.next_multiple_of(each);
        if blocks == 0 {
            return behind;
        }
        let quarter = (self.shape.group / each / 4).max(1);
        if blocks.is_multiple_of(quarter) || (!self.placement.clusters && blocks == DIRECT) {
            let group = self.group_of(end - 1);
            return self.data(self.next_group(group)).start;
        }
        match blocks.is_multiple_of(self.placement.maxcontig) {
            true => behind + self.placement.rotdelay * each,
            false => behind,
        }
    }

    /// Blocks that are sought together when so many are wanted.
    fn together(&self, blocks: u64, wanted: u64) -> u64 {
        match (self.placement.clusters, self.placement.rotdelay) {
            (false, _) => 1,
            (true, 0) => wanted,
            (true, _) => wanted.min(self.placement.maxcontig - blocks % self.placement.maxcontig),
        }
    }

    fn give_up(&mut self, from: usize, units: u64, out: &mut Vec<Extent>) -> NoRoom {
        let taken = out.split_off(from);
        self.give_back(&taken);
        let free = self.free;
        NoRoom { units, free }
    }

    /// Refuses what is no extent of data.
    fn check(&self, extent: Extent) -> Result<(), MapError> {
        let capacity = self.shape.units;
        inside(extent, capacity)?;
        let mut groups = self.group_of(extent.start)..=self.group_of(extent.end() - 1);
        let begins_with = |group: u64| {
            let begin = group * self.shape.group;
            extent.start < self.data(group).start && begin < extent.end()
        };
        match self.shape.head > 0 && groups.any(begins_with) {
            true => Err(MapError::Outside { extent, capacity }),
            false => Ok(()),
        }
    }
}

impl Allocator for CylinderGroups {
    fn capacity(&self) -> u64 {
        self.shape.units
    }

    fn free_units(&self) -> u64 {
        self.free
    }

    fn free_in_blocks(&self) -> u64 {
        self.whole.count() * self.shape.block
    }

    /// Whole blocks, and a tail in fragments.
    fn extend(&mut self, file: &FileView, units: u64, out: &mut Vec<Extent>) -> Result<(), NoRoom> {
        let each = self.shape.block;
        let from = out.len();
        if units > self.free {
            return Err(self.give_up(from, units, out));
        }
        let (mut blocks, mut end, mut left) = (file.held.div_ceil(each), file.end, units);
        while left > 0 {
            let near = match end {
                Some(end) => self.preferred(blocks, end),
                None => file.home,
            };
            let found = match left < each {
                true => self.fragments(near, left),
                false => {
                    let together = self.together(blocks, left / each);
                    self.run(near, together)
                }
            };
            let Some(extent) = found else {
                return Err(self.give_up(from, units, out));
            };
            blocks += extent.units / each;
            left -= extent.units;
            end = Some(extent.end());
            push(out, from, extent);
        }
        Ok(())
    }

    fn piece(&mut self, near: u64) -> Option<Extent> {
        match self.shape.block {
            _ if self.free == 0 => None,
            1 => self.run(near, 1),
            _ => self.fragments(near, 1),
        }
    }

    fn rounded(&self, _: &FileView, units: u64) -> u64 {
        units
    }

    fn release(&mut self, extent: Extent) -> Result<(), MapError> {
        self.check(extent)?;
        match (extent.start..extent.end()).all(|unit| self.busy.get(unit)) {
            true => {
                self.mark(extent, false);
                Ok(())
            }
            false => Err(MapError::Free(extent)),
        }
    }

    fn occupy(&mut self, extent: Extent) -> Result<(), MapError> {
        self.check(extent)?;
        match self.are_free(extent.start..extent.end()) {
            true => {
                self.mark(extent, true);
                Ok(())
            }
            false => Err(MapError::Taken(extent)),
        }
    }

    fn is_free(&self, extent: Extent) -> bool {
        self.check(extent).is_ok() && self.are_free(extent.start..extent.end())
    }

    /// Runs of fragments, across blocks.
    fn free_runs(&self) -> Vec<Extent> {
        self.busy.zeros().map(Extent::from).collect()
    }
}

#[cfg(test)]
mod tests;
