//! Opens the files of a volume.

use super::Volume;
use crate::error::{Cause, Error, Result};
use crate::file::{File, OpenOptions};
use std::path::Path;
use std::sync::Arc;

impl OpenOptions {
    /// Opens a regular file, or a directory for reading, which can be synced and
    /// examined.
    ///
    /// # Errors
    /// `InvalidInput` if options contradict each other, `NotFound` if the file is missing
    /// and is not created, `AlreadyExists` with `create_new`, `IsADirectory`,
    /// `Unsupported` for special files, and `PermissionDenied` if file flags forbid it.
    pub fn open(&self, volume: &Volume, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        let access = self
            .access()
            .map_err(|why| Error::at("open", path, Cause::Argument(why)))?;
        let mounted = volume.mounted();
        let attr = mounted.by_path("open", path, |mounted, bytes| {
            mounted.open_inode(bytes, self, access)
        })?;
        Ok(File::new(Arc::clone(mounted), attr.ino, access, path))
    }
}
