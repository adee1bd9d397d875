//! An open file.
//!
//! | file | |
//! |---|---|
//! | `open.rs` | [`OpenOptions`], and opening by their rules |
//! | `stream.rs` | `Read`, `Write`, `Seek` and `FileExt` |
//! | `sparse.rs` | room reserved and given back, and where data is |

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

/// An open file, as [`std::fs::File`]. It is read and written through
/// [`Read`](std::io::Read), [`Write`](std::io::Write), [`Seek`](std::io::Seek)
/// and [`std::os::unix::fs::FileExt`], by `File` and `&File`, from any thread;
/// it keeps its content even when its name is gone, and the volume open.
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

/// What the clones of a file share.
struct Handle {
    mounted: Arc<Mounted>,
    ino: InodeNo,
    access: Access,
    path: PathBuf,
    position: Mutex<Position>,
}

/// Where a file stands.
#[derive(Clone, Copy)]
enum Position {
    At(u64),
    /// Behind so many bytes that a transaction appends at its commit.
    Behind(u64),
}

/// What a file was opened for.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    read: bool,
    write: bool,
    append: bool,
}

impl File {
    /// Takes over what holds the inode.
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

    /// The same file, opened for the same, as a transaction has it.
    pub(crate) fn within(&self, mounted: &Arc<Mounted>) -> Result<File> {
        let handle = &self.handle;
        let held = mounted.run("open", &handle.path, |mounted| mounted.retain(handle.ino));
        held.map(|()| File::new(Arc::clone(mounted), handle.ino, handle.access, &handle.path))
    }

    /// Makes content and attributes durable.
    ///
    /// # Errors
    /// If a write or flush failed, now or before: never believe a retry.
    pub fn sync_all(&self) -> Result<()> {
        self.handle.sync(false)
    }

    /// Makes the content durable, and what is needed to find it.
    ///
    /// # Errors
    /// As [`File::sync_all`].
    pub fn sync_data(&self) -> Result<()> {
        self.handle.sync(true)
    }

    /// Cuts the file, or extends it with zeros that take no space.
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

    /// The file's attributes.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn metadata(&self) -> Result<Metadata> {
        let attr = self
            .handle
            .run("examine", |mounted, ino| mounted.getattr(ino))?;
        Ok(Metadata::new(attr, self.handle.mounted.device))
    }

    /// The parts of the file within `bytes` that hold something, in the order in which
    /// the device has them; holes are left out. Whoever reads all of a file and needs
    /// no order reads these: after updates at random a disk has them in one sweep, where
    /// the file's own order takes it to as many places as there were updates. A part
    /// takes 16 bytes, at worst there is one for each block, so ask for some GiB at a
    /// time. What is written meanwhile may lie elsewhere by then; it is read all the
    /// same.
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

    /// Another handle of the same open file: reading, writing and seeking by
    /// the one moves the other, too. Open the path again for a position of its
    /// own.
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

    /// Sets the times of access and modification, where given.
    ///
    /// # Errors
    /// If file flags forbid it.
    pub fn set_times(&self, times: FileTimes) -> Result<()> {
        self.handle.set("change times of", &times.attributes())
    }

    /// Sets the time of modification.
    ///
    /// # Errors
    /// As [`File::set_times`].
    pub fn set_modified(&self, time: SystemTime) -> Result<()> {
        self.set_times(FileTimes::new().set_modified(time))
    }
}

/// What `permissions` mean to change.
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

    /// [`Self::run`] for what a file must have been opened for.
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

/// True for two files of one volume that are one.
pub(crate) fn same(one: &File, other: &File) -> bool {
    one.handle.ino == other.handle.ino
}

/// Copies all of a file to another of the same volume, `step` bytes at a time;
/// they pass through no buffer of ours. Answers how many they were.
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
