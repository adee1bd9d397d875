//! What a case runs on: volumes that are made, served and checked.

use super::{Case, Wrong};
use crate::mounted::Tree;
use varve_fs::Result;

/// What a mount decides and a volume does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Heads of the log; 0: as many as the policy wants. A small volume gets fewer.
    pub heads: u32,
    /// Which of the cleaning policies, counted on beyond the last.
    pub policy: usize,
}

/// The volumes of a layout.
pub trait Volumes: Sync {
    /// The layout, for people.
    fn name(&self) -> &'static str;

    /// Makes a volume of the case's shape, or one near to it.
    ///
    /// # Errors
    /// What stopped it.
    fn make(&self, case: &Case) -> std::result::Result<Box<dyn Volume>, Wrong>;
}

/// A volume.
pub trait Volume: Sync {
    /// Has it served, for the time of this number.
    ///
    /// # Errors
    /// What stopped it, and damage that was found.
    fn serve(&self, service: Service, nth: u64) -> std::result::Result<Box<dyn Served>, Wrong>;

    /// What an offline check finds wrong; empty for a sound volume.
    fn check(&self) -> Vec<String>;
}

/// A volume that is served. Who drops it has killed the server.
pub trait Served: Send + Sync {
    /// What is on it.
    fn tree(&self) -> &dyn Tree;

    /// Bytes in a block.
    fn block_bytes(&self) -> u32;

    /// Bytes that the extended attributes of a file may take.
    fn attribute_bytes(&self) -> usize;

    /// A step of the work behind a mount, where nobody else does it.
    ///
    /// # Errors
    /// What stopped it.
    fn step(&self) -> Result<()>;

    /// One of the things that go on beside removals, and its name.
    fn pause(&self, which: u64) -> (&'static str, Result<()>);

    /// Ends the work that is due in the background. True if room is counted exactly
    /// then; where only a server knows when it takes a checkpoint it is when it ends.
    ///
    /// # Errors
    /// What stopped it.
    fn settle(&self) -> std::result::Result<bool, Wrong>;

    /// Ends it in order.
    ///
    /// # Errors
    /// What stopped it.
    fn unmount(self: Box<Self>) -> std::result::Result<(), Wrong>;
}
