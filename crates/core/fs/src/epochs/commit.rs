//! fsync, sync, checkpoint: the waits for durability.
//!
//! An fsync waits for its own file's data and for every earlier directory operation,
//! because both are in the group it captures, and for one flush. Callers share both. A
//! caller may find, after waiting for the writer lock, that a capture which began after
//! its own call included its file; then it only has to commit. Commits run outside the
//! writer lock, while the next group is captured.

use crate::epochs::capture::Take;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::{Cause, Layout, Position};
use crate::memory::vnode::{Life, Vnode};
use crate::memory::writer::Writer;
use crate::planted::{self, Planted};
use crate::statistics::count;
use crate::types::InodeNo;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

impl<L: Layout> FileSystem<L> {
    /// Makes a file durable: its data and attributes, and every earlier directory
    /// operation. With `data_only`, attributes that are not needed to find the data may
    /// wait. For a directory: every directory operation so far, and no file's data.
    ///
    /// # Errors
    /// Errors of the failed write or flush; nothing is written afterwards. `NotDurable`
    /// if that was earlier.
    pub fn fsync(&self, ino: InodeNo, data_only: bool) -> Result<()> {
        self.make_durable(ino, data_only).map_err(too_late)
    }

    /// True if there is nothing to make durable here: the volume does not change, or a
    /// private tree's commit does it.
    pub(crate) fn is_settled(&self) -> bool {
        self.store.geometry.read_only.is_some() || self.below.is_some()
    }

    fn make_durable(&self, ino: InodeNo, data_only: bool) -> Result<()> {
        count(&self.store.counters.fsyncs, 1);
        if self.is_settled() {
            return Ok(());
        }
        let vnode = self.vnode(ino)?;
        let commit = |position| match data_only {
            true => self.commit_by(position, |layout| layout.commit_data(position)),
            false => self.commit(position),
        };
        if self.is_logged(&vnode, data_only)? {
            return commit(Position(self.appended.load(Acquire)));
        }
        let mut before = self.captures_started.load(Acquire);
        if planted::is(Planted::EarlierCapture) {
            before = before.saturating_sub(1);
        }
        self.queues().wanted.push(Arc::clone(&vnode)); // for the thread that captures first
        self.shrink_to_group(&vnode)?;
        let position = {
            let mut writer = self.writer();
            if vnode.read().captured > before {
                self.check_failed()?;
                count(&self.store.counters.shared_captures, 1);
                self.has_shared();
                self.queues()
                    .wanted
                    .retain(|wanted| !Arc::ptr_eq(wanted, &vnode));
                Position(self.appended.load(Acquire))
            } else {
                self.capture_wanted(&mut writer, vnode, before)?
            }
        };
        commit(position)
    }

    /// Captures a file that waits for its fsync, and further waiting files with it; only
    /// those as long as they fill the groups of a layout that bounds them.
    fn capture_wanted(
        &self,
        writer: &mut Writer,
        vnode: Arc<Vnode>,
        before: u64,
    ) -> Result<Position> {
        loop {
            self.queues().wanted.push(Arc::clone(&vnode));
            let position = self.capture(writer, Take::Wanted, Cause::Sync)?;
            let state = vnode.read();
            if state.captured > before || state.life == Life::Freed {
                return Ok(position);
            }
        }
    }

    /// True if everything that an fsync of this file would write has been appended.
    fn is_logged(&self, vnode: &Vnode, data_only: bool) -> Result<bool> {
        self.check_failed()?;
        let state = vnode.read();
        state.live()?;
        if state.has_data() || state.in_epoch {
            return Ok(false);
        }
        drop(state);
        if !data_only && self.queues().members() > 0 {
            return Ok(false);
        }
        // A running capture may contain changes that are no longer in the lists.
        let finished = self.captures_finished.load(Acquire);
        Ok(finished == self.captures_started.load(Acquire))
    }

    /// Writes back most of a file with very much dirty data, so that the group with the
    /// rest stays small.
    pub(crate) fn shrink_to_group(&self, vnode: &Arc<Vnode>) -> Result<()> {
        if self.below.is_some() {
            return Ok(());
        }
        let mut bytes = (vnode.read().dirty.len() * self.store.block_bytes) as u64;
        while bytes > self.group_bytes() && !self.settings.strict_order {
            let mut writer = self.writer();
            let part = self.group_bytes();
            self.capture(&mut writer, Take::Part(vnode), Cause::Sync)?;
            bytes = bytes.saturating_sub(part);
        }
        Ok(())
    }

    /// Makes all data and metadata durable with one flush.
    ///
    /// # Errors
    /// As [`Self::fsync`].
    pub fn sync(&self) -> Result<()> {
        if self.is_settled() {
            return Ok(());
        }
        let position = self.append_all(Cause::SyncAll).map_err(too_late)?;
        self.commit(position).map_err(too_late)
    }

    pub(crate) fn commit(&self, position: Position) -> Result<()> {
        self.commit_by(position, |layout| layout.commit(position).map(|()| true))
    }

    /// Makes groups durable by calling `commit`, which returns whether all of them are
    /// durable completely.
    fn commit_by(&self, position: Position, commit: impl FnOnce(&L) -> Result<bool>) -> Result<()> {
        if self.committed.load(Acquire) >= position.0 {
            return self.check_failed();
        }
        count(&self.store.counters.commits, 1);
        let committed = commit(&self.store.layout);
        let is_whole = committed.inspect_err(|error| self.fail(error))?;
        if is_whole {
            self.committed.fetch_max(position.0, AcqRel);
        }
        Ok(())
    }
}

/// Converts the refusal of writes for callers that wait for durability: they must not
/// take it for a refusal of their data, which was accepted before.
fn too_late(error: Error) -> Error {
    match error {
        Error::ReadOnly(reason) => Error::NotDurable(reason),
        other => other,
    }
}
