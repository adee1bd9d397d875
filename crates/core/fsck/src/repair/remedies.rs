//! The application of one round's remedies: the session that they change, and their
//! report.

use super::mender::Names;
use super::report::Actions;
use super::session::Session;
use varve_fs::{Inode, InodeNo, Timestamp, Version};
use varve_lfs::{Error, Result};

/// The state of one round's remedies.
pub(super) struct Remedies<'r> {
    pub(super) session: &'r mut Session,
    pub(super) names: Names<'r>,
    pub(super) actions: &'r mut Actions,
}

impl Remedies<'_> {
    /// Returns a text for the file.
    pub(super) fn name(&self, ino: u64) -> String {
        (self.names)(ino)
    }

    /// Completes one remedy: ignores that the file no longer exists, and appends the
    /// edits if they fill a group.
    ///
    /// # Errors
    /// Any other error of `done`, no space, or a failure of the device.
    pub(super) fn settle(&mut self, done: Result<()>) -> Result<()> {
        match done {
            // Another remedy has freed the inode.
            Ok(()) | Err(Error::NoInode(_)) => self.session.flush_if_full(),
            Err(error) => Err(error),
        }
    }

    /// Returns an empty directory with the present time.
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
