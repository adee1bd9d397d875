//! Volumes that are created, served and checked, for a case.

use super::{Case, Wrong};
use crate::mounted::Tree;
use varve_fs::Result;

/// Options of a mount that a volume does not store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Number of heads of the log; 0 for the number that the policy wants. A small volume
    /// gets fewer.
    pub heads: u32,
    /// Number of the cleaning policy, modulo their count.
    pub policy: usize,
}

/// The volumes of a layout.
pub trait Volumes: Sync {
    /// Returns the name of the layout.
    fn name(&self) -> &'static str;

    /// Makes a volume of the case's shape, or of a similar one.
    ///
    /// # Errors
    /// The reason of the failure.
    fn make(&self, case: &Case) -> std::result::Result<Box<dyn Volume>, Wrong>;
}

/// A volume.
pub trait Volume: Sync {
    /// Serves the volume for the mount of this number.
    ///
    /// # Errors
    /// The reason of the failure, and damage that was found.
    fn serve(&self, service: Service, nth: u64) -> std::result::Result<Box<dyn Served>, Wrong>;

    /// Returns the findings of an offline check; empty for an undamaged volume.
    fn check(&self) -> Vec<String>;
}

/// A volume that is served. Dropping it kills the server.
pub trait Served: Send + Sync {
    /// Returns its tree.
    fn tree(&self) -> &dyn Tree;

    /// Returns the bytes per block.
    fn block_bytes(&self) -> u32;

    /// Returns the bytes that the extended attributes of a file may take.
    fn attribute_bytes(&self) -> usize;

    /// Takes a step of a mount's background work, if no server does it.
    ///
    /// # Errors
    /// The reason of the failure.
    fn step(&self) -> Result<()>;

    /// Takes one of the steps between removals, and returns its name.
    fn pause(&self, which: u64) -> (&'static str, Result<()>);

    /// Completes the due background work. Returns true if the free space is exact then;
    /// if only a server decides when it takes a checkpoint, it is exact after the
    /// unmount.
    ///
    /// # Errors
    /// The reason of the failure.
    fn settle(&self) -> std::result::Result<bool, Wrong>;

    /// Unmounts it.
    ///
    /// # Errors
    /// The reason of the failure.
    fn unmount(self: Box<Self>) -> std::result::Result<(), Wrong>;
}
