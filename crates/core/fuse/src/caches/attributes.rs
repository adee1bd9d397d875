//! Attributes that the kernel caches and that an answer does not refresh.
//!
//! The kernel caches each attribute for as long as the mount allows. It learns of a change in
//! one of three means: the answer carries attributes; the kernel itself marks the attributes
//! that such a request changes as outdated; or the server sends an invalidation.
//! `docs/guide/semantics.md`, "Attribute caching", has the table. [`Watched`] decides when the
//! third is needed.
//!
//! The attributes of every inode that a request may change without carrying them in its answer
//! are compared before and after the request, also if it failed. If an attribute differs that
//! the kernel would continue to take from its cache, the server invalidates it before it
//! answers. Without this rule a program runs with set-id rights that a write has removed.
//!
//! - The client that waits for the answer holds the inode, so the kernel is not evicting it,
//!   and the invalidation blocks on nothing: the serving thread sends it. Behind a WRITE from
//!   the write-back cache no client waits; see [`BlockCounts`] and `space/write_errors.rs`.
//! - An older answer that is still in flight does no harm, because the kernel discards
//!   attributes that it requested before an invalidation.
//!
//! **Block counts.** Under write-back, size and times of a file are the kernel's own, but
//! `st_blocks` changes when the server gets the pages, which may be long after the last client
//! waited. [`BlockCounts`] notes such files. The kernel's attributes are invalidated by the
//! next fsync, and otherwise after `BLOCK_COUNT_LAG`. An immediate invalidation would cost a
//! GETATTR in each later write(2).
//!
//! Invariant: `files ≠ ∅ ⇒ is_scheduled`.

use parking_lot::Mutex;
use std::collections::HashSet;
use varve_fs::{Attr, FileKind, InodeNo};

/// The attributes that the kernel itself marks as outdated once a request has succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refreshed {
    /// None.
    Nothing,
    /// The change time.
    ChangeTime,
    /// Size, blocks, modification and change time.
    Content,
}

/// The attributes of an inode before a request that may change them.
pub(crate) struct Watched {
    before: Attr,
    refreshed: Refreshed,
}

impl Watched {
    /// An inode with attributes `before`, of which a successful request refreshes `refreshed`.
    pub(crate) fn new(before: Attr, refreshed: Refreshed) -> Self {
        Watched { before, refreshed }
    }

    /// The inode.
    pub(crate) fn ino(&self) -> InodeNo {
        self.before.ino
    }

    /// True if the request has changed the number of blocks.
    pub(crate) fn has_other_blocks(&self, after: &Attr) -> bool {
        self.before.sectors != after.sectors
    }

    /// True if the kernel's cached attributes must be invalidated. `refreshes` says whether
    /// the kernel marks attributes as outdated itself; under `write_back` it never takes size
    /// and times of a regular file from the server.
    pub(crate) fn is_stale(&self, after: &Attr, refreshes: bool, write_back: bool) -> bool {
        let before = &self.before;
        assert_eq!(before.ino, after.ino, "attributes of two inodes");
        let refreshed = match refreshes {
            true => self.refreshed,
            false => Refreshed::Nothing,
        };
        let is_kernels = write_back && after.kind == FileKind::Regular;
        let rights = |a: &Attr| (a.mode, a.uid, a.gid, a.nlink, a.atime);
        let content = |a: &Attr| (a.size, a.mtime);
        rights(before) != rights(after)
            || refreshed != Refreshed::Content
                && (self.has_other_blocks(after)
                    || !is_kernels && content(before) != content(after))
            || refreshed == Refreshed::Nothing && !is_kernels && before.ctime != after.ctime
    }
}

/// Files whose number of blocks has changed since the kernel's attributes were invalidated.
#[derive(Default)]
pub(crate) struct BlockCounts {
    lagging: Mutex<Lagging>,
}

#[derive(Default)]
struct Lagging {
    files: HashSet<InodeNo>,
    /// A call of [`BlockCounts::take`] is scheduled.
    is_scheduled: bool,
}

impl BlockCounts {
    /// Notes a file. True if the caller must schedule a call of [`BlockCounts::take`].
    pub(crate) fn note(&self, ino: InodeNo) -> bool {
        let mut lagging = self.lagging.lock();
        assert!(lagging.files.is_empty() || lagging.is_scheduled);
        lagging.files.insert(ino);
        !std::mem::replace(&mut lagging.is_scheduled, true)
    }

    /// Removes a file whose attributes are about to be invalidated. True if it was noted.
    pub(crate) fn forget(&self, ino: InodeNo) -> bool {
        self.lagging.lock().files.remove(&ino)
    }

    /// Removes and returns all files.
    pub(crate) fn take(&self) -> HashSet<InodeNo> {
        std::mem::take(&mut *self.lagging.lock()).files
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_fs::Timestamp;

    #[test]
    fn the_first_note_schedules_for_all() {
        let counts = BlockCounts::default();
        assert!(counts.note(InodeNo(5)));
        assert!(!counts.note(InodeNo(5)) && !counts.note(InodeNo(6)));
        assert!(counts.forget(InodeNo(6)) && !counts.forget(InodeNo(6)));
        // An empty table does not end the schedule.
        assert!(counts.forget(InodeNo(5)) && !counts.note(InodeNo(7)));
        assert_eq!(counts.take(), HashSet::from([InodeNo(7)]));
        assert!(counts.note(InodeNo(6)));
    }

    #[test]
    fn attributes_that_the_kernel_refreshes_itself_are_not_stale() {
        let before = Attr {
            ino: InodeNo(5),
            version: 1,
            kind: FileKind::Regular,
            mode: 0o104_755,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 10,
            sectors: 8,
            block_bytes: 4096,
            atime: Timestamp::default(),
            mtime: Timestamp::default(),
            ctime: Timestamp::default(),
            btime: Timestamp::default(),
        };
        let later = Timestamp {
            seconds: 1,
            nanos: 0,
        };
        let stale = |refreshed, change: fn(&mut Attr, Timestamp), refreshes, write_back| {
            let mut after = before;
            change(&mut after, later);
            Watched::new(before, refreshed).is_stale(&after, refreshes, write_back)
        };
        for refreshed in [
            Refreshed::Nothing,
            Refreshed::ChangeTime,
            Refreshed::Content,
        ] {
            assert!(!stale(refreshed, |_, _| {}, false, false));
            assert!(stale(refreshed, |a, _| a.mode = 0o100_755, true, true));
            let is_content = refreshed == Refreshed::Content;
            assert_eq!(
                stale(refreshed, |a, _| a.sectors = 16, true, true),
                !is_content
            );
            assert_eq!(
                stale(refreshed, |a, t| a.mtime = t, true, false),
                !is_content
            );
            // A refused request refreshes nothing; under write-back size and times are the
            // kernel's own.
            assert!(stale(refreshed, |a, t| a.ctime = t, false, false));
            assert!(!stale(
                refreshed,
                |a, t| (a.size, a.ctime) = (99, t),
                false,
                true
            ));
        }
        assert!(!stale(
            Refreshed::ChangeTime,
            |a, t| a.ctime = t,
            true,
            false
        ));
    }
}
