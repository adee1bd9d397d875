//! Inode numbers of new and of removed files.

use super::FileSystem;
use crate::error::{Error, Result};
use crate::isolation::Kind;
use crate::layout::Layout;
use crate::types::{FileKind, InodeNo, Version, View};

impl<L: Layout> FileSystem<L> {
    /// The mounted tree below this one, or this one itself.
    pub(crate) fn mounted(&self) -> &Self {
        let mut tree = self;
        while let Some(below) = &tree.below {
            tree = &below.target;
        }
        tree
    }

    /// Allocates a number for a new file in a directory. A number that has become free
    /// since the snapshot still belongs to that file in this tree, so it is put aside.
    ///
    /// # Errors
    /// `NoSpace`; errors of reading the snapshot.
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

    /// True if the snapshot below this tree has a file of this number.
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

    /// Returns the number of a removed file that was never logged. It can be reused once
    /// no lock on it remains: a locking transaction keeps locks until its end, a nested
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
