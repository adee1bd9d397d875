//! Errors of writes that the kernel had already accepted, for the next write(2) of the file.
//!
//! With the write-back cache the kernel answers write(2) itself and sends WRITE later. If that
//! fails, it keeps the error for fsync and close, and a program that calls neither continues to
//! write data that is lost. The server sees one request from within write(2) whose error
//! becomes that of write(2): a GETATTR with a file handle, which the kernel sends if its
//! attributes are not valid. So when a cached write fails, or uses the space that is reserved
//! for cached writes, its inode is noted here and its attributes are invalidated; the next such
//! GETATTR is answered with the error, once.
//!
//! Only writers see the error. stat(2) and permission checks send GETATTR without a handle. A
//! read beyond the end and SEEK_END need the size, which under write-back is the kernel's own,
//! so they send one only if the validity of attributes has expired; therefore it never does on
//! such mounts ([`ATTRIBUTES_VALID_S`]). A write needs the mode, too. Linux before 5.16 makes no
//! such difference, so nothing is noted there ([`MINOR_MIN`]). Tried with Linux 6.18.
//!
//! - A program may continue after the error: overwriting a full volume works.
//! - The invalidation is sent by a thread that serves no requests, because it waits for an
//!   inode that is being evicted, which waits for WRITEs. The WRITE is answered afterwards, at
//!   the latest after half a second: with the answer the kernel accepts more data from the
//!   writer, and the reserved space covers what it can accept before.
//! - A stat(2) makes the attributes valid again, and the next write does not see the error.
//!   fsync and close always do (in a transaction that is too large: `view/lost.rs`).
//!
//! Invariant: an inode is in the table only between a WRITE and the next write(2), truncate or
//! FORGET, so `table ⊆ inodes in the kernel's cache`.

use super::Patience;
use crate::errno::Errno;
use parking_lot::Mutex;
use std::collections::HashMap;
use varve_fs::InodeNo;

/// Seconds for which attributes are valid under write-back: a century.
pub(crate) const ATTRIBUTES_VALID_S: u64 = 100 * 365 * 86_400;

/// The protocol's minor version since which the kernel requests only the attributes that it
/// needs (Linux 5.16).
pub(crate) const MINOR_MIN: u32 = 35;

/// The inodes whose next writer gets an error.
#[derive(Default)]
pub(crate) struct WriteErrors {
    /// The error of a lost write. Nothing if a write only used reserved space: its successor
    /// gets ENOSPC if the volume is still full.
    pending: Mutex<HashMap<InodeNo, Option<Errno>>>,
}

impl WriteErrors {
    /// Notes a cached write that was lost with `lost`, or that used reserved space. The first
    /// error of an inode is kept.
    pub(crate) fn note(&self, ino: InodeNo, lost: Option<Errno>) {
        let mut pending = self.pending.lock();
        let entry = pending.entry(ino).or_default();
        *entry = entry.or(lost);
    }

    /// Removes an inode.
    pub(crate) fn forget(&self, ino: InodeNo) {
        self.pending.lock().remove(&ino);
    }

    /// Answers a write(2) to `ino`. `has_space` is asked if that decides. If space may be free
    /// in a moment, returns the `patience` with which to ask again.
    ///
    /// # Errors
    /// The noted error, which is removed.
    pub(crate) fn report(
        &self,
        ino: InodeNo,
        patience: Option<Patience>,
        has_space: impl FnOnce() -> bool,
    ) -> Result<Option<Patience>, Errno> {
        let mut pending = self.pending.lock();
        let answer = match pending.get(&ino) {
            None => return Ok(None),
            Some(Some(lost)) => Err(*lost),
            Some(None) if has_space() => Ok(None),
            Some(None) if patience.is_some() => return Ok(patience),
            Some(None) => Err(Errno::NO_SPACE),
        };
        pending.remove(&ino);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INO: InodeNo = InodeNo(5);

    #[test]
    fn an_error_is_reported_once() {
        let errors = WriteErrors::default();
        let report = |has_space| {
            errors
                .report(INO, None, || has_space)
                .map(|it| it.is_some())
        };
        assert_eq!(report(false), Ok(false));
        errors.note(INO, None);
        assert_eq!(report(false), Err(Errno::NO_SPACE));
        assert_eq!(report(false), Ok(false));
        errors.note(INO, None);
        assert_eq!(report(true), Ok(false));
        assert_eq!(report(false), Ok(false));
        // A lost write is reported even if there is space again, with its first error.
        for lost in [None, Some(Errno(libc::EIO)), Some(Errno::NO_SPACE)] {
            errors.note(INO, lost);
        }
        assert_eq!(report(true), Err(Errno(libc::EIO)));
        errors.note(INO, Some(Errno::NO_SPACE));
        errors.forget(INO);
        assert_eq!(report(false), Ok(false));
    }

    #[test]
    fn an_error_stays_while_space_may_become_free() {
        let errors = WriteErrors::default();
        errors.note(INO, None);
        let patience = Some(Patience::with_removals(1));
        assert!(errors.report(INO, patience, || false).unwrap().is_some());
        assert_eq!(
            errors.report(INO, None, || false).unwrap_err(),
            Errno::NO_SPACE
        );
    }
}
