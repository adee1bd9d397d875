//! An open file.
//!
//! | file | content |
//! |---|---|
//! | `open.rs` | [`OpenOptions`], and opening by their rules |
//! | `stream.rs` | `Read`, `Write`, `Seek` and `FileExt` |
//! | `sparse.rs` | reserving and freeing space, finding data and holes |

mod open;
mod sparse;
mod stream;

#[cfg(test)]
mod tests;

pub use open::OpenOptions;

use crate::error::{Cause, Error, Result};
use crate::metadata::{FileTimes, Metadata};
use crate::mounted::Mounted;
use parking_lot::Mutex;
use std::fs::Permissions;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use varve_fs::{InodeNo, SetAttr};

/// An open file, like [`std::fs::File`].
///
/// `File` and `&File` implement [`Read`](std::io::Read), [`Write`](std::io::Write),
/// [`Seek`](std::io::Seek) and [`std::os::unix::fs::FileExt`], for use from any thread.
/// An open file keeps its content after its name was removed, and keeps the volume open.
///
/// ```
/// use std::io::{Read, Seek, Write};
/// let volume = varve::Volume::in_memory(16 << 20)?;
/// let mut file = varve::OpenOptions::new()
///     .read(true)
///     .write(true)
///     .create(true)
///     .open(&volume, "/log")?;
/// writeln!(file, "first")?;
/// file.sync_data()?;
///
/// let mut text = String::new();
/// file.rewind()?;
/// file.read_to_string(&mut text)?;
/// assert_eq!(text, "first\n");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct File {
    handle: Arc<Handle>,
}

/// State shared by the clones of a file.
struct Handle {
    mounted: Arc<Mounted>,
    ino: InodeNo,
    access: Access,
    path: PathBuf,
    position: Mutex<Position>,
}

/// Position of a file.
#[derive(Clone, Copy)]
enum Position {
    At(u64),
    /// This number of bytes after the end at which a transaction's appends will be stored
    /// at its commit.
    Behind(u64),
}

/// Access for which a file was opened.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    read: bool,
    write: bool,
    append: bool,
}

impl File {
    /// Takes over the caller's pin on the inode.
    pub(crate) fn new(mounted: Arc<Mounted>, ino: InodeNo, access: Access, path: &Path) -> Self {
        mounted.note(ino, path.as_os_str().as_bytes());
        File {
            handle: Arc::new(Handle {
                mounted,
                ino,
                access,
                path: path.to_owned(),
                position: Mutex::new(Position::At(0)),
            }),
        }
    }

    /// Opens the same file with the same access inside a transaction.
    pub(crate) fn within(&self, mounted: &Arc<Mounted>) -> Result<File> {
        let handle = &self.handle;
        let held = mounted.run("open", &handle.path, |mounted| mounted.retain(handle.ino));
        held.map(|()| File::new(Arc::clone(mounted), handle.ino, handle.access, &handle.path))
    }

    /// Makes content and attributes durable.
    ///
    /// # Errors
    /// If a write or flush of the volume has ever failed. A later success would not prove
    /// that the data is stored.
    pub fn sync_all(&self) -> Result<()> {
        self.handle.sync(false)
    }

    /// Makes the content durable, and the metadata that is needed to find it.
    ///
    /// # Errors
    /// The same as [`File::sync_all`].
    pub fn sync_data(&self) -> Result<()> {
        self.handle.sync(true)
    }

    /// Truncates the file, or extends it with a hole that reads as zeros.
    ///
    /// # Errors
    /// If the file was not opened for writing, or the size is too large.
    pub fn set_len(&self, size: u64) -> Result<()> {
        let refuse = |why| Err(self.handle.refuse("truncate", Cause::Argument(why)));
        if !self.handle.access.write {
            return refuse("the file was not opened for writing");
        }
        if i64::try_from(size).is_err() {
            return refuse("a size beyond 2^63 bytes");
        }
        self.handle
            .run("truncate", |mounted, ino| mounted.set_size(ino, size))
    }

    /// Returns the attributes of the file.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn metadata(&self) -> Result<Metadata> {
        let attr = self
            .handle
            .run("examine", |mounted, ino| mounted.getattr(ino))?;
        Ok(Metadata::new(attr, self.handle.mounted.device))
    }

    /// Returns the parts of the file within `bytes` that contain data, in the order of
    /// their addresses on the device; holes are left out.
    ///
    /// A program that reads a whole file in any order reads these parts: after random
    /// updates a disk delivers them in one sweep, while the order of offsets needs a seek
    /// per update. A part takes 16 bytes, and there is at most one per block, so `bytes`
    /// should cover some GiB at a time. A block that is rewritten meanwhile may move; its
    /// part can be read all the same.
    ///
    /// ```
    /// use std::os::unix::fs::FileExt;
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// let file = volume.create_file("/table")?;
    /// file.write_all_at(&[1; 9000], 0)?;
    /// file.write_all_at(&[2; 5000], 100_000)?;
    /// file.sync_data()?;
    ///
    /// let file = volume.open_file("/table")?;
    /// let mut sum = 0;
    /// for part in file.stretches(0..u64::MAX)? {
    ///     let mut bytes = vec![0; (part.end - part.start) as usize];
    ///     file.read_exact_at(&mut bytes, part.start)?;
    ///     sum += bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    /// }
    /// assert_eq!(sum, 9000 + 2 * 5000);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the file was not opened for reading, or an index node cannot be read.
    pub fn stretches(&self, bytes: Range<u64>) -> Result<Vec<Range<u64>>> {
        let may = self.handle.access.read;
        self.handle
            .run_if(may, "examine", |mounted, ino| mounted.stretches(ino, bytes))
    }

    /// Returns another handle of the same open file with a shared position. A handle with
    /// its own position requires opening the path again.
    ///
    /// # Errors
    /// If the volume was closed.
    pub fn try_clone(&self) -> Result<File> {
        self.handle.run("clone", |_, _| {
            Ok(File {
                handle: Arc::clone(&self.handle),
            })
        })
    }

    /// Sets permission, set-id and sticky bits.
    ///
    /// # Errors
    /// If file flags forbid it.
    pub fn set_permissions(&self, permissions: Permissions) -> Result<()> {
        self.handle
            .set("change permissions of", &mode(&permissions))
    }

    /// Sets the times of access and modification that are given.
    ///
    /// # Errors
    /// If file flags forbid it.
    pub fn set_times(&self, times: FileTimes) -> Result<()> {
        self.handle.set("change times of", &times.attributes())
    }

    /// Sets the time of modification.
    ///
    /// # Errors
    /// The same as [`File::set_times`].
    pub fn set_modified(&self, time: SystemTime) -> Result<()> {
        self.set_times(FileTimes::new().set_modified(time))
    }
}

/// Converts permissions into a change of attributes.
pub(crate) fn mode(permissions: &Permissions) -> SetAttr {
    SetAttr {
        mode: Some(permissions.mode() & 0o7777),
        ..SetAttr::default()
    }
}

impl Handle {
    fn run<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Mounted, InodeNo) -> varve_fs::Result<T>,
    ) -> Result<T> {
        self.mounted
            .run(operation, &self.path, |mounted| work(mounted, self.ino))
    }

    /// Does the same as [`Self::run`] if the access is allowed, and fails otherwise.
    fn run_if<T>(
        &self,
        allowed: bool,
        operation: &'static str,
        work: impl FnOnce(&Mounted, InodeNo) -> varve_fs::Result<T>,
    ) -> Result<T> {
        match allowed {
            true => self.run(operation, work),
            false => Err(self.refuse(operation, Cause::Access)),
        }
    }

    fn refuse(&self, operation: &'static str, cause: Cause) -> Error {
        Error::at(operation, &self.path, cause)
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        self.run("sync", |mounted, ino| mounted.fsync(ino, data_only))
    }

    fn set(&self, operation: &'static str, set: &SetAttr) -> Result<()> {
        self.run(operation, |mounted, ino| mounted.setattr(ino, set))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.mounted.release(self.ino);
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File")
            .field("path", &self.handle.path)
            .field("read", &self.handle.access.read)
            .field("write", &self.handle.access.write)
            .finish_non_exhaustive()
    }
}

/// Returns true if two files of one volume have the same inode.
pub(crate) fn same(one: &File, other: &File) -> bool {
    one.handle.ino == other.handle.ino
}

/// Copies the whole content to another file of the same volume, `step` bytes at a time,
/// without a buffer in the library. Returns the number of bytes.
pub(crate) fn copy_content(source: &File, target: &File, step: u64) -> Result<u64> {
    let (from, to) = (source.handle.ino, target.handle.ino);
    let mut at = 0;
    loop {
        let copied = source
            .handle
            .run("copy", |mounted, _| mounted.copy_range(from, to, at, step))?;
        if copied == 0 {
            return Ok(at);
        }
        at += copied;
    }
}
