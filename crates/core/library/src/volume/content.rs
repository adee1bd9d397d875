//! Reads, writes and copies whole files, and opens them.

use super::Volume;
use crate::error::{Cause, Error, Result};
use crate::file::{File, OpenOptions, copy_content, same};
use std::path::Path;

/// Bytes copied in one step; other operations may run between two steps.
const COPY_STEP: u64 = 8 << 20;

impl Volume {
    /// Opens a file for reading, like [`std::fs::File::open`]. [`OpenOptions`] has other
    /// modes.
    ///
    /// # Errors
    /// The same as [`OpenOptions::open`].
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File> {
        OpenOptions::new().read(true).open(self, path)
    }

    /// Opens a file for writing, like [`std::fs::File::create`]: it is created if it is
    /// missing and truncated otherwise.
    ///
    /// ```
    /// use std::io::Write;
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// let mut file = volume.create_file("/a")?;
    /// write!(file, "{} bottles", 99)?;
    /// assert_eq!(volume.read_to_string("/a")?, "99 bottles");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`OpenOptions::open`].
    pub fn create_file(&self, path: impl AsRef<Path>) -> Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(self, path)
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// If the file is missing or cannot be read.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        self.open_file(path)?.read_rest(&mut content)?;
        Ok(content)
    }

    /// Reads a whole file as text.
    ///
    /// # Errors
    /// The same as [`Volume::read`], and `InvalidData` if the file is not UTF-8.
    pub fn read_to_string(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = path.as_ref();
        let text = String::from_utf8(self.read(path)?);
        text.map_err(|_| Error::at("read", path, Cause::NotText))
    }

    /// Replaces the content of a file, which is created if it is missing. For a
    /// replacement that a crash leaves either old or new, write another file and
    /// [`Volume::rename`] it.
    ///
    /// # Errors
    /// If the parent is missing, or `StorageFull`.
    pub fn write(&self, path: impl AsRef<Path>, data: impl AsRef<[u8]>) -> Result<()> {
        self.create_file(path)?.write_whole(data.as_ref())
    }

    /// Copies content and permission bits to a file, which is created if it is missing;
    /// holes remain holes. Returns the number of bytes. Copying a file to itself does
    /// nothing.
    ///
    /// # Errors
    /// If the source is missing or not a regular file, or `StorageFull`.
    pub fn copy(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<u64> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let source = self.open_file(from)?;
        let metadata = source.metadata()?;
        if !metadata.is_file() {
            let cause = Cause::Argument("it is no regular file");
            return Err(Error::at("copy", from, cause));
        }
        let target = OpenOptions::new()
            .write(true)
            .create(true)
            .mode(metadata.mode() & 0o777)
            .open(self, to)?;
        if same(&source, &target) {
            return Ok(metadata.len());
        }
        target.set_len(0)?;
        let copied = copy_content(&source, &target, COPY_STEP)?;
        target.set_permissions(metadata.permissions())?;
        Ok(copied)
    }
}
