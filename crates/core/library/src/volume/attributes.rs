//! Reads and changes attributes by path.

use super::Volume;
use crate::error::Result;
use crate::metadata::{FileTimes, Metadata};
use crate::mounted::{Last, Mounted};
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use varve_fs::{Error as FsError, FileFlags, InodeNo, SetAttr};

impl Volume {
    /// Returns the attributes of a file. Symbolic links are followed.
    ///
    /// # Errors
    /// If the path leads to no file.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.examine(path.as_ref(), Last::Follow)
    }

    /// Returns the attributes of a file. A symbolic link at the end is not followed.
    ///
    /// # Errors
    /// If the path does not exist.
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.examine(path.as_ref(), Last::Keep)
    }

    fn examine(&self, path: &Path, last: Last) -> Result<Metadata> {
        let attr = self.mounted().by_path("examine", path, |mounted, path| {
            mounted.resolve(path, last)?.attr()
        })?;
        Ok(Metadata::new(attr, self.mounted().device))
    }

    /// Runs an operation on the inode to which a path leads.
    fn on<T>(
        &self,
        operation: &'static str,
        path: impl AsRef<Path>,
        work: impl FnOnce(&Mounted, InodeNo) -> varve_fs::Result<T>,
    ) -> Result<T> {
        self.mounted()
            .by_path(operation, path.as_ref(), |mounted, path| {
                let found = mounted.resolve(path, Last::Follow)?;
                work(mounted, found.ino)
            })
    }

    /// Sets permission, set-id and sticky bits.
    ///
    /// ```
    /// use std::{fs::Permissions, os::unix::fs::PermissionsExt};
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// volume.write("/key", b"secret")?;
    /// volume.set_permissions("/key", Permissions::from_mode(0o600))?;
    /// assert_eq!(volume.metadata("/key")?.mode(), 0o100600);
    /// # Ok::<(), varve::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the path leads to no file.
    pub fn set_permissions(&self, path: impl AsRef<Path>, permissions: Permissions) -> Result<()> {
        let set = crate::file::mode(&permissions);
        self.set("change permissions of", path, &set)
    }

    /// Sets the owner and group that are given, like [`std::os::unix::fs::chown`].
    ///
    /// # Errors
    /// If the path leads to no file, or the volume's user may not change the owner.
    pub fn chown(&self, path: impl AsRef<Path>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let set = SetAttr {
            uid,
            gid,
            ..SetAttr::default()
        };
        self.set("change owner of", path, &set)
    }

    /// Sets the times of access and modification that are given.
    ///
    /// # Errors
    /// If the path leads to no file.
    pub fn set_times(&self, path: impl AsRef<Path>, times: FileTimes) -> Result<()> {
        self.set("change times of", path, &times.attributes())
    }

    fn set(&self, operation: &'static str, path: impl AsRef<Path>, set: &SetAttr) -> Result<()> {
        self.on(operation, path, |mounted, ino| mounted.setattr(ino, set))
    }

    /// Returns the flags of a file or directory, which `lsattr` shows.
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
    /// If the path leads to no file.
    pub fn file_flags(&self, path: impl AsRef<Path>) -> Result<FileFlags> {
        self.on("read flags of", path, Mounted::file_flags)
    }

    /// Replaces all flags of a file or directory, like `chattr`. Flags are enforced for
    /// every user including root, and are durable after a sync.
    ///
    /// # Errors
    /// If the path leads to no file, if the volume's user is not the owner, if
    /// `immutable` or `append_only` change and the user is not root, and if a flag is for
    /// directories only.
    pub fn set_file_flags(&self, path: impl AsRef<Path>, flags: FileFlags) -> Result<()> {
        self.on("change flags of", path, |mounted, ino| {
            mounted.set_file_flags(ino, flags)
        })
    }

    /// Returns the value of an extended attribute, or `None` if the file has none of that
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
    /// If the path leads to no file.
    pub fn xattr(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
    ) -> Result<Option<Vec<u8>>> {
        let name = name.as_ref().as_bytes();
        self.on("read attribute of", path, |mounted, ino| {
            match mounted.getxattr(ino, name) {
                Ok(value) => Ok(Some(value)),
                Err(FsError::NoAttribute) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// Returns the names of all extended attributes.
    ///
    /// # Errors
    /// If the path leads to no file.
    pub fn xattr_names(&self, path: impl AsRef<Path>) -> Result<Vec<OsString>> {
        let names = self.on("list attributes of", path, Mounted::listxattr)?;
        Ok(names.into_iter().map(OsString::from_vec).collect())
    }

    /// Sets an extended attribute and replaces one of that name.
    ///
    /// # Errors
    /// If the path leads to no file, or all attributes together exceed the limit of the
    /// layout: 130,560 bytes on the segmented log.
    pub fn set_xattr(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
        value: &[u8],
    ) -> Result<()> {
        let name = name.as_ref().as_bytes();
        self.on("set attribute of", path, |mounted, ino| {
            mounted.setxattr(ino, name, value)
        })
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// If the path leads to no file, or the file has no such attribute.
    pub fn remove_xattr(&self, path: impl AsRef<Path>, name: impl AsRef<OsStr>) -> Result<()> {
        let name = name.as_ref().as_bytes();
        self.on("remove attribute of", path, |mounted, ino| {
            mounted.removexattr(ino, name)
        })
    }
}
