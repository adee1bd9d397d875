//! What a private tree stands on.

use super::Below;
use crate::epochs::capture::Take;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::Inode;
use crate::isolation::Snapshot;
use crate::layout::{Cause, Layout};
use crate::memory::private::Private;
use crate::memory::vnode::{Ground, Vnode};
use crate::types::{FileKind, InodeNo, Version, View};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl<L: Layout> FileSystem<L> {
    /// Holds the newest tree: everything that waits is appended, as one group, and
    /// nothing comes between that and the snapshot.
    ///
    /// # Errors
    /// `NotSupported`; what the layout fails with.
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

    /// Appends all but the last group's worth of what waits.
    fn relieve_to_one_group(&self) -> Result<()> {
        let group_bytes = self.store.geometry.group_bytes;
        self.write_back_while(|| self.waits.bytes() > group_bytes)
    }

    /// A number for a new file in a directory. A number that has become free since the snapshot is
    /// still that file's here, and put aside.
    ///
    /// # Errors
    /// `NoSpace`; what the snapshot fails to be read with.
    pub(crate) fn allocate_inode(
        &self,
        near: InodeNo,
        kind: FileKind,
    ) -> Result<(InodeNo, Version)> {
        let layout = &self.store.layout;
        loop {
            let (ino, version) = layout.allocate_inode(near, kind)?;
            let shown = self.shows(ino);
            match (shown, &self.below) {
                (Ok(true), Some(below)) => below.put_aside.lock().push(ino),
                (Ok(_), _) => return Ok((ino, version)),
                (Err(error), _) => {
                    layout.forget_inode(ino);
                    return Err(error);
                }
            }
        }
    }

    /// The snapshot on which this tree stands has a file of this number.
    fn shows(&self, ino: InodeNo) -> Result<bool> {
        let Some(below) = &self.below else {
            return Ok(false);
        };
        let Some((snapshot, _)) = below.snapshot else {
            return below.target.shows(ino);
        };
        let view = View::Snapshot(snapshot);
        match self.store.layout.read_inode(view, ino) {
            Ok(_) => Ok(true),
            Err(Error::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A private tree's vnode of an inode that is not in memory and has not ended;
    /// its loading lock is held.
    ///
    /// # Errors
    /// `Aborted` after the end; as [`Self::vnode`].
    pub(crate) fn vnode_of_ground(&self, ino: InodeNo, below: &Below<L>) -> Result<Vnode> {
        if below.is_over() {
            return Err(Error::Aborted);
        }
        match below.snapshot {
            Some((number, _)) => {
                let view = View::Snapshot(number);
                let inode = self.checked_inode(ino, view)?;
                Ok(self.copy_of(inode, Ground::Layout(view)))
            }
            None => self.vnode_of_target(ino, &below.target),
        }
    }

    fn copy_of(&self, inode: Inode, ground: Ground) -> Vnode {
        let private = Some(Private::new(inode.clone()));
        Vnode::of(inode, self.store.birth(), ground, self.level, private)
    }

    /// The target's file is held for as long as this one is in memory.
    fn vnode_of_target(&self, ino: InodeNo, target: &FileSystem<L>) -> Result<Vnode> {
        let ground = target.vnode(ino)?;
        let inode = {
            let state = ground.read();
            state.live()?;
            ground.refs.fetch_add(1, Relaxed);
            state.inode.clone()
        };
        Ok(self.copy_of(inode, Ground::Vnode(ground)))
    }
}
