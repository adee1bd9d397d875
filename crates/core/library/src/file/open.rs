//! Opening a file by the rules of `std::fs`.

use super::Access;
use crate::mounted::{Found, Hold, Last, Mounted, ends_in_slash};
use varve_fs::{Attr, Error as FsError, FileKind};

/// How a file is opened: [`std::fs::OpenOptions`], for a volume.
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
    /// Nothing is allowed yet; a file that is made gets mode 0666 without the
    /// bits of the volume's umask.
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

    /// Reads are allowed.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.read = read;
        self
    }

    /// Writes are allowed.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.write = write;
        self
    }

    /// Writes are allowed and go to the end of the file, each whole and at
    /// once, whoever else writes there. In a locking transaction that is the end which
    /// the file has at the commit, unless the transaction asks where it is.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.append = append;
        self
    }

    /// The file is cut to no bytes; needs `write`.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.truncate = truncate;
        self
    }

    /// The file is made if it is missing; needs `write` or `append`.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.create = create;
        self
    }

    /// The file is made, and it is an error if the name exists. Then `create`
    /// and `truncate` mean nothing.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.create_new = create_new;
        self
    }

    /// Permission bits of a file that is made, before the umask.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    /// What the options amount to.
    ///
    /// # Errors
    /// Says what contradicts what, by the rules of std.
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
    /// Finds or makes the inode and retains it.
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
            append: true, // each write is looked at
            truncate,
        };
        self.may_open(found.ino, asked)?;
        if truncate && found.attr()?.size > 0 {
            self.set_size(found.ino, 0)?;
        }
        found.keep()
    }

    /// Answers whether it was made, too.
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
                Err(FsError::Exists) => {} // somebody was faster
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
