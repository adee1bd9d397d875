//! Allocation policies: which units a file gets.
//!
//! A policy hands out *units*, numbered from 0, and keeps in memory which are
//! free. It does no I/O and draws no chance but from its seed, so a mounted
//! layout and the simulator of the laboratory use the same code.
//!
//! Invariants, of every policy:
//! - No unit is handed out twice before it is given back.
//! - [`Allocator::extend`] gives all that was asked for, or changes nothing.
//! - What is free is coalesced as far as the policy can use it: when all has
//!   been given back, the map is as in the beginning.
//! - What a policy knows of a file follows from its extents and its number
//!   ([`FileView`]); nothing is stored for it.
//!
//! Sources: McKusick et al. 1984, §3.3; Seltzer 1992, §3.3; `study/allocation.md`.

mod bits;
mod buddy;
mod cylinder_groups;
mod extent;
mod fixed;
mod free_extents;
mod mix;
mod policy;
mod restricted;

pub use buddy::Buddy;
pub(crate) use cylinder_groups::DIRECT;
pub use cylinder_groups::{CylinderGroups, Placement, Shape};
pub use extent::{Extents, Fit};
pub use fixed::{Fixed, Order};
pub use policy::{Policy, PolicyError, SIZES_MAX};
pub use restricted::{Grow, Restricted, RestrictedError};

use std::ops::Range;

/// A run of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Extent {
    /// The first.
    pub start: u64,
    /// How many.
    pub units: u64,
}

impl From<Range<u64>> for Extent {
    fn from(units: Range<u64>) -> Self {
        Extent {
            start: units.start,
            units: units.end - units.start,
        }
    }
}

impl Extent {
    /// One past the last unit; saturates, so that it can be asked of any bytes.
    pub fn end(self) -> u64 {
        self.start.saturating_add(self.units)
    }

    /// What a tail lacks to be of so many units where it is; `None` if that would
    /// reach beyond its block of `block` units.
    pub fn lacks(self, units: u64, block: u64) -> Option<Extent> {
        let fits = self.start % block + units <= block && units > self.units;
        fits.then(|| Extent {
            start: self.end(),
            units: units - self.units,
        })
    }
}

/// What a policy is told of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileView {
    /// A number that stays the file's: its inode's.
    pub number: u64,
    /// Units it holds.
    pub held: u64,
    /// One past its last unit, if it holds any.
    pub end: Option<u64>,
    /// A unit of the region in which its inode lies ([`Allocator::home`]).
    pub home: u64,
    /// Mean size of extents that its owner asked for, units; 0 if he did not.
    pub wish: u64,
}

impl FileView {
    /// The same file once it holds the extents, too.
    #[must_use]
    pub fn with(mut self, extents: &[Extent]) -> Self {
        self.held += extents.iter().map(|extent| extent.units).sum::<u64>();
        self.end = extents.last().map(|extent| extent.end()).or(self.end);
        self
    }
}

/// What a new home is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A file: it belongs near its directory.
    File,
    /// A directory: they are spread.
    Directory,
}

/// There is no such room: nothing was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no room for {units} units ({free} are free, in pieces that do not serve)")]
pub struct NoRoom {
    /// Units that were asked for.
    pub units: u64,
    /// Units that are free.
    pub free: u64,
}

/// An extent cannot be taken or given back: the map is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// It is empty or reaches beyond the volume.
    #[error("units {} to {} are not in a volume of {capacity}", extent.start, extent.end())]
    Outside {
        /// Which.
        extent: Extent,
        /// Units of the volume.
        capacity: u64,
    },
    /// It does not begin and end where this policy's blocks do.
    #[error("units {} to {} are not whole blocks of {block}", extent.start, extent.end())]
    Misaligned {
        /// Which.
        extent: Extent,
        /// Units of a block.
        block: u64,
    },
    /// Some of it is taken already.
    #[error("units {} to {}: some are taken already", .0.start, .0.end())]
    Taken(Extent),
    /// Some of it is free already.
    #[error("units {} to {}: some are free already", .0.start, .0.end())]
    Free(Extent),
}

/// A policy with its map. See the module's head.
pub trait Allocator: Send + std::fmt::Debug {
    /// Units of the volume that the policy can ever hand out.
    fn capacity(&self) -> u64;

    /// Units that are free.
    fn free_units(&self) -> u64;

    /// Free units in pieces that serve for any block of a layout: what can be
    /// promised without knowing of what size it will be asked for. All, where a
    /// layout's block is one unit.
    fn free_in_blocks(&self) -> u64 {
        self.free_units()
    }

    /// Appends to `out` extents of at least `units` units for the file, in the
    /// order of its bytes. More than was asked for is the file's all the same.
    ///
    /// # Errors
    /// There is no room for all of them; then nothing was taken.
    fn extend(&mut self, file: &FileView, units: u64, out: &mut Vec<Extent>) -> Result<(), NoRoom>;

    /// Whether `extend` would succeed. Costs as much.
    fn fits(&mut self, file: &FileView, units: u64) -> bool {
        let mut taken = Vec::new();
        let fits = self.extend(file, units, &mut taken).is_ok();
        self.give_back(&taken);
        fits
    }

    /// Takes the least that can be had, where it harms least, `near` if that is no
    /// matter. Somebody who has promised room gets it so where `extend` finds none
    /// of the sizes it wants. `None` if nothing is free.
    fn piece(&mut self, near: u64) -> Option<Extent>;

    /// Units that a file holds which was given room for `units`, and for no
    /// more, in one go or in steps. A file that is cut keeps so many.
    fn rounded(&self, file: &FileView, units: u64) -> u64;

    /// Gives units back.
    ///
    /// # Errors
    /// They are not all taken, or not whole blocks.
    fn release(&mut self, extent: Extent) -> Result<(), MapError>;

    /// Marks units as taken: the map is rebuilt from the files there are.
    ///
    /// # Errors
    /// They are not all free, or not whole blocks.
    fn occupy(&mut self, extent: Extent) -> Result<(), MapError>;

    /// Whether all of it is free.
    fn is_free(&self, extent: Extent) -> bool;

    /// Where a new file or directory belongs whose parent's home is `near`.
    fn home(&self, near: u64, kind: Kind) -> u64 {
        let _ = kind;
        near
    }

    /// Takes a better place for a file of which `units` are used: its bytes are
    /// to be copied there, and what it holds is to be given back. `None` if the
    /// policy has none, or knows of no such thing.
    fn reallocate(&mut self, file: &FileView, units: u64) -> Option<Vec<Extent>> {
        let _ = (file, units);
        None
    }

    /// Free runs, by their first unit, for statistics: each as long as the
    /// policy could use it.
    fn free_runs(&self) -> Vec<Extent>;

    /// Gives back what this map has just handed out.
    ///
    /// # Panics
    /// If it has not.
    fn give_back(&mut self, extents: &[Extent]) {
        for extent in extents {
            let released = self.release(*extent);
            released.expect("it was handed out by this map");
        }
    }
}

/// Checks that an extent is one, within `capacity` units.
fn inside(extent: Extent, capacity: u64) -> Result<(), MapError> {
    let end = extent.start.checked_add(extent.units);
    match end.is_some_and(|end| end <= capacity) && extent.units > 0 {
        true => Ok(()),
        false => Err(MapError::Outside { extent, capacity }),
    }
}

/// Appends an extent, joined to the one before if it goes on where that ends;
/// what lies before index `from` is left alone.
pub(crate) fn push(out: &mut Vec<Extent>, from: usize, extent: Extent) {
    let joins = |last: &&mut Extent| last.end() == extent.start;
    match out[from..].last_mut().filter(joins) {
        Some(last) => last.units += extent.units,
        None => out.push(extent),
    }
}

#[cfg(test)]
mod tests;
