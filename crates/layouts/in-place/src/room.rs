//! Room: which fragments are in use, and whom a policy gives others to.
//!
//! Two maps: `used` is what the device's maps say; the policy's own has what may be
//! given out. Room that has been given up is free there once its group is durable
//! (rules J4 and J5 of `docs/spec/in-place.md`).
//!
//! What a policy hands out beyond what was asked for is a *window*: kept for the
//! file's next blocks, in memory only, and given back when the file is cut, when
//! other files want windows, or when room is short. So it counts as free.

mod windows;

use crate::allocate::{Allocator, Extent, FileView, Policy, PolicyError, Shape};
use crate::bits::Bits;
use crate::format::{BITS_PER_SECTOR, Geometry};
use std::collections::BTreeSet;
use varve_fs::planted::{self, Planted};
use windows::Windows;

/// The room of a volume.
#[derive(Debug)]
pub(crate) struct Room {
    geometry: Geometry,
    used: Bits,
    policy: Box<dyn Allocator>,
    windows: Windows,
    given_up: u64,
    /// Sectors of the fragment maps that have changed: group, and index of the
    /// first bit.
    touched: BTreeSet<(u64, u64)>,
}

impl Room {
    /// Of a volume whose maps say this.
    ///
    /// # Errors
    /// The policy cannot be.
    pub fn new(geometry: Geometry, policy: &Policy, used: Bits) -> Result<Self, PolicyError> {
        let mut policy = policy.build(shape(&geometry), geometry.reserve_blocks)?;
        for group in 0..geometry.groups() {
            let data = geometry.data_fragments(group);
            for run in used.runs(data) {
                let taken = policy.occupy(run.into());
                taken.expect("runs of one map do not overlap");
            }
        }
        Ok(Room {
            geometry,
            used,
            policy,
            windows: Windows::default(),
            given_up: 0,
            touched: BTreeSet::new(),
        })
    }

    /// Blocks that are free as a whole, or will be as soon as they are wanted.
    pub fn free_blocks(&self) -> u64 {
        (self.policy.free_in_blocks() + self.windows.units()) / self.geometry.block_fragments()
    }

    /// Fragments that are free, those of free blocks included.
    pub fn free_fragments(&self) -> u64 {
        self.policy.free_units() + self.windows.units()
    }

    /// Fragments that are kept for the next blocks of files.
    pub fn window_fragments(&self) -> u64 {
        self.windows.units()
    }

    /// Fragments that are given out again later, whoever has them on his list.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    pub fn used(&self) -> &Bits {
        &self.used
    }

    fn mark_used(&mut self, extent: Extent, used: bool) {
        self.used.fill(extent.start..extent.end(), used);
        let each = self.geometry.group_fragments();
        let mut at = extent.start;
        while at < extent.end() {
            let (group, within) = (at / each, at % each);
            let first = within / BITS_PER_SECTOR * BITS_PER_SECTOR;
            self.touched.insert((group, first));
            // Where the next sector of a map begins.
            at = group * each + (first + BITS_PER_SECTOR).min(each);
        }
    }

    /// It is nobody's any more; it is given out again after [`Self::release`].
    pub fn give_up(&mut self, extent: Extent) {
        self.mark_used(extent, false);
        self.given_up += extent.units;
    }

    /// What was given up can be given out.
    pub fn release(&mut self, extent: Extent) {
        self.given_up -= extent.units;
        self.free(extent);
    }

    /// What a window keeps, or was withheld, can be given out.
    pub fn free(&mut self, extent: Extent) {
        if self.policy.release(extent).is_ok() {
            return;
        }
        // On a damaged volume two files may have had it: some is free already.
        for start in extent.start..extent.end() {
            let _ = self.policy.release(Extent { start, units: 1 });
        }
    }

    /// So many fragments for a file: whole blocks, or as many of them as there are; or
    /// fewer fragments than a block's.
    pub fn take(&mut self, file: &FileView, units: u64) -> Option<Vec<Extent>> {
        let each = self.geometry.block_fragments();
        let units = units.min(self.free_blocks() * each).max(units.min(each));
        let mut taken = self.windows.take(file.number, units);
        let missing = units - sum(&taken);
        if missing > 0 {
            let found = self.find(&file.with(&taken), missing);
            let (found, beyond) = found.unwrap_or_default();
            taken.extend(found);
            for old in self.windows.put(file.number, beyond) {
                self.free(old);
            }
        }
        taken
            .iter()
            .for_each(|&extent| self.mark_used(extent, true));
        (!taken.is_empty()).then_some(taken)
    }

    /// So many fragments from the policy, and what it gives beyond them.
    fn find(&mut self, file: &FileView, units: u64) -> Option<(Vec<Extent>, Vec<Extent>)> {
        let mut found = Vec::new();
        if self.policy.extend(file, units, &mut found).is_err() {
            self.close_windows();
            if self.policy.extend(file, units, &mut found).is_err() {
                found = self.pieces(file, units)?;
            }
        }
        let beyond = split_off(&mut found, units);
        Some((found, beyond))
    }

    /// Where no free piece has a size that the policy wants: any.
    fn pieces(&mut self, file: &FileView, units: u64) -> Option<Vec<Extent>> {
        if self.geometry.block_fragments() > 1 || self.policy.free_units() < units {
            return None;
        }
        let mut found: Vec<Extent> = Vec::new();
        while sum(&found) < units {
            let near = file.with(&found).end.unwrap_or(file.home);
            found.push(self.policy.piece(near).expect("it was counted"));
        }
        Some(found)
    }

    /// Room for something that does not grow, near others of the file.
    pub fn take_alone(&mut self, near: u64, units: u64) -> Option<Extent> {
        let file = FileView {
            home: near,
            ..FileView::default()
        };
        let (taken, beyond) = self.find(&file, units)?;
        beyond.into_iter().for_each(|extent| self.free(extent));
        debug_assert!(sum(&taken) == units && taken.len() == 1, "{taken:?}");
        let extent = taken.into_iter().next()?;
        self.mark_used(extent, true);
        Some(extent)
    }

    /// Whether nobody has any of it, or is promised it, or can come to have it again
    /// by a crash.
    pub fn is_free(&self, extent: Extent) -> bool {
        self.policy.is_free(extent)
    }

    /// Makes an extent longer where it is, if what is behind it in the block is free.
    pub fn lengthen(&mut self, extent: Extent, units: u64) -> bool {
        let Some(more) = extent.lacks(units, self.geometry.block_fragments()) else {
            return false;
        };
        let free = self.policy.occupy(more).is_ok() || planted::is(Planted::FragmentShared);
        if free {
            self.mark_used(more, true);
        }
        free
    }

    /// A file does not go on where it was: its window is free.
    pub fn close_window(&mut self, file: u64) {
        for extent in self.windows.drop(file) {
            self.free(extent);
        }
    }

    /// Takes exactly these fragments out of what is given out, until they are
    /// released, if all are free.
    pub fn withhold(&mut self, extent: Extent) -> bool {
        self.policy.occupy(extent).is_ok()
    }

    /// All windows are free.
    pub fn close_windows(&mut self) {
        for extent in self.windows.drop_all() {
            self.free(extent);
        }
    }

    /// A sector of the maps is not what the device has.
    pub fn touch(&mut self, group: u64, first: u64) {
        self.touched.insert((group, first));
    }

    /// The changed sectors of the maps, since this was last asked.
    pub fn take_touched(&mut self) -> BTreeSet<(u64, u64)> {
        std::mem::take(&mut self.touched)
    }

    /// Free blocks and fragments of a cylinder group by the device's maps: what has
    /// been given up counts.
    pub fn free_in_group(&self, group: u64) -> (u64, u64) {
        let each = self.geometry.block_fragments();
        let data = self.geometry.data_fragments(group);
        let blocks = data.step_by(each as usize);
        let free = blocks.map(|block| each - u64::from(self.used.few(block, each).count_ones()));
        free.fold((0, 0), |(blocks, fragments), free| {
            (blocks + u64::from(free == each), fragments + free)
        })
    }

    /// Free runs in the order of the volume, as long as the policy could use them;
    /// windows are not among them.
    pub fn free_runs(&self) -> Vec<Extent> {
        self.policy.free_runs()
    }
}

/// The cylinder groups for a policy.
pub(crate) fn shape(geometry: &Geometry) -> Shape {
    let groups = geometry.groups();
    let last = geometry.data_fragments(groups - 1).end;
    Shape {
        units: last,
        block: geometry.block_fragments(),
        group: geometry.group_fragments(),
        head: geometry.group_meta_blocks() * geometry.block_fragments(),
    }
}

fn sum(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| extent.units).sum()
}

/// Leaves the first `units` of the extents, and answers what is behind.
fn split_off(extents: &mut Vec<Extent>, units: u64) -> Vec<Extent> {
    let mut left = units;
    let mut at = 0;
    while at < extents.len() && extents[at].units <= left {
        left -= extents[at].units;
        at += 1;
    }
    let mut beyond = extents.split_off(at);
    if left > 0
        && let Some(first) = beyond.first_mut()
    {
        extents.push(Extent {
            units: left,
            ..*first
        });
        first.start += left;
        first.units -= left;
    }
    beyond
}

#[cfg(test)]
mod tests;
