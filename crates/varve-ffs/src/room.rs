//! Room: which fragments are in use, and how FFS finds others (McKusick et al.
//! 1984, §3.3): the block behind the last one, one near it, one in the same
//! cylinder group, one in another; fragments where they fit best.
//!
//! Two maps: `used` is what the device's maps say, `busy` what may not be given
//! out. Room that has been given up is busy until its group is durable (rules J4
//! and J5 of `docs/ffs.md`).

use crate::bits::Bits;
use crate::format::{BITS_PER_SECTOR, Geometry};
use std::collections::BTreeSet;
use varve_fs::planted::{self, Planted};

/// Fragments behind each other within a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Extent {
    pub fragment: u64,
    pub count: u64,
}

#[derive(Clone, Debug, Default)]
struct Group {
    free_blocks: u64,
    free_fragments: u64,
    /// Broken blocks by the longest run of free fragments in them.
    broken: [BTreeSet<u64>; 8],
}

/// The room of a volume.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    geometry: Geometry,
    used: Bits,
    busy: Bits,
    groups: Vec<Group>,
    free_blocks: u64,
    free_fragments: u64,
    given_up: u64,
    /// Sectors of the fragment maps that have changed: group, and index of the
    /// first bit.
    touched: BTreeSet<(u64, u64)>,
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

impl Room {
    /// Of a volume whose maps say this.
    pub fn new(geometry: Geometry, used: Bits) -> Self {
        let mut room = Room {
            geometry,
            busy: used.clone(),
            used,
            groups: vec![Group::default(); geometry.groups() as usize],
            free_blocks: 0,
            free_fragments: 0,
            given_up: 0,
            touched: BTreeSet::new(),
        };
        for group in 0..geometry.groups() {
            let data = geometry.data_fragments(group);
            for block in data.step_by(geometry.block_fragments() as usize) {
                room.count(block, true);
            }
        }
        room
    }

    pub fn free_blocks(&self) -> u64 {
        self.free_blocks
    }

    pub fn free_fragments(&self) -> u64 {
        self.free_fragments
    }

    /// Fragments that are given out again later, whoever has them on his list.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    pub fn used(&self) -> &Bits {
        &self.used
    }

    /// Counts a block, named by its first fragment, in or out.
    fn count(&mut self, block: u64, enters: bool) {
        let each = self.geometry.block_fragments();
        let bits = self.busy.few(block, each);
        let free = each - u64::from(bits.count_ones());
        if free == 0 {
            return;
        }
        let group = &mut self.groups[(block / self.geometry.group_fragments()) as usize];
        let whole = u64::from(free == each);
        let run = longest_run(bits, each) as usize;
        match enters {
            true => {
                group.free_blocks += whole;
                group.free_fragments += free;
                self.free_blocks += whole;
                self.free_fragments += free;
                if whole == 0 {
                    group.broken[run].insert(block);
                }
            }
            false => {
                group.free_blocks -= whole;
                group.free_fragments -= free;
                self.free_blocks -= whole;
                self.free_fragments -= free;
                if whole == 0 {
                    group.broken[run].remove(&block);
                }
            }
        }
    }

    fn block_of(&self, fragment: u64) -> u64 {
        let each = self.geometry.block_fragments();
        fragment / each * each
    }

    fn mark_busy(&mut self, extent: Extent, busy: bool) {
        let block = self.block_of(extent.fragment);
        self.count(block, false);
        for at in extent.fragment..extent.fragment + extent.count {
            self.busy.set(at, busy);
        }
        self.count(block, true);
    }

    fn mark_used(&mut self, extent: Extent, used: bool) {
        for at in extent.fragment..extent.fragment + extent.count {
            self.used.set(at, used);
            let group = at / self.geometry.group_fragments();
            let within = at % self.geometry.group_fragments();
            let first = within / BITS_PER_SECTOR * BITS_PER_SECTOR;
            self.touched.insert((group, first));
        }
    }

    fn take(&mut self, fragment: u64, count: u64) -> Extent {
        let extent = Extent { fragment, count };
        self.mark_busy(extent, true);
        self.mark_used(extent, true);
        extent
    }

    /// It is nobody's any more; it is given out again after [`Self::release`].
    pub fn give_up(&mut self, extent: Extent) {
        self.mark_used(extent, false);
        self.given_up += extent.count;
    }

    /// What was given up can be given out.
    pub fn release(&mut self, extent: Extent) {
        self.given_up -= extent.count;
        self.mark_busy(extent, false);
    }

    /// True if nobody uses any of it.
    fn is_free(&self, extent: Extent) -> bool {
        (extent.fragment..extent.fragment + extent.count).all(|at| !self.busy.get(at))
    }

    /// A block: at `near` if that is free, else behind it, else in its group, else
    /// anywhere. `near` is a fragment.
    pub fn block(&mut self, near: u64) -> Option<Extent> {
        self.run(near, 1)
    }

    /// As many free blocks behind each other as are wanted, if they are in `near`'s
    /// group or right at it; otherwise a single block.
    pub fn run(&mut self, near: u64, wanted: u64) -> Option<Extent> {
        let each = self.geometry.block_fragments();
        let home = (near / self.geometry.group_fragments()).min(self.geometry.groups() - 1);
        if wanted > 1
            && self.groups[home as usize].free_blocks >= wanted
            && let Some(found) = self.search(home, near, wanted)
        {
            return Some(self.take_blocks(found, wanted));
        }
        for group in self.groups_from(home) {
            if self.groups[group as usize].free_blocks == 0 {
                continue;
            }
            let begin = self.geometry.data_fragments(group).start;
            let from = if group == home { near } else { begin };
            if wanted > 1 && group != home {
                // A cluster elsewhere beats blocks one by one.
                if let Some(found) = self.search(group, begin, wanted) {
                    return Some(self.take_blocks(found, wanted));
                }
            }
            if let Some(found) = self.search(group, from, 1) {
                return Some(self.take(found, each));
            }
        }
        None
    }

    fn take_blocks(&mut self, fragment: u64, blocks: u64) -> Extent {
        let each = self.geometry.block_fragments();
        for nth in 0..blocks {
            self.take(fragment + nth * each, each);
        }
        Extent {
            fragment,
            count: blocks * each,
        }
    }

    /// The first run of so many free blocks at or behind `near` in a group, or from
    /// its beginning.
    fn search(&self, group: u64, near: u64, wanted: u64) -> Option<u64> {
        let each = self.geometry.block_fragments();
        let data = self.geometry.data_fragments(group);
        let near = self.block_of(near.clamp(data.start, data.end));
        let look = |from: u64, to: u64| {
            let mut run = 0;
            let mut at = from;
            while at < to {
                run = match self.busy.few(at, each) {
                    0 => run + 1,
                    _ => 0,
                };
                at += each;
                if run == wanted {
                    return Some(at - wanted * each);
                }
            }
            None
        };
        let behind = (near + wanted * each).min(data.end);
        look(near, data.end).or_else(|| look(data.start, behind))
    }

    /// Groups in the order in which they are tried: by leaps that double, then one
    /// by one.
    fn groups_from(&self, home: u64) -> impl Iterator<Item = u64> + use<> {
        let groups = self.geometry.groups();
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

    /// So many fragments, fewer than a block's: in the broken block of the group in
    /// which they fit best, else of a new one.
    pub fn fragments(&mut self, near: u64, count: u64) -> Option<Extent> {
        let each = self.geometry.block_fragments();
        let home = (near / self.geometry.group_fragments()).min(self.geometry.groups() - 1);
        for group in self.groups_from(home) {
            let found = {
                let broken = &self.groups[group as usize].broken;
                let fitting = (count as usize..each as usize).find(|&run| !broken[run].is_empty());
                fitting.and_then(|run| {
                    let near = if group == home { near } else { 0 };
                    let behind = broken[run].range(near..).next();
                    behind.or_else(|| broken[run].first()).copied()
                })
            };
            if let Some(block) = found {
                let mut starts = block..block + each - count + 1;
                let at = starts.find(|&fragment| self.is_free(Extent { fragment, count }));
                return at.map(|at| self.take(at, count));
            }
            if self.groups[group as usize].free_blocks > 0 {
                let from = if group == home { near } else { 0 };
                let at = self.search(group, from, 1)?;
                return Some(self.take(at, count));
            }
        }
        None
    }

    /// Makes an extent longer where it is, if what is behind it in the block is free.
    pub fn lengthen(&mut self, extent: Extent, count: u64) -> bool {
        let each = self.geometry.block_fragments();
        let more = Extent {
            fragment: extent.fragment + extent.count,
            count: count - extent.count,
        };
        let behind = self.is_free(more) || planted::is(Planted::FragmentShared);
        let fits = extent.fragment % each + count <= each && behind;
        if fits {
            self.take(more.fragment, more.count);
        }
        fits
    }

    /// A group for what follows in a large file: the next with as much room as the
    /// average has.
    pub fn next_group(&self, group: u64) -> u64 {
        let groups = self.geometry.groups();
        let average = self.free_blocks / groups;
        let next = (1..=groups).map(|step| (group + step) % groups);
        next.into_iter()
            .find(|&at| self.groups[at as usize].free_blocks >= average.max(1))
            .unwrap_or(group)
    }

    /// A sector of the maps is not what the device has.
    pub fn touch(&mut self, group: u64, first: u64) {
        self.touched.insert((group, first));
    }

    /// The changed sectors of the maps, since this was last asked.
    pub fn take_touched(&mut self) -> BTreeSet<(u64, u64)> {
        std::mem::take(&mut self.touched)
    }

    /// Free blocks and fragments of each group.
    pub fn by_group(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.groups
            .iter()
            .map(|g| (g.free_blocks, g.free_fragments))
    }
}

#[cfg(test)]
mod tests;
