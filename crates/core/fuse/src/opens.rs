//! Opens of files: which ones the kernel asks for, and what an open file is like.
//!
//! A kernel that needs no OPEN gets that answer once and sends neither OPEN nor RELEASE again. Opens
//! are asked for where file flags, O_DSYNC or the locks of a view require it.
//!
//! Invariants: `dsync ⇒ are_asked`, `handles exist ⇒ are_asked`, and no two open files have the
//! same handle other than 0.

use crate::protocol::{OpenOut, fopen};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How the opens of a mount are answered.
pub(crate) struct Opens {
    are_asked: bool,
    dsync: bool,
    /// The last handle, where files have handles.
    handles: Option<AtomicU64>,
}

impl Opens {
    /// Opens of a mount. With `dsync`, synchronous writes pass the kernel's cache. With
    /// `handles`, each open file has a handle, which its close names.
    pub(crate) fn new(are_asked: bool, dsync: bool, handles: bool) -> Self {
        assert!(are_asked || !dsync && !handles, "nothing asks for opens");
        Opens {
            are_asked,
            dsync,
            handles: handles.then(AtomicU64::default),
        }
    }

    /// True if the kernel asks before it opens a file.
    pub(crate) fn are_asked(&self) -> bool {
        self.are_asked
    }

    /// True if writes to a file that was opened with `flags` pass the kernel's cache and are
    /// durable when they are answered.
    pub(crate) fn is_dsync(&self, flags: u32) -> bool {
        self.dsync && flags & libc::O_DSYNC as u32 != 0
    }

    /// An open file. Its cached pages stay valid, because all changes are made through the
    /// kernel. If `is_direct`, its writes pass the kernel's cache, several at the same time.
    pub(crate) fn file(&self, is_direct: bool) -> OpenOut {
        let direct = match is_direct {
            true => fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES,
            false => 0,
        };
        let last = self.handles.as_ref();
        OpenOut {
            fh: last.map_or(0, |last| last.fetch_add(1, Relaxed) + 1),
            open_flags: fopen::KEEP_CACHE | direct,
            ..OpenOut::default()
        }
    }

    /// An open directory, whose listing may be cached. It has no handle.
    pub(crate) fn directory(&self) -> OpenOut {
        OpenOut {
            open_flags: fopen::KEEP_CACHE | fopen::CACHE_DIR,
            ..OpenOut::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_given_where_closes_must_be_known() {
        let plain = Opens::new(false, false, false);
        assert_eq!((plain.file(false).fh, plain.file(false).fh), (0, 0));
        let view = Opens::new(true, false, true);
        assert_eq!((view.file(false).fh, view.file(true).fh), (1, 2));
        assert_eq!(view.directory().fh, 0);
    }

    #[test]
    fn only_synchronous_files_of_such_mounts_pass_the_cache() {
        let flags = (libc::O_RDWR | libc::O_DSYNC) as u32;
        let dsync = Opens::new(true, true, false);
        assert!(dsync.is_dsync(flags) && !dsync.is_dsync(libc::O_RDWR as u32));
        assert!(!Opens::new(true, false, false).is_dsync(flags));
        let direct = |is| dsync.file(is).open_flags & fopen::DIRECT_IO != 0;
        assert!(direct(true) && !direct(false));
    }
}
