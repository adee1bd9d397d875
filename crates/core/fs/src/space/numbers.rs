//! Numbers of files that are about to be made, which may run out before blocks do.

use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::{Cause, Layout};
use crate::types::{FileKind, InodeNo, Version};

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
}
