//! Where a volume stands as an original or a copy (`docs/spec/stream.md`).
//!
//! The mark of a copy is in the summaries of the group that brought it there, or in a
//! group of its own.

use crate::error::Result;
use crate::format::Mark;
use crate::lfs::Lfs;
use crate::log::{GroupKind, LogItem, Stamp};
use varve_fs::{InodeNo, Position, Purpose, Unwritten, Usage, Waiting};

/// What an image or a record counts for beside its content, in bytes.
pub(crate) const BESIDE: u64 = 512;

impl Lfs {
    /// The end of the last group; on a copy that of the original's group that was
    /// replayed last.
    pub fn mark(&self) -> Mark {
        let log = self.log.lock();
        let replayed = self.layers.read().replayed();
        replayed.unwrap_or(log.mark)
    }

    /// True if the volume is a copy: its [`Lfs::mark`] is of another one's log.
    pub fn is_copy(&self) -> bool {
        self.layers.read().replayed().is_some()
    }

    /// Writes where the copy stands in a group of its own, with the root's inode as it
    /// is.
    ///
    /// # Errors
    /// `OutOfSegments`; device errors.
    pub(crate) fn write_mark(&self, mark: Mark) -> Result<Position> {
        let root = self.layers.lookup().inode(InodeNo::ROOT)?.0;
        let inode = Box::new(root.inode.clone());
        // Making room may write what must not come before the first mark.
        if !self.space.checkpoints_fit_now(2) {
            let unwritten = Unwritten {
                bytes: BESIDE,
                images: 1,
                ..Unwritten::default()
            };
            let waiting = Waiting {
                unwritten,
                ..Waiting::default()
            };
            let usage = self.layers.read().usage;
            self.make_room(usage, waiting, Purpose::Shrink)?;
        }
        self.append_stamped(vec![LogItem::Image { inode }], None, mark)
    }

    /// Appends a group with the mark of the one that it replays.
    pub(crate) fn append_stamped(
        &self,
        items: Vec<LogItem>,
        usage: Option<Usage>,
        mark: Mark,
    ) -> Result<Position> {
        let replays = Some(mark);
        let stamp = Stamp { usage, replays };
        let written = self.writer.write_stamped(items, GroupKind::User, stamp)?;
        let written = written.expect("only the cleaner's groups are refused");
        Ok(Position(written.serial))
    }
}
