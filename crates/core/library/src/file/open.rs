//! Opens a file by the rules of `std::fs`.

use super::Access;
use crate::mounted::{Found, Hold, Last, Mounted, ends_in_slash};
use varve_fs::{Attr, Error as FsError, FileKind};

/// Options for opening a file, like [`std::fs::OpenOptions`].
///
/// ```
/// use std::io::Write;
/// use varve::OpenOptions;
/// let volume = varve::Volume::in_memory(16 << 20)?;
/// let mut log = OpenOptions::new().append(true).create(true).open(&volume, "/log")?;
/// log.write_all(b"one line\n")?;
/// let again = OpenOptions::new().write(true).create_new(true).open(&volume, "/log");
/// assert_eq!(again.unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u32,
}

impl OpenOptions {
    /// Returns options that allow nothing. A file that is created gets mode 0666 without
    /// the bits of the volume's umask.
    pub fn new() -> Self {
        OpenOptions {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o666,
        }
    }

    /// Allows reads.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.read = read;
        self
    }

    /// Allows writes.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.write = write;
        self
    }

    /// Allows writes, each of which is appended atomically at the end of the file, also
    /// with several writers. In a locking transaction that is the end at the commit,
    /// unless the transaction asks for the position earlier.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.append = append;
        self
    }

    /// Truncates the file to zero bytes; requires `write`.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.truncate = truncate;
        self
    }

    /// Creates the file if it is missing; requires `write` or `append`.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.create = create;
        self
    }

    /// Creates the file and fails if the name exists. `create` and `truncate` are then
    /// ignored.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.create_new = create_new;
        self
    }

    /// Sets the permission bits of a created file, before the umask.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    /// Returns the access that the options request.
    ///
    /// # Errors
    /// The contradiction between options, by the rules of std.
    pub(crate) fn access(&self) -> std::result::Result<Access, &'static str> {
        let makes = self.create || self.create_new;
        if !self.read && !self.write && !self.append {
            return Err("neither reading, writing nor appending is asked for");
        }
        if self.append && self.truncate && !self.create_new {
            return Err("appending to what is truncated");
        }
        if !self.write && !self.append && (makes || self.truncate) {
            return Err("making or truncating a file needs write or append");
        }
        Ok(Access {
            read: self.read,
            write: self.write || self.append,
            append: self.append,
        })
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions::new()
    }
}

impl Mounted {
    /// Finds or creates the inode and pins it.
    pub(crate) fn open_inode(
        &self,
        path: &[u8],
        options: &OpenOptions,
        access: Access,
    ) -> varve_fs::Result<Attr> {
        let (found, made) = self.find_or_make(path, options)?;
        match found.kind {
            FileKind::Regular => {}
            FileKind::Directory if access.write => return Err(FsError::IsDirectory),
            FileKind::Directory => return found.keep(),
            _ => return Err(FsError::NotSupported),
        }
        let truncate = options.truncate && !made;
        let asked = varve_fs::Access {
            write: access.write,
            append: true, // each write is checked
            truncate,
        };
        self.may_open(found.ino, asked)?;
        if truncate && found.attr()?.size > 0 {
            self.set_size(found.ino, 0)?;
        }
        found.keep()
    }

    /// Finds or creates the inode. The second value is true if it was created.
    fn find_or_make(
        &self,
        path: &[u8],
        options: &OpenOptions,
    ) -> varve_fs::Result<(Found<'_>, bool)> {
        if options.create_new {
            return Ok((self.make_new(path, options.mode)?, true));
        }
        if !options.create {
            return Ok((self.resolve(path, Last::Follow)?, false));
        }
        loop {
            let (parent, name, found) = self.resolve_for_create(path)?;
            if let Some(found) = found {
                return Ok((found, false));
            }
            match self.make(&parent, &name, options.mode) {
                Err(FsError::Exists) => {} // another thread created it first
                made => return Ok((made?, true)),
            }
        }
    }

    fn make_new(&self, path: &[u8], mode: u32) -> varve_fs::Result<Found<'_>> {
        let (parent, name) = self.resolve_parent(path, FsError::Exists)?;
        match ends_in_slash(path) {
            true => Err(FsError::IsDirectory),
            false => self.make(&parent, name, mode),
        }
    }

    fn make(&self, parent: &Hold<'_>, name: &[u8], mode: u32) -> varve_fs::Result<Found<'_>> {
        let mode = FileKind::Regular.mode_bits() | mode & 0o7777;
        Ok(self.held(self.mknod_held(parent.ino, name, mode)?))
    }
}
