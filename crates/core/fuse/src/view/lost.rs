//! Writes of a transaction that were lost after the kernel had accepted them.
//!
//! The commit fails if there is one. FLUSH and FSYNC of the file report it where the kernel
//! does not: a WRITE for which the transaction has no memory is answered as done, because of
//! errors of cached writes the kernel passes only ENOSPC to close(2) and turns others into EIO.
//!
//! Invariant: `by_file ≠ ∅ ⇒ first is set`.

use crate::errno::Errno;
use parking_lot::Mutex;
use std::collections::HashMap;
use varve_fs::InodeNo;

/// The errors of lost writes.
#[derive(Default)]
pub(crate) struct LostWrites {
    errors: Mutex<LostErrors>,
}

#[derive(Default)]
struct LostErrors {
    first: Option<Errno>,
    /// Errors of writes that were answered as done.
    by_file: HashMap<InodeNo, Errno>,
}

impl LostWrites {
    /// Notes a cached write that was answered with an error.
    pub(crate) fn note(&self, errno: Errno) {
        self.errors.lock().first.get_or_insert(errno);
    }

    /// Notes a cached write to `ino` that is answered as done.
    pub(crate) fn note_answered(&self, ino: InodeNo, errno: Errno) {
        let mut errors = self.errors.lock();
        errors.first.get_or_insert(errno);
        errors.by_file.insert(ino, errno);
    }

    /// The error of the first lost write.
    pub(crate) fn first(&self) -> Option<Errno> {
        let errors = self.errors.lock();
        assert!(errors.by_file.is_empty() || errors.first.is_some());
        errors.first
    }

    /// The error that a close or a sync of `ino` reports.
    pub(crate) fn of(&self, ino: InodeNo) -> Option<Errno> {
        self.errors.lock().by_file.get(&ino).copied()
    }

    /// Removes a file that the kernel has forgotten. [`LostWrites::first`] is kept.
    pub(crate) fn forget(&self, ino: InodeNo) {
        self.errors.lock().by_file.remove(&ino);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_outlives_the_file() {
        let (lost, ino) = (LostWrites::default(), InodeNo(5));
        assert_eq!((lost.first(), lost.of(ino)), (None, None));
        lost.note_answered(ino, Errno::RANGE);
        lost.note(Errno::NO_SPACE);
        assert_eq!(lost.of(ino), Some(Errno::RANGE));
        assert_eq!(lost.of(InodeNo(6)), None);
        lost.forget(ino);
        assert_eq!((lost.first(), lost.of(ino)), (Some(Errno::RANGE), None));
    }
}
