//! Reading and changing attributes by path.

use super::walk::Last;
use super::{Metadata, Volume, at, bytes};
use crate::error::Result;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use varve_fs::{Error as Cause, FileFlags, SetAttr, SetTime, View};

impl Volume {
    /// The attributes of what a path leads to.
    ///
    /// # Errors
    /// If it leads nowhere.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.examine(path.as_ref(), Last::Follow)
    }

    /// The attributes of what a path names: of a symbolic link, its own.
    ///
    /// # Errors
    /// If there is none.
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.examine(path.as_ref(), Last::Keep)
    }

    fn examine(&self, path: &Path, last: Last) -> Result<Metadata> {
        let attr = self.mounted.resolve(bytes(path), last);
        attr.map(|found| Metadata(*found))
            .map_err(at("examine", path))
    }

    /// Sets permission, set-id and sticky bits.
    ///
    /// # Errors
    /// If the path leads nowhere.
    pub fn set_permissions(&self, path: impl AsRef<Path>, mode: u32) -> Result<()> {
        let set = SetAttr {
            mode: Some(mode & 0o7777),
            ..SetAttr::default()
        };
        self.set(path.as_ref(), "change permissions of", set)
    }

    /// Sets owner and group, where given.
    ///
    /// # Errors
    /// If the path leads nowhere, or the caller may not give files away.
    pub fn set_owner(
        &self,
        path: impl AsRef<Path>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<()> {
        let set = SetAttr {
            uid,
            gid,
            ..SetAttr::default()
        };
        self.set(path.as_ref(), "change owner of", set)
    }

    /// Sets the times of access and modification, where given.
    ///
    /// # Errors
    /// If the path leads nowhere.
    pub fn set_times(
        &self,
        path: impl AsRef<Path>,
        accessed: Option<SetTime>,
        modified: Option<SetTime>,
    ) -> Result<()> {
        let set = SetAttr {
            atime: accessed,
            mtime: modified,
            ..SetAttr::default()
        };
        self.set(path.as_ref(), "change times of", set)
    }

    /// The flags of a file or directory, as `lsattr` shows them.
    ///
    /// ```
    /// use varve::FileFlags;
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// volume.write("/minutes", b"...")?;
    /// let flags = FileFlags { append_only: true, ..FileFlags::default() };
    /// volume.set_file_flags("/minutes", flags)?;
    /// assert!(volume.file_flags("/minutes")?.append_only);
    /// assert!(volume.remove_file("/minutes").is_err());
    /// # Ok::<(), varve::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the path leads nowhere.
    pub fn file_flags(&self, path: impl AsRef<Path>) -> Result<FileFlags> {
        let path = path.as_ref();
        self.mounted
            .resolve(bytes(path), Last::Follow)
            .and_then(|attr| self.fs().file_flags(View::Live, attr.ino))
            .map_err(at("read flags of", path))
    }

    /// Sets all flags of a file or directory, as `chattr` does. They bind
    /// everybody, root as well, and are durable after a sync.
    ///
    /// # Errors
    /// If the path leads nowhere, if the caller is not the owner, or not root
    /// where `immutable` or `append_only` change, and for flags that only
    /// directories have.
    pub fn set_file_flags(&self, path: impl AsRef<Path>, flags: FileFlags) -> Result<()> {
        let path = path.as_ref();
        self.mounted
            .resolve(bytes(path), Last::Follow)
            .and_then(|attr| {
                self.fs()
                    .set_file_flags(View::Live, self.caller(), attr.ino, flags, None)
            })
            .map_err(at("change flags of", path))
    }

    fn set(&self, path: &Path, operation: &'static str, set: SetAttr) -> Result<()> {
        self.mounted
            .resolve(bytes(path), Last::Follow)
            .and_then(|attr| self.fs().setattr(View::Live, self.caller(), attr.ino, &set))
            .map(drop)
            .map_err(at(operation, path))
    }

    /// The value of an extended attribute; `None` if the file has none of that
    /// name. Names begin with `user.`, `trusted.` or `security.`.
    ///
    /// ```
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// volume.write("/photo", b"...")?;
    /// volume.set_xattr("/photo", "user.place", b"Visby")?;
    /// assert_eq!(volume.xattr("/photo", "user.place")?.unwrap(), b"Visby");
    /// assert_eq!(volume.xattr("/photo", "user.year")?, None);
    /// # Ok::<(), varve::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the path leads nowhere.
    pub fn xattr(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
    ) -> Result<Option<Vec<u8>>> {
        let (path, name) = (path.as_ref(), name.as_ref().as_bytes());
        let value = self
            .mounted
            .resolve(bytes(path), Last::Follow)
            .and_then(|attr| {
                self.fs()
                    .getxattr(View::Live, self.caller(), attr.ino, name)
            });
        match value {
            Ok(value) => Ok(Some(value)),
            Err(Cause::NoAttribute) => Ok(None),
            Err(error) => Err(at("read attribute of", path)(error)),
        }
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// If the path leads nowhere.
    pub fn xattr_names(&self, path: impl AsRef<Path>) -> Result<Vec<OsString>> {
        let path = path.as_ref();
        let names = self
            .mounted
            .resolve(bytes(path), Last::Follow)
            .and_then(|attr| self.fs().listxattr(View::Live, self.caller(), attr.ino))
            .map_err(at("list attributes of", path))?;
        Ok(names.into_iter().map(OsString::from_vec).collect())
    }

    /// Sets an extended attribute, replacing one of that name.
    ///
    /// # Errors
    /// If the path leads nowhere, or all values together exceed 64 KiB.
    pub fn set_xattr(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
        value: &[u8],
    ) -> Result<()> {
        let (path, name) = (path.as_ref(), name.as_ref().as_bytes());
        self.mounted
            .resolve(bytes(path), Last::Follow)
            .and_then(|attr| {
                let caller = self.caller();
                self.fs()
                    .setxattr(View::Live, caller, attr.ino, name, value, false, false)
            })
            .map_err(at("set attribute of", path))
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// If the path leads nowhere, or the file has no such attribute.
    pub fn remove_xattr(&self, path: impl AsRef<Path>, name: impl AsRef<OsStr>) -> Result<()> {
        let (path, name) = (path.as_ref(), name.as_ref().as_bytes());
        self.mounted
            .resolve(bytes(path), Last::Follow)
            .and_then(|attr| {
                self.fs()
                    .removexattr(View::Live, self.caller(), attr.ino, name)
            })
            .map_err(at("remove attribute of", path))
    }
}
