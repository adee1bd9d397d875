//! Another spelling of a name, without the kernel's rename(2).
//!
//! On a volume whose names ignore case, `foo` and `FOO` lead to one inode. The kernel
//! answers a rename between two names of one inode by itself, with success, and the
//! spelling stays. An ioctl on the directory reaches the file system.

use crate::calls::RENAME_BYTES;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Gives the file at `path`, on a mount of Varve whose names ignore case, another
/// spelling of its name.
///
/// # Errors
/// ENOTTY if `path` is on no such mount; EINVAL if `new_name` is no other spelling, so
/// that rename(2) does it; EEXIST if another file has it; permissions as in rename(2).
pub fn respell(path: &Path, new_name: &OsStr) -> io::Result<()> {
    let name = path.file_name().ok_or(rustix::io::Errno::INVAL)?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let directory = crate::question::open_root(parent)?;
    let mut names = Box::new([0u8; RENAME_BYTES]);
    let (first, second) = names.split_at_mut(RENAME_BYTES / 2);
    for (into, name) in [(first, name), (second, new_name)] {
        let name = name.as_bytes();
        if name.is_empty() || name.contains(&0) {
            return Err(rustix::io::Errno::INVAL.into());
        }
        let into = into.get_mut(..name.len());
        into.ok_or(rustix::io::Errno::NAMETOOLONG)?
            .copy_from_slice(name);
    }
    crate::sys::rename_ioctl(directory, &mut names)
}
