//! Snapshots for private trees.

use crate::epochs::capture::Take;
use crate::error::Result;
use crate::file_system::FileSystem;
use crate::isolation::Snapshot;
use crate::layout::{Cause, Layout};
use std::sync::Arc;

impl<L: Layout> FileSystem<L> {
    /// Takes a snapshot of the newest tree: all waiting changes are appended, as one
    /// group, and no change occurs between that and the snapshot.
    ///
    /// # Errors
    /// `NotSupported`; errors of the layout.
    pub(crate) fn take_snapshot(&self) -> Result<Arc<Snapshot<L>>> {
        self.relieve_to_one_group()?;
        let mut writer = self.writer();
        let position = self.capture(&mut writer, Take::All, Cause::WriteBack)?;
        let mut newest = self.snapshots.lock();
        if let Some(snapshot) = newest.upgrade()
            && snapshot.position == position
        {
            return Ok(snapshot);
        }
        let snapshot = Arc::new(Snapshot {
            number: self.store.layout.snapshot()?,
            store: Arc::clone(&self.store),
            position,
        });
        *newest = Arc::downgrade(&snapshot);
        Ok(snapshot)
    }

    /// Appends all but the last group's worth of waiting changes.
    fn relieve_to_one_group(&self) -> Result<()> {
        let group_bytes = self.store.geometry.group_bytes;
        self.write_back_while(|| self.waits.bytes() > group_bytes)
    }
}
