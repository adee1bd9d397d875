//! Removing files that are not in memory.
//!
//! If a file is not in memory and loses its last name, its inode is read to see that this
//! is the last name and how much space the file took, and afterwards the file is of no
//! use. So no vnode is made for it. Only its number is kept until the freeing has been
//! logged: in the vnode table, because the layout's state of it is outdated, and in the
//! epoch, which logs the freeing.
//!
//! Invariants:
//! - A file is *alone* if no vnode of its number is in the table and the number is not
//!   referenced. It stays so while the loading lock of its number is taken: a reference
//!   needs a vnode first.
//! - From its freeing until that is logged its number is among the ended ones, and no
//!   vnode of it is made. Afterwards the layout's state is correct.

use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::{Inode, flags};
use crate::layout::{Layout, Usage};
use crate::locks::Ranked;
use crate::memory::queues::Ended;
use crate::memory::vnode::{Vnode, usage_of};
use crate::memory::vnode_table::Known;
use crate::names::unlink::wrong_child;
use crate::statistics::count;
use crate::types::{FileKind, InodeNo, View};
use std::sync::Arc;
use varve_device::sync::MutexGuard;

/// A file that is not in memory, and stays so while this exists.
pub(crate) struct Alone<'a> {
    pub inode: Inode,
    _loading: Ranked<MutexGuard<'a, ()>>,
}

impl Alone<'_> {
    /// Checks that the file is of the kind that the entry of `directory` states.
    ///
    /// # Errors
    /// `Damaged`.
    pub fn must_be(&self, kind: FileKind, directory: InodeNo) -> Result<()> {
        if self.inode.kind() == kind {
            return Ok(());
        }
        let what = "which is of another kind";
        Err(wrong_child(directory, self.inode.ino, what))
    }
}

/// The file of an entry that is to be removed.
pub(crate) enum Taken<'a> {
    /// It is in memory, or has to be.
    Vnode(Arc<Vnode>),
    /// It is not in memory, and is freed with this name.
    Alone(Alone<'a>),
}

impl<L: Layout> FileSystem<L> {
    /// The file of a number of which one name is to be removed.
    ///
    /// # Errors
    /// As [`Self::vnode`].
    pub(crate) fn take_up(&self, ino: InodeNo) -> Result<Taken<'_>> {
        if let Some(vnode) = self.table.get(ino) {
            return Ok(Taken::Vnode(vnode));
        }
        if ino < InodeNo::ROOT {
            return Err(Error::Stale); // an inode of the layout's own
        }
        let loading = self.table.loading(ino);
        match self.table.known(ino) {
            Known::Vnode(vnode) => return Ok(Taken::Vnode(vnode)),
            Known::Ended => return Err(Error::Stale),
            Known::Held => return Ok(Taken::Vnode(self.enter_vnode(ino)?)),
            Known::Nothing if self.below.is_some() => {
                return Ok(Taken::Vnode(self.enter_vnode(ino)?));
            }
            Known::Nothing => {}
        }
        let inode = self.checked_inode(ino, View::Live)?;
        if !self.ends_at_once(&inode) {
            return Ok(Taken::Vnode(self.enter_vnode(ino)?));
        }
        Ok(Taken::Alone(Alone {
            inode,
            _loading: loading,
        }))
    }

    /// True if the file is freed with its next name, in one step.
    fn ends_at_once(&self, inode: &Inode) -> bool {
        inode.nlink <= 1
            && inode.kind() != FileKind::Directory
            && inode.flags & flags::TRUNCATING == 0
            && inode.blocks <= self.settings.step_blocks
    }

    /// Frees a file whose last name has just been removed.
    pub(crate) fn end_alone(&self, file: Alone<'_>) {
        let inode = &file.inode;
        let ended = Ended {
            ino: inode.ino,
            version: inode.version,
            counted: usage_of(inode),
        };
        self.table.end(ended.ino);
        self.space.settle(ended.counted, Usage::default());
        self.waits.image_came();
        let mut queues = self.queues();
        queues.ended.push(ended);
        self.has_joined(&mut queues);
        count(&self.store.counters.frees, 1);
    }
}
