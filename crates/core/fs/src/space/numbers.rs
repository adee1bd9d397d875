//! Inode numbers of files that are about to be made, which may run out before blocks do.

use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::{Cause, Layout};
use crate::types::{FileKind, InodeNo, Version};

/// The number of a file that is about to be made. It is returned on drop unless it is
/// [kept](Number::keep).
pub(crate) struct Number<'a, L: Layout> {
    layout: &'a L,
    pub ino: InodeNo,
    pub version: Version,
}

impl<L: Layout> Number<'_, L> {
    /// Keeps the number, because the file exists now.
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
    /// Allocates a number for a new file in a directory. Layouts reuse the numbers of
    /// removed files once their freeing has been appended, so if no other number is left,
    /// that is done first. The caller has no locks and no admitted operation.
    ///
    /// # Errors
    /// `ReadOnly`, `NoSpace`, device errors; errors of reading the snapshot.
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

    /// Appends the records of removed files. Returns true if more may follow.
    fn append_ends(&self) -> Result<bool> {
        if self.reap_step()? {
            return Ok(true);
        }
        if self.waits.bytes() > 0 {
            self.append_all(Cause::WriteBack)?;
        }
        Ok(false)
    }
}
