//! Allocation policies: the choice of the units that a file gets.
//!
//! A policy allocates *units*, numbered from 0, and keeps in memory which ones are
//! free. It does no I/O and uses no random numbers except those of its seed, so that a
//! mounted layout and the simulator of the laboratory use the same code.
//!
//! Invariants of every policy:
//! - No unit is allocated twice without being released in between.
//! - [`Allocator::extend`] allocates all that was requested, or changes nothing.
//! - Free units are coalesced as far as the policy can use that: when all units have
//!   been released, the map is as in the beginning.
//! - All that a policy knows of a file follows from the file's extents and its number
//!   ([`FileView`]); the policy stores nothing for it.
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
    /// The first unit.
    pub start: u64,
    /// Number of units.
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
    /// Returns one past the last unit. It saturates, so that it is safe for any values.
    pub fn end(self) -> u64 {
        self.start.saturating_add(self.units)
    }

    /// Returns the units that a tail must gain to have `units` units at its present
    /// place; `None` if it would extend beyond its block of `block` units.
    pub fn lacks(self, units: u64, block: u64) -> Option<Extent> {
        let fits = self.start % block + units <= block && units > self.units;
        fits.then(|| Extent {
            start: self.end(),
            units: units - self.units,
        })
    }
}

/// The properties of a file that a policy may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileView {
    /// A number that the file keeps: its inode number.
    pub number: u64,
    /// Number of units that the file has.
    pub held: u64,
    /// One past the file's last unit, if it has any.
    pub end: Option<u64>,
    /// A unit of the region that contains the file's inode ([`Allocator::home`]).
    pub home: u64,
    /// Mean size of extents that the owner requested, in units; 0 for no request.
    pub wish: u64,
}

impl FileView {
    /// Returns the view of the file with these extents added.
    #[must_use]
    pub fn with(mut self, extents: &[Extent]) -> Self {
        self.held += extents.iter().map(|extent| extent.units).sum::<u64>();
        self.end = extents.last().map(|extent| extent.end()).or(self.end);
        self
    }
}

/// The kind of object for which a home is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A file, which belongs near its directory.
    File,
    /// A directory; directories are spread over the volume.
    Directory,
}

/// The units are not available. None was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no room for {units} units ({free} are free, in pieces that do not serve)")]
pub struct NoRoom {
    /// Number of units requested.
    pub units: u64,
    /// Number of units that are free.
    pub free: u64,
}

/// The reason why an extent could not be taken or released. The map is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The extent is empty or extends beyond the volume.
    #[error("units {} to {} are not in a volume of {capacity}", extent.start, extent.end())]
    Outside {
        /// The extent.
        extent: Extent,
        /// Number of units of the volume.
        capacity: u64,
    },
    /// The extent does not consist of whole blocks of this policy.
    #[error("units {} to {} are not whole blocks of {block}", extent.start, extent.end())]
    Misaligned {
        /// The extent.
        extent: Extent,
        /// Number of units of a block.
        block: u64,
    },
    /// A part of the extent is taken already.
    #[error("units {} to {}: some are taken already", .0.start, .0.end())]
    Taken(Extent),
    /// A part of the extent is free already.
    #[error("units {} to {}: some are free already", .0.start, .0.end())]
    Free(Extent),
}

/// An allocation policy with its map of free units. The module's documentation has the
/// invariants.
pub trait Allocator: Send + std::fmt::Debug {
    /// Returns the number of units of the volume that the policy can ever allocate.
    fn capacity(&self) -> u64;

    /// Returns the number of free units.
    fn free_units(&self) -> u64;

    /// Returns the number of free units in pieces that suffice for any block of a
    /// layout. That many can be promised without knowing the size of later requests. If
    /// a layout's block is one unit, these are all free units.
    fn free_in_blocks(&self) -> u64 {
        self.free_units()
    }

    /// Appends to `out` extents of at least `units` units for the file, in the order of
    /// its bytes. Units beyond the request belong to the file as well.
    ///
    /// # Errors
    /// The space does not suffice for all of them; then none was taken.
    fn extend(&mut self, file: &FileView, units: u64, out: &mut Vec<Extent>) -> Result<(), NoRoom>;

    /// Returns true if `extend` would succeed. The cost is the same.
    fn fits(&mut self, file: &FileView, units: u64) -> bool {
        let mut taken = Vec::new();
        let fits = self.extend(file, units, &mut taken).is_ok();
        self.give_back(&taken);
        fits
    }

    /// Takes the smallest possible piece, where it does the least harm, near `near` if
    /// all places are equal. A caller that has promised space uses it when `extend`
    /// finds none of the sizes that it wants. Returns `None` if nothing is free.
    fn piece(&mut self, near: u64) -> Option<Extent>;

    /// Returns how many units a file has that was given space for exactly `units`
    /// units, in one step or in several. A file that is truncated keeps that many.
    fn rounded(&self, file: &FileView, units: u64) -> u64;

    /// Releases units.
    ///
    /// # Errors
    /// The units are not all taken, or not whole blocks.
    fn release(&mut self, extent: Extent) -> Result<(), MapError>;

    /// Marks units as taken, while the map is rebuilt from the existing files.
    ///
    /// # Errors
    /// The units are not all free, or not whole blocks.
    fn occupy(&mut self, extent: Extent) -> Result<(), MapError>;

    /// Returns true if all of the extent is free.
    fn is_free(&self, extent: Extent) -> bool;

    /// Returns the home of a new file or directory whose parent has the home `near`.
    fn home(&self, near: u64, kind: Kind) -> u64 {
        let _ = kind;
        near
    }

    /// Takes a better place for a file that uses `units` units. The caller must copy
    /// the bytes there and release the file's present extents. Returns `None` if the
    /// policy has no better place or does not reallocate.
    fn reallocate(&mut self, file: &FileView, units: u64) -> Option<Vec<Extent>> {
        let _ = (file, units);
        None
    }

    /// Returns the free runs by their first unit, for statistics. Each is as long as
    /// the policy could use it.
    fn free_runs(&self) -> Vec<Extent>;

    /// Releases extents that this map has just allocated.
    ///
    /// # Panics
    /// If an extent was not allocated by this map.
    fn give_back(&mut self, extents: &[Extent]) {
        for extent in extents {
            let released = self.release(*extent);
            released.expect("it was handed out by this map");
        }
    }
}

/// Checks that an extent is not empty and is within `capacity` units.
fn inside(extent: Extent, capacity: u64) -> Result<(), MapError> {
    let end = extent.start.checked_add(extent.units);
    match end.is_some_and(|end| end <= capacity) && extent.units > 0 {
        true => Ok(()),
        false => Err(MapError::Outside { extent, capacity }),
    }
}

/// Appends an extent, joined to the one before if it begins where that ends. Extents
/// before index `from` are not changed.
pub(crate) fn push(out: &mut Vec<Extent>, from: usize, extent: Extent) {
    let joins = |last: &&mut Extent| last.end() == extent.start;
    match out[from..].last_mut().filter(joins) {
        Some(last) => last.units += extent.units,
        None => out.push(extent),
    }
}

#[cfg(test)]
mod tests;
