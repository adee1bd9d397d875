//! Times of files at a commit: conflicts, and the resulting times.
//!
//! A change of content or names sets mtime and ctime to the same present. An mtime that
//! has changed and differs from ctime was therefore *set* by a caller. An atime was set
//! if it changed together with ctime, which a read does not change. So the values show
//! whether a time was set, and operations outside of transactions need not record it.
//! (`touch` sets the present and looks like a change.)
//!
//! - Times that followed from changes on both sides are merged: the later one.
//! - A time that the transaction set, or that its change gave to a file whose time was
//!   set outside, remains: the transaction is after the changes that were committed
//!   earlier.
//! - Times that were set on both sides to different values are a conflict. If they were
//!   merged, the files of two transactions that set them crosswise would have the times
//!   of neither.
//! - A serializable transaction that saw a file's times conflicts with any change of
//!   mtime. Directories are an exception: they are part of each path, and each new name
//!   changes their times, so only a time that was set counts. An atime always counts only
//!   if it was set, because each read outside may change it.

use crate::inode::Inode;
use crate::types::{FileKind, Timestamp};

/// Times of a file that were set since `origin`.
struct Set {
    atime: bool,
    mtime: bool,
}

impl Set {
    fn since(origin: &Inode, now: &Inode) -> Self {
        let mtime = now.mtime != origin.mtime && now.mtime != now.ctime;
        let same_content = now.mtime == origin.mtime;
        let atime = now.atime != origin.atime && now.ctime != origin.ctime;
        Set {
            atime: atime && (mtime || same_content),
            mtime,
        }
    }
}

/// True if the transaction and another one have set a time of a file to different values.
pub(super) fn are_contended(origin: &Inode, mine: &Inode, theirs: &Inode) -> bool {
    let (by_us, by_them) = (Set::since(origin, mine), Set::since(origin, theirs));
    by_us.mtime && by_them.mtime && mine.mtime != theirs.mtime
        || by_us.atime && by_them.atime && mine.atime != theirs.atime
}

/// True if times that a serializable transaction saw have changed.
pub(super) fn are_outdated(kind: FileKind, origin: &Inode, theirs: &Inode) -> bool {
    let set = Set::since(origin, theirs);
    let changed = kind != FileKind::Directory && theirs.mtime != origin.mtime;
    changed || set.mtime || set.atime
}

/// Merges the times into the target.
pub(super) fn merge(origin: &Inode, mine: &Inode, theirs: &mut Inode) {
    let (by_us, by_them) = (Set::since(origin, mine), Set::since(origin, theirs));
    let times = |inode: &Inode| [inode.atime, inode.mtime, inode.ctime];
    let (before, mine, now) = (times(origin), times(mine), times(theirs));
    let is_last = [by_us.atime, by_us.mtime || by_them.mtime, false];
    let merged = |at: usize| -> Timestamp {
        if mine[at] == before[at] {
            now[at]
        } else if is_last[at] || now[at] == before[at] {
            mine[at]
        } else {
            mine[at].max(now[at])
        }
    };
    (theirs.atime, theirs.mtime, theirs.ctime) = (merged(0), merged(1), merged(2));
}
