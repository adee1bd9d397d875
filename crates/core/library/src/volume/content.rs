//! Whole files, and opening them.

use super::Volume;
use crate::error::{Cause, Error, Result};
use crate::file::{File, OpenOptions, copy_content, same};
use std::path::Path;

/// Bytes copied at once; between two steps others get their turn.
const COPY_STEP: u64 = 8 << 20;

impl Volume {
    /// Opens a file to be read, as [`std::fs::File::open`]. [`OpenOptions`]
    /// open it otherwise.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File> {
        OpenOptions::new().read(true).open(self, path)
    }

    /// Opens a file to be written, as [`std::fs::File::create`]: it is made if
    /// it is missing, and cut to no bytes if not.
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
    /// As [`OpenOptions::open`].
    pub fn create_file(&self, path: impl AsRef<Path>) -> Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(self, path)
    }

    /// All bytes of a file.
    ///
    /// # Errors
    /// If it is missing or cannot be read.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        self.open_file(path)?.read_rest(&mut content)?;
        Ok(content)
    }

    /// All of a file that holds text.
    ///
    /// # Errors
    /// As [`Volume::read`], and `InvalidData` if it is not UTF-8.
    pub fn read_to_string(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = path.as_ref();
        let text = String::from_utf8(self.read(path)?);
        text.map_err(|_| Error::at("read", path, Cause::NotText))
    }

    /// Makes `data` the content of a file, which is made if it is missing. To
    /// replace a file so that a crash leaves the old or the new, write another
    /// and [`Volume::rename`] it.
    ///
    /// # Errors
    /// If the parent is missing, or `StorageFull`.
    pub fn write(&self, path: impl AsRef<Path>, data: impl AsRef<[u8]>) -> Result<()> {
        self.create_file(path)?.write_whole(data.as_ref())
    }

    /// Copies content and permission bits to a file, which is made if it is
    /// missing; holes stay holes. Answers the bytes copied. A file that is
    /// copied to itself stays as it is.
    ///
    /// # Errors
    /// If the source is missing or no regular file, or `StorageFull`.
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
