//! Releasing the units that the tree no longer uses.

use crate::Vlfs;
use crate::error::{Error, Result};
use crate::format::Extent;
use crate::writer::Writer;
use varve_fs::planted::{self, Planted};

impl Vlfs {
    /// Releases the space of data, which is free once the next transaction is durable.
    ///
    /// # Errors
    /// If the bits of used units have it as free already.
    pub(super) fn release(&self, writer: &mut Writer, extent: Extent) -> Result<()> {
        writer.runs.give_up(extent.unit);
        writer.unfolded.give_up(extent.unit);
        writer.owners.forget(extent);
        (writer.space.release(extent)).map_err(|extent| self.not_of_the_tree(extent))
    }

    /// Releases an index node or an inode. Recovery may need it until the next full
    /// transaction is durable.
    pub(super) fn retire(&self, writer: &mut Writer, extent: Extent) -> Result<()> {
        if planted::is(Planted::MetadataNotHeld) {
            return self.release(writer, extent);
        }
        writer.owners.forget(extent);
        (writer.space.hold(extent)).map_err(|extent| self.not_of_the_tree(extent))
    }

    fn not_of_the_tree(&self, extent: Extent) -> Error {
        let reason = format!(
            "{} units at {} are of the tree, and free by the bits of used units: run fsck",
            extent.units, extent.unit
        );
        self.stop(reason.clone());
        Error::Stopped(reason)
    }
}
