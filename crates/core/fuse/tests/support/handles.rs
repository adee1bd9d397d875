//! File handles, for tests: name_to_handle_at(2), open_by_handle_at(2).
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const BYTES_MAX: usize = 128;

/// `struct file_handle`, with room for the largest.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Handle {
    bytes: u32,
    kind: i32,
    content: [u8; BYTES_MAX],
}

impl Handle {
    /// That of what `path` leads to.
    pub fn of(path: &Path) -> Self {
        let mut handle = Handle {
            bytes: BYTES_MAX as u32,
            kind: 0,
            content: [0; BYTES_MAX],
        };
        let mut mount = 0;
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a terminated string, a struct that says how large it is, and
        // a number.
        let done = unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                libc::AT_FDCWD,
                path.as_ptr(),
                &raw mut handle,
                &raw mut mount,
                0,
            )
        };
        assert!(done == 0, "{}", io::Error::last_os_error());
        handle
    }

    /// Opens it for reading. `root` is any file of the mount.
    ///
    /// # Errors
    /// ESTALE if it leads nowhere.
    pub fn open(&self, root: &File) -> io::Result<File> {
        // SAFETY: the struct says how large it is, and is only read.
        let opened = unsafe {
            libc::syscall(
                libc::SYS_open_by_handle_at,
                root.as_raw_fd(),
                &raw const *self,
                libc::O_RDONLY | libc::O_CLOEXEC,
            )
        };
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor, which nobody else knows.
        Ok(unsafe { File::from_raw_fd(opened as i32) })
    }
}
