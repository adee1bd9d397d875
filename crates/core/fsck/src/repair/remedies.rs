//! One round's remedies at work: the session they change, and what they tell.

use super::mender::Names;
use super::report::Actions;
use super::session::Session;
use varve_fs::{Inode, InodeNo, Timestamp, Version};
use varve_lfs::{Error, Result};

/// See the module's head.
pub(super) struct Remedies<'r> {
    pub(super) session: &'r mut Session,
    pub(super) names: Names<'r>,
    pub(super) actions: &'r mut Actions,
}

impl Remedies<'_> {
    /// Whose it is, in words.
    pub(super) fn name(&self, ino: u64) -> String {
        (self.names)(ino)
    }

    /// Ends one remedy: what is gone needs none, and what has gathered is
    /// appended if it is much.
    ///
    /// # Errors
    /// Any other of `done`; if there is no room, or the device fails.
    pub(super) fn settle(&mut self, done: Result<()>) -> Result<()> {
        match done {
            // Another remedy has freed it.
            Ok(()) | Err(Error::NoInode(_)) => self.session.flush_if_full(),
            Err(error) => Err(error),
        }
    }

    /// An empty directory, made now.
    pub(super) fn new_directory(&self, ino: InodeNo, version: Version) -> Inode {
        let now = Timestamp::from_ns(self.session.lfs.clock().now_ns());
        Inode {
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            ..super::images::new_directory(ino, version)
        }
    }
}
