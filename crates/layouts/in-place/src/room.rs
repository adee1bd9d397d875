//! Free space: the fragments in use, and the allocation of others by a policy.
//!
//! There are two maps. `used` has the bits of the device's maps; the policy's own map
//! has the space that may be allocated. Space that was given up is free in the policy's
//! map once its group is durable (rules J4 and J5 of `docs/spec/in-place.md`).
//!
//! Space that a policy allocates beyond a request is a *window*. It is kept for the
//! file's next blocks, in memory only, and released when the file is truncated, when
//! other files need windows, or when little space is free. It therefore counts as free.

mod windows;

use crate::allocate::{Allocator, Extent, FileView, Policy, PolicyError, Shape};
use crate::bits::Bits;
use crate::format::{BITS_PER_SECTOR, Geometry};
use std::collections::BTreeSet;
use varve_fs::planted::{self, Planted};
use windows::Windows;

/// The free and used space of a volume.
#[derive(Debug)]
pub(crate) struct Room {
    geometry: Geometry,
    used: Bits,
    policy: Box<dyn Allocator>,
    windows: Windows,
    given_up: u64,
    /// Sectors of the fragment maps that have changed: group, and index of the first
    /// bit.
    touched: BTreeSet<(u64, u64)>,
}

impl Room {
    /// Creates the state of a volume whose maps have the bits `used`.
    ///
    /// # Errors
    /// The policy's parameters are invalid.
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

    /// Returns the number of whole blocks that are free, or become free when they are
    /// wanted.
    pub fn free_blocks(&self) -> u64 {
        (self.policy.free_in_blocks() + self.windows.units()) / self.geometry.block_fragments()
    }

    /// Returns the number of free fragments, including those of free blocks.
    pub fn free_fragments(&self) -> u64 {
        self.policy.free_units() + self.windows.units()
    }

    /// Returns the number of fragments that are kept for the next blocks of files.
    pub fn window_fragments(&self) -> u64 {
        self.windows.units()
    }

    /// Returns the number of fragments that were given up and can be reused later.
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
            // The next sector of the map begins here.
            at = group * each + (first + BITS_PER_SECTOR).min(each);
        }
    }

    /// Gives up space. It can be reused after [`Self::release`].
    pub fn give_up(&mut self, extent: Extent) {
        self.mark_used(extent, false);
        self.given_up += extent.units;
    }

    /// Makes space that was given up available.
    pub fn release(&mut self, extent: Extent) {
        self.given_up -= extent.units;
        self.free(extent);
    }

    /// Makes space available that a window kept, or that was withheld.
    pub fn free(&mut self, extent: Extent) {
        if self.policy.release(extent).is_ok() {
            return;
        }
        // On a damaged volume two files may have shared it, so that a part is free
        // already.
        for start in extent.start..extent.end() {
            let _ = self.policy.release(Extent { start, units: 1 });
        }
    }

    /// Takes `units` fragments for a file: whole blocks, or as many of them as are
    /// free; or fewer fragments than a block has.
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

    /// Takes `units` fragments from the policy. Returns them, and the space beyond the
    /// request.
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

    /// Takes any free pieces, if none has a size that the policy wants.
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

    /// Takes space for a block that does not grow, near `near`.
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

    /// Returns true if the space is free in every state that a crash can leave, and not
    /// promised to any file.
    pub fn is_free(&self, extent: Extent) -> bool {
        self.policy.is_free(extent)
    }

    /// Extends an extent in place, if the fragments behind it in its block are free.
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

    /// Releases the window of a file that does not continue at its former end.
    pub fn close_window(&mut self, file: u64) {
        for extent in self.windows.drop(file) {
            self.free(extent);
        }
    }

    /// Withholds exactly these fragments from allocation until they are released.
    /// Returns false if not all of them are free.
    pub fn withhold(&mut self, extent: Extent) -> bool {
        self.policy.occupy(extent).is_ok()
    }

    /// Releases all windows.
    pub fn close_windows(&mut self) {
        for extent in self.windows.drop_all() {
            self.free(extent);
        }
    }

    /// Marks a sector of the maps as different from the device's.
    pub fn touch(&mut self, group: u64, first: u64) {
        self.touched.insert((group, first));
    }

    /// Returns the map sectors that have changed since the last call.
    pub fn take_touched(&mut self) -> BTreeSet<(u64, u64)> {
        std::mem::take(&mut self.touched)
    }

    /// Returns the numbers of free blocks and fragments of a cylinder group according
    /// to the device's maps, in which space that was given up is free.
    pub fn free_in_group(&self, group: u64) -> (u64, u64) {
        let each = self.geometry.block_fragments();
        let data = self.geometry.data_fragments(group);
        let blocks = data.step_by(each as usize);
        let free = blocks.map(|block| each - u64::from(self.used.few(block, each).count_ones()));
        free.fold((0, 0), |(blocks, fragments), free| {
            (blocks + u64::from(free == each), fragments + free)
        })
    }

    /// Returns the free runs in the order of the volume, each as long as the policy
    /// could use it. Windows are not among them.
    pub fn free_runs(&self) -> Vec<Extent> {
        self.policy.free_runs()
    }
}

/// Returns the division of a volume for a policy.
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

/// Truncates the extents to the first `units` units, and returns the rest.
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
