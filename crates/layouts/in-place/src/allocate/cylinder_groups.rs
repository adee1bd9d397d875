//! FFS: blocks and fragments in cylinder groups (McKusick et al. 1984, §3.3).
//!
//! A unit is a fragment. A file gets the block behind its last one, or else one near
//! it, one in the same group, one in another group. Fragments are taken from the block
//! in which they fit best, and never from two blocks. After `maxcontig` blocks a gap of
//! `rotdelay` blocks follows, after a quarter of a group another group. With `clusters`
//! the policy first seeks a contiguous run of as many blocks as are requested, which
//! later FFSs achieve by reallocation. Without it each block is sought by itself, and a
//! file continues in another group at its first indirect block, as in 4.4BSD-Lite
//! (Seltzer et al. 1995, §5).
//!
//! Invariants: the counts, the broken blocks and the whole blocks follow from the bits;
//! the heads of groups are never free.

use super::bits::BitTree;
use super::{Allocator, Extent, FileView, MapError, NoRoom, inside, push};
use crate::bits::Bits;
use std::collections::BTreeSet;

/// Number of blocks of a file that are not reached through an indirect block.
pub(crate) const DIRECT: u64 = 12;

/// The division of a volume, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Size of all groups. The last group may be shorter.
    pub units: u64,
    /// Size of a block: 1, 2, 4 or 8.
    pub block: u64,
    /// Size of a group, a multiple of a block.
    pub group: u64,
    /// Size of the metadata at the beginning of each group, in whole blocks.
    pub head: u64,
}

/// The placement of a file's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Number of contiguous blocks before a gap, at least 1.
    pub maxcontig: u64,
    /// Length of the gap, in blocks.
    pub rotdelay: u64,
    /// True if blocks that are requested together are sought contiguously.
    pub clusters: bool,
    /// Number of whole free blocks at which tails use broken blocks of all groups
    /// first.
    pub scarce: u64,
}

#[derive(Clone, Debug, Default)]
struct Group {
    free_blocks: u64,
    /// Broken blocks by the length of the longest run of free fragments in them.
    broken: [BTreeSet<u64>; 8],
}

/// The allocation policy of FFS.
#[derive(Clone, Debug)]
pub struct CylinderGroups {
    shape: Shape,
    placement: Placement,
    busy: Bits,
    /// The blocks that are entirely free.
    whole: BitTree,
    groups: Vec<Group>,
    free: u64,
}

/// Returns the length of the longest run of zeros among the low `count` bits.
fn longest_run(bits: u8, count: u64) -> u64 {
    let (mut longest, mut run) = (0, 0);
    for at in 0..count {
        run = if bits >> at & 1 == 0 { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

impl CylinderGroups {
    /// Creates an empty volume. Units behind the last whole block are not used.
    ///
    /// # Panics
    /// If a block does not have 1, 2, 4 or 8 units, or a group does not consist of
    /// whole blocks.
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

    /// Returns the units of a group that are for data.
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

    /// Adds a block, named by its first unit, to the counts, or removes it from them.
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

    /// Takes `wanted` contiguous free blocks, or a single block if the first group that
    /// has any free block has no such run. The search begins at `near`.
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

    /// Returns the first run of `wanted` free blocks in a group, at or behind `near`,
    /// or else from the beginning of the group.
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

    /// Returns the groups in the order in which they are tried: by steps that double,
    /// then one after the other.
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

    /// Returns the broken block of a group in which `count` fragments fit best, and
    /// their place in it.
    fn fitting(&self, group: u64, near: u64, count: u64) -> Option<u64> {
        let each = self.shape.block;
        let broken = &self.groups[group as usize].broken;
        let run = (count as usize..each as usize).find(|&run| !broken[run].is_empty())?;
        let behind = broken[run].range(near..).next();
        let block = *behind.or_else(|| broken[run].first())?;
        let mut starts = block..block + each - count + 1;
        starts.find(|&start| self.are_free(start..start + count))
    }

    /// Takes `count` fragments, fewer than a block has: in the broken block of the
    /// group in which they fit best, or else in a new block. If whole blocks are
    /// scarce, broken blocks of any group are tried first.
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

    /// Returns the group for the continuation of a large file: the next one with at
    /// least the average number of free blocks.
    fn next_group(&self, group: u64) -> u64 {
        let groups = self.groups.len() as u64;
        let average = self.whole.count() / groups;
        let mut next = (1..=groups).map(|step| (group + step) % groups);
        next.find(|&at| self.groups[at as usize].free_blocks >= average.max(1))
            .unwrap_or(group)
    }

    /// Returns the preferred place of the next block of a file that has `blocks`
    /// blocks, the last of which ends at `end`.
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

    /// Returns the number of blocks that are sought contiguously when `wanted` are
    /// wanted.
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

    /// Refuses an extent that is not one of data.
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

    /// Takes whole blocks, and a tail in fragments.
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

    /// Returns runs of free fragments, which may span several blocks.
    fn free_runs(&self) -> Vec<Extent> {
        self.busy.zeros().map(Extent::from).collect()
    }
}

#[cfg(test)]
mod tests;
