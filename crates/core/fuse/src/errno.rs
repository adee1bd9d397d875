//! The error numbers that replies carry.

use std::fmt;

/// A Linux error number, positive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Malformed or senseless arguments.
    pub const INVALID: Errno = Errno(libc::EINVAL);
    /// The server does not implement the request; the kernel stops sending it
    /// where the protocol knows a substitute.
    pub const NOT_IMPLEMENTED: Errno = Errno(libc::ENOSYS);
    /// The file system cannot do this.
    pub const NOT_SUPPORTED: Errno = Errno(libc::EOPNOTSUPP);
    /// No such ioctl.
    pub const NOT_A_TTY: Errno = Errno(libc::ENOTTY);
    /// The answer does not fit the caller's buffer.
    pub const RANGE: Errno = Errno(libc::ERANGE);
    /// No such attribute.
    pub const NO_DATA: Errno = Errno(libc::ENODATA);
    /// The volume is full.
    pub const NO_SPACE: Errno = Errno(libc::ENOSPC);
    /// No such file or directory.
    pub const NOT_FOUND: Errno = Errno(libc::ENOENT);
}

impl From<varve_fs::Error> for Errno {
    fn from(error: varve_fs::Error) -> Self {
        Errno(error.errno())
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", std::io::Error::from_raw_os_error(self.0))
    }
}
