//! Capability, attribute, open and write flags.
#![allow(dead_code, reason = "a protocol is declared whole")]

/// Capabilities of `INIT`: the low half travels in `flags`, the high half in
/// `flags2`.
pub(crate) mod capability {
    pub(crate) const ASYNC_READ: u64 = 1 << 0;
    pub(crate) const POSIX_LOCKS: u64 = 1 << 1;
    pub(crate) const EXPORT_SUPPORT: u64 = 1 << 4;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    pub(crate) const DONT_MASK: u64 = 1 << 6;
    pub(crate) const HAS_IOCTL_DIR: u64 = 1 << 11;
    pub(crate) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(crate) const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub(crate) const FLOCK_LOCKS: u64 = 1 << 10;
    pub(crate) const ASYNC_DIO: u64 = 1 << 15;
    pub(crate) const WRITEBACK_CACHE: u64 = 1 << 16;
    pub(crate) const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(crate) const POSIX_ACL: u64 = 1 << 20;
    pub(crate) const ABORT_ERROR: u64 = 1 << 21;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const CACHE_SYMLINKS: u64 = 1 << 23;
    pub(crate) const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub(crate) const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub(crate) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(crate) const SETXATTR_EXT: u64 = 1 << 29;
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    pub(crate) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub(crate) const ALLOW_IDMAP: u64 = 1 << 40;
    pub(crate) const OVER_IO_URING: u64 = 1 << 41;

    /// Names for reports.
    pub(crate) const NAMES: &[(u64, &str)] = &[
        (ASYNC_READ, "async_read"),
        (POSIX_LOCKS, "posix_locks"),
        (FLOCK_LOCKS, "flock_locks"),
        (EXPORT_SUPPORT, "export_support"),
        (BIG_WRITES, "big_writes"),
        (DONT_MASK, "dont_mask"),
        (HAS_IOCTL_DIR, "has_ioctl_dir"),
        (DO_READDIRPLUS, "readdirplus"),
        (READDIRPLUS_AUTO, "readdirplus_auto"),
        (ASYNC_DIO, "async_dio"),
        (WRITEBACK_CACHE, "writeback_cache"),
        (NO_OPEN_SUPPORT, "no_open"),
        (PARALLEL_DIROPS, "parallel_dirops"),
        (POSIX_ACL, "posix_acl"),
        (ABORT_ERROR, "abort_error"),
        (MAX_PAGES, "max_pages"),
        (CACHE_SYMLINKS, "cache_symlinks"),
        (NO_OPENDIR_SUPPORT, "no_opendir"),
        (EXPLICIT_INVAL_DATA, "explicit_inval_data"),
        (HANDLE_KILLPRIV_V2, "handle_killpriv_v2"),
        (SETXATTR_EXT, "setxattr_ext"),
        (INIT_EXT, "init_ext"),
        (DIRECT_IO_ALLOW_MMAP, "direct_io_allow_mmap"),
        (ALLOW_IDMAP, "allow_idmap"),
        (OVER_IO_URING, "over_io_uring"),
    ];
}

/// `SetattrIn::valid`: which attributes change.
pub(crate) mod fattr {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const CTIME: u32 = 1 << 10;
    /// Clear set-user-id, and set-group-id where the group may execute.
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

/// `OpenOut::open_flags`.
pub(crate) mod fopen {
    pub(crate) const DIRECT_IO: u32 = 1 << 0;
    pub(crate) const KEEP_CACHE: u32 = 1 << 1;
    pub(crate) const CACHE_DIR: u32 = 1 << 3;
    pub(crate) const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// `GetattrIn::getattr_flags`: `fh` is valid; somebody uses an open file.
pub(crate) const GETATTR_FH: u32 = 1 << 0;
/// `WriteIn::write_flags`: out of the write-back cache.
pub(crate) const WRITE_CACHE: u32 = 1 << 0;
/// `WriteIn::write_flags`: `lock_owner` is valid, which only direct writes say.
pub(crate) const WRITE_LOCKOWNER: u32 = 1 << 1;
/// `ReadIn::read_flags`: the same of direct reads; others are for the cache.
pub(crate) const READ_LOCKOWNER: u32 = 1 << 1;
/// `WriteIn::write_flags`: the writer lacks `CAP_FSETID`.
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// `SetxattrExtIn::setxattr_flags`: the setter of an access list is neither in
/// the file's group nor privileged, so the set-group-id bit goes.
pub(crate) const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;
/// `FsyncIn::fsync_flags`: data and what is needed to read it.
pub(crate) const FSYNC_DATA_ONLY: u32 = 1 << 0;
