//! An open file.

use super::walk::{Found, Hold, Last};
use super::{Metadata, Mounted, Volume, at, bytes};
use crate::error::Result;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve_fs::{Access, Attr, Error as Cause, FileKind, InodeNo, SetAttr, View, Whence};

const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;

/// How a file is opened.
///
/// ```
/// use varve::OpenFlags;
/// let flags = OpenFlags { create_new: true, ..OpenFlags::READ_WRITE };
/// assert!(flags.write && !flags.truncate);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags {
    /// Reads are allowed.
    pub read: bool,
    /// Writes are allowed.
    pub write: bool,
    /// Make the file if it is missing.
    pub create: bool,
    /// Make the file, and fail if the name exists.
    pub create_new: bool,
    /// Cut it to no bytes.
    pub truncate: bool,
}

impl OpenFlags {
    /// An existing file, to be read.
    pub const READ: OpenFlags = OpenFlags {
        read: true,
        write: false,
        create: false,
        create_new: false,
        truncate: false,
    };
    /// An existing file, to be read and written.
    pub const READ_WRITE: OpenFlags = OpenFlags {
        write: true,
        ..OpenFlags::READ
    };
    /// A file to be read and written, made if it is missing.
    pub const CREATE: OpenFlags = OpenFlags {
        create: true,
        ..OpenFlags::READ_WRITE
    };
}

/// An open file. Keeps its content alive even without a name, and may be used
/// from several threads at once.
///
/// ```
/// let volume = varve::Volume::in_memory(16 << 20)?;
/// let file = volume.open_file("/log", varve::OpenFlags::CREATE)?;
/// file.write_at(0, b"first\n")?;
/// assert_eq!(file.append(b"second\n")?, 6);
/// file.sync_data()?;
/// let mut buffer = [0; 32];
/// assert_eq!(file.read_at(6, &mut buffer)?, 7);
/// # Ok::<(), varve::Error>(())
/// ```
pub struct File {
    mounted: Arc<Mounted>,
    ino: InodeNo,
    flags: OpenFlags,
    path: PathBuf,
}

impl Volume {
    /// Opens a regular file, or makes one with mode 0644.
    ///
    /// # Errors
    /// If it is missing (unless it may be made), exists (`create_new`), is no
    /// regular file, or its flags forbid it.
    pub fn open_file(&self, path: impl AsRef<Path>, flags: OpenFlags) -> Result<File> {
        let path = path.as_ref();
        let attr = self
            .open_inode(bytes(path), flags)
            .map_err(at("open", path))?;
        Ok(File {
            mounted: Arc::clone(&self.mounted),
            ino: attr.ino,
            flags,
            path: path.to_owned(),
        })
    }

    /// Finds or makes the inode and retains it.
    fn open_inode(&self, path: &[u8], flags: OpenFlags) -> varve_fs::Result<Attr> {
        let found = self.find_or_make(path, flags)?;
        match found.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Cause::IsDirectory),
            _ => return Err(Cause::NotSupported),
        }
        let access = Access {
            write: flags.write,
            append: true, // each write is looked at
            truncate: flags.truncate,
        };
        self.fs().may_open(View::Live, found.ino, access)?;
        if flags.truncate && found.size > 0 {
            self.set_size(found.ino, 0)?;
        }
        found.keep()
    }

    fn find_or_make(&self, path: &[u8], flags: OpenFlags) -> varve_fs::Result<Found<'_>> {
        if !flags.create && !flags.create_new {
            return self.mounted.resolve(path, Last::Follow);
        }
        let make = |parent: &Hold<'_>, name: &[u8]| {
            let mode = FileKind::Regular.mode_bits() | 0o666;
            let made =
                self.fs()
                    .mknod_held(View::Live, self.caller(), parent.ino, name, mode, 0)?;
            Ok(self.mounted.held(made))
        };
        loop {
            let made = if flags.create_new {
                let (parent, name) = self.mounted.resolve_parent(path)?;
                make(&parent, name)
            } else {
                let (parent, name, found) = self.mounted.resolve_for_create(path)?;
                found.map_or_else(|| make(&parent, &name), Ok)
            };
            match made {
                Err(Cause::Exists) if !flags.create_new => {} // somebody was faster
                other => return other,
            }
        }
    }

    fn set_size(&self, ino: InodeNo, size: u64) -> varve_fs::Result<()> {
        self.mounted.set_size(ino, size)
    }
}

impl Mounted {
    fn set_size(&self, ino: InodeNo, size: u64) -> varve_fs::Result<()> {
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        self.fs
            .setattr(View::Live, &self.caller, ino, &set)
            .map(drop)
    }
}

impl File {
    /// Fills `buffer` from byte `offset`; answers how many bytes there were.
    /// Fewer than asked for means the end of the file.
    ///
    /// # Errors
    /// If the file was not opened for reading, or stored bytes are damaged.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.allowed(self.flags.read)
            .and_then(|()| self.mounted.fs.read(View::Live, self.ino, offset, buffer))
            .map_err(at("read", &self.path))
    }

    /// Writes all of `data` at byte `offset`. It is durable after a sync.
    ///
    /// # Errors
    /// `NotPermitted` within what an append-only file holds, `NoSpace` before anything is written that would not fit.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.write_all(offset, data)
            .map_err(at("write", &self.path))
    }

    fn write_all(&self, mut offset: u64, mut data: &[u8]) -> varve_fs::Result<()> {
        self.allowed(self.flags.write)?;
        let Mounted { fs, caller, .. } = &*self.mounted;
        while !data.is_empty() {
            let written = fs.write(View::Live, caller, self.ino, offset, data)?;
            data = &data[written..];
            offset += written as u64;
        }
        Ok(())
    }

    /// Writes `data` at the end, whole even if others append, too. Answers
    /// the offset it went to.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn append(&self, data: &[u8]) -> Result<u64> {
        let Mounted { fs, caller, .. } = &*self.mounted;
        self.allowed(self.flags.write)
            .and_then(|()| fs.append(View::Live, caller, self.ino, data))
            .map_err(at("append to", &self.path))
    }

    /// Makes the content durable, and what is needed to find it.
    ///
    /// # Errors
    /// If a write or flush failed, now or before: never believe a retry.
    pub fn sync_data(&self) -> Result<()> {
        self.sync(true)
    }

    /// Makes content and attributes durable.
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub fn sync_all(&self) -> Result<()> {
        self.sync(false)
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        self.mounted
            .fs
            .fsync(View::Live, self.ino, data_only)
            .map_err(at("sync", &self.path))
    }

    /// Cuts the file, or extends it with zeros that take no space.
    ///
    /// # Errors
    /// If the file was not opened for writing, or the size is too large.
    pub fn set_len(&self, size: u64) -> Result<()> {
        self.allowed(self.flags.write)
            .and_then(|()| self.mounted.set_size(self.ino, size))
            .map_err(at("truncate", &self.path))
    }

    /// The file's attributes.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn metadata(&self) -> Result<Metadata> {
        let attr = self.mounted.fs.getattr(View::Live, self.ino);
        attr.map(Metadata).map_err(at("examine", &self.path))
    }

    /// Reserves space for `length` bytes from `offset`, which read as zeros
    /// until they are written. The size grows if `grow`.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn allocate(&self, offset: u64, length: u64, grow: bool) -> Result<()> {
        let mode = if grow { 0 } else { KEEP_SIZE };
        self.fallocate(mode, offset, length)
            .map_err(at("allocate", &self.path))
    }

    /// Gives back the space of `length` bytes from `offset`, which read as
    /// zeros afterwards.
    ///
    /// # Errors
    /// If the file was not opened for writing.
    pub fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.fallocate(PUNCH_HOLE | KEEP_SIZE, offset, length)
            .map_err(at("punch", &self.path))
    }

    fn fallocate(&self, mode: i32, offset: u64, length: u64) -> varve_fs::Result<()> {
        self.allowed(self.flags.write)?;
        let Mounted { fs, caller, .. } = &*self.mounted;
        fs.fallocate(View::Live, caller, self.ino, mode, offset, length)
    }

    /// The first stored byte at or after `offset`; `None` if there is none.
    ///
    /// # Errors
    /// Device errors, damage.
    pub fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        let fs = &self.mounted.fs;
        match fs.seek(View::Live, self.ino, offset, Whence::Data) {
            Ok(offset) => Ok(Some(offset)),
            Err(Cause::NoData) => Ok(None),
            Err(error) => Err(at("seek in", &self.path)(error)),
        }
    }

    pub(super) fn ino(&self) -> InodeNo {
        self.ino
    }

    fn allowed(&self, by_flags: bool) -> varve_fs::Result<()> {
        match by_flags {
            true => Ok(()),
            false => Err(Cause::Invalid("the file was not opened for that")),
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.mounted.fs.release(self.ino, 1);
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File")
            .field("path", &self.path)
            .field("ino", &self.ino)
            .finish_non_exhaustive()
    }
}
