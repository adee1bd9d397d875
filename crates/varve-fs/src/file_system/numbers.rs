//! Numbers of new files, and of those that are gone.

use super::FileSystem;
use crate::error::{Error, Result};
use crate::isolation::Kind;
use crate::layout::{Cause, Layout};
use crate::types::{FileKind, InodeNo, Version, View};

/// The number of a file that is about to be made. It is given back unless
/// it is [kept](Number::keep).
pub(crate) struct Number<'a, L: Layout> {
    layout: &'a L,
    pub ino: InodeNo,
    pub version: Version,
}

impl<L: Layout> Number<'_, L> {
    /// The file exists from now on.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl<L: Layout> Drop for Number<'_, L> {
    fn drop(&mut self) {
        self.layout.forget_inode(self.ino);
    }
}

impl<L: Layout> FileSystem<L> {
    /// A number for a new file in a directory. Layouts give the numbers of removed
    /// files out again once their end has been appended, so if there is no other, that
    /// is done first. No lock is held, and no operation under way.
    ///
    /// # Errors
    /// `ReadOnly`, `NoSpace`, device errors; what the snapshot fails to be read with.
    pub(crate) fn take_number(&self, near: InodeNo, kind: FileKind) -> Result<Number<'_, L>> {
        self.check_writable()?;
        let mut goes_on = true;
        loop {
            match self.allocate_inode(near, kind) {
                Err(Error::NoSpace) if goes_on => goes_on = self.mounted().append_ends()?,
                Err(error) => return Err(error),
                Ok((ino, version)) => {
                    let layout = &*self.store.layout;
                    return Ok(Number {
                        layout,
                        ino,
                        version,
                    });
                }
            }
        }
    }

    /// Has the ends of removed files appended. True if there may be more of them.
    fn append_ends(&self) -> Result<bool> {
        if self.reap_step()? {
            return Ok(true);
        }
        if self.waits.bytes() > 0 {
            self.append_all(Cause::WriteBack)?;
        }
        Ok(false)
    }

    /// The mounted tree on which this one stands, or this one.
    pub(crate) fn mounted(&self) -> &Self {
        let mut tree = self;
        while let Some(below) = &tree.below {
            tree = &below.target;
        }
        tree
    }

    /// A number for a new file in a directory. A number that has become free since the snapshot is
    /// still that file's here, and put aside.
    ///
    /// # Errors
    /// `NoSpace`; what the snapshot fails to be read with.
    fn allocate_inode(&self, near: InodeNo, kind: FileKind) -> Result<(InodeNo, Version)> {
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

    /// A file of this tree that was never logged is gone. Its number is another's once
    /// nobody holds locks under it: a locking transaction does until its end, a nested
    /// one until its parent's.
    pub(crate) fn number_is_free(&self, ino: InodeNo) {
        match &self.below {
            Some(below) if matches!(below.kind, Kind::Locking(_)) => {
                below.put_aside.lock().push(ino);
            }
            _ => self.store.layout.forget_inode(ino),
        }
    }
}
