//! Creates, removes and changes names.

use super::Volume;
use crate::error::Result;
use crate::mounted::{Found, Hold, Last, Mounted, ends_in_slash};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use varve_fs::{Error as FsError, FileKind, InodeNo, Rename};

/// Number of names removed from a directory before it is listed again.
const REMOVE_BATCH: usize = 256;
/// Error for a path like `/` or `a/..`, which has no name that could change.
const NO_NAME: FsError = FsError::Busy;

impl Volume {
    /// Creates a directory with mode 0777 without the bits of the volume's umask.
    ///
    /// # Errors
    /// If the parent is missing or the name exists.
    pub fn create_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        self.mounted()
            .by_path("make directory", path.as_ref(), Mounted::make_dir)
    }

    /// Creates a directory and its missing parents. An existing directory is not an
    /// error.
    ///
    /// # Errors
    /// If a component is not a directory, or cannot be created.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        if path.as_os_str().is_empty() {
            return Ok(()); // like std
        }
        self.mounted()
            .by_path("make directory", path, Mounted::make_dir_all)
    }

    /// Removes a file's name, or a symbolic link.
    ///
    /// # Errors
    /// If the name is missing or is a directory.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.mounted().by_path("remove", path, |mounted, bytes| {
            let (parent, name) = mounted.resolve_parent(bytes, FsError::IsDirectory)?;
            if ends_in_slash(bytes) {
                mounted.find(parent.ino, name)?.directory()?;
                return Err(FsError::IsDirectory);
            }
            mounted.unlink(parent.ino, name)
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// If the directory is missing or contains names.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.mounted()
            .by_path("remove directory", path, |mounted, bytes| {
                let last = bytes
                    .rsplit(|byte| *byte == b'/')
                    .find(|name| !name.is_empty());
                let nameless = match last {
                    Some(b"..") => FsError::NotEmpty,
                    Some(b".") => FsError::Invalid("a directory's own name"),
                    _ => NO_NAME,
                };
                let (parent, name) = mounted.resolve_parent(bytes, nameless)?;
                mounted.rmdir(parent.ino, name)
            })
    }

    /// Removes a directory and its content without following symbolic links; if the path
    /// is a symbolic link, the link is removed. The root itself remains.
    ///
    /// # Errors
    /// If the path is not a directory, or an entry cannot be removed. Entries that were
    /// already removed stay removed.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        self.mounted()
            .by_path("remove directory", path.as_ref(), Mounted::remove_tree)
    }

    /// Renames a file atomically: after a crash it has the old or the new name. A file
    /// that has the new name is replaced.
    ///
    /// # Errors
    /// If the source is missing, or the target is a directory that contains names.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.rename_as(from.as_ref(), to.as_ref(), Rename::default())
    }

    /// Does the same as [`Volume::rename`], but never replaces a file.
    ///
    /// # Errors
    /// The same as [`Volume::rename`], and if the target exists.
    pub fn rename_no_replace(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let flags = Rename {
            no_replace: true,
            ..Rename::default()
        };
        self.rename_as(from.as_ref(), to.as_ref(), flags)
    }

    /// Swaps two names atomically.
    ///
    /// # Errors
    /// If one of them is missing.
    pub fn exchange(&self, one: impl AsRef<Path>, other: impl AsRef<Path>) -> Result<()> {
        let flags = Rename {
            exchange: true,
            ..Rename::default()
        };
        self.rename_as(one.as_ref(), other.as_ref(), flags)
    }

    fn rename_as(&self, from: &Path, to: &Path, flags: Rename) -> Result<()> {
        let last = |mounted, path| Mounted::resolve_parent(mounted, path, NO_NAME);
        let mounted = self.mounted();
        let source = mounted.by_path("rename", from, last);
        let target = mounted.by_path("rename to", to, last);
        let ((parent, name), (new_parent, new_name)) = match (source, target) {
            // Both paths are resolved before the error for a missing last name is
            // reported.
            (Err(no_name), Err(error)) if no_name.kind() == ErrorKind::ResourceBusy => {
                return Err(error);
            }
            (source, target) => (source?, target?),
        };
        let asks_for_directory = [from, to].map(|path| ends_in_slash(bytes(path)));
        mounted.run("rename", from, |mounted| {
            if asks_for_directory.contains(&true) && !flags.exchange {
                mounted.find(parent.ino, name)?.directory()?;
            }
            mounted.rename((parent.ino, name), (new_parent.ino, new_name), flags)
        })
    }

    /// Adds a name to a file. A symbolic link at the end of `original` is not followed.
    ///
    /// # Errors
    /// If the file is missing or a directory, or the new name exists.
    pub fn hard_link(&self, original: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let (original, link) = (original.as_ref(), link.as_ref());
        let mounted = self.mounted();
        let file = mounted.by_path("link", original, |mounted, path| {
            mounted.resolve(path, Last::Keep)
        })?;
        mounted.by_path("make link", link, |mounted, path| {
            let (parent, name) = mounted.resolve_new(path)?;
            mounted.link(file.ino, parent.ino, name)
        })
    }

    /// Creates a symbolic link with the target `original`, which need not exist.
    ///
    /// # Errors
    /// If the name exists, or the target is empty or too long.
    pub fn symlink(&self, original: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let (original, link) = (bytes(original.as_ref()), link.as_ref());
        self.mounted()
            .by_path("make symbolic link", link, |mounted, path| {
                let (parent, name) = mounted.resolve_new(path)?;
                mounted.symlink(parent.ino, name, original)
            })
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// If the path is missing or not a symbolic link.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let target = self
            .mounted()
            .by_path("read link", path.as_ref(), |mounted, path| {
                mounted.readlink(mounted.resolve(path, Last::Keep)?.ino)
            })?;
        Ok(OsString::from_vec(target).into())
    }

    /// Returns true if the path leads to a file. A symbolic link is followed.
    ///
    /// # Errors
    /// If a component is not a directory, or is damaged.
    pub fn exists(&self, path: impl AsRef<Path>) -> Result<bool> {
        let path = path.as_ref();
        self.mounted().by_path("look for", path, |mounted, path| {
            match mounted.resolve(path, Last::Follow) {
                Ok(_) => Ok(true),
                Err(FsError::NotFound) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

impl Mounted {
    /// Returns the directory and the name for a new file that is not a directory.
    fn resolve_new<'m, 'p>(&'m self, path: &'p [u8]) -> varve_fs::Result<(Hold<'m>, &'p [u8])> {
        let (parent, name) = self.resolve_parent(path, FsError::Exists)?;
        if ends_in_slash(path) {
            self.find(parent.ino, name)?;
            return Err(FsError::Exists);
        }
        Ok((parent, name))
    }

    fn make_dir(&self, path: &[u8]) -> varve_fs::Result<()> {
        // `/`, `.` and `..` always exist.
        let (parent, name) = self.resolve_parent(path, FsError::Exists)?;
        self.mkdir(parent.ino, name, 0o777)
    }

    /// Creates missing parents, which are derived from the text of the path as in std:
    /// the parent of `a/.` is that of `a`.
    fn make_dir_all(&self, path: &[u8]) -> varve_fs::Result<()> {
        match self.make_dir_unless_there(path) {
            Err(FsError::NotFound) => {}
            other => return other,
        }
        let above = Path::new(OsStr::from_bytes(path)).parent();
        if let Some(above) = above.filter(|above| !above.as_os_str().is_empty()) {
            self.make_dir_all(bytes(above))?;
        }
        self.make_dir_unless_there(path)
    }

    fn make_dir_unless_there(&self, path: &[u8]) -> varve_fs::Result<()> {
        let leads_to_one = || self.resolve(path, Last::Follow)?.directory();
        match self.make_dir(path) {
            Err(FsError::Exists) if leads_to_one().is_ok() => Ok(()),
            other => other,
        }
    }

    fn remove_tree(&self, path: &[u8]) -> varve_fs::Result<()> {
        let (parent, name) = match self.resolve_parent(path, NO_NAME) {
            // The root remains, however the path spells it.
            Err(FsError::Busy) if self.resolve(path, Last::Keep)?.ino == InodeNo::ROOT => {
                return self.empty(InodeNo::ROOT);
            }
            other => other?,
        };
        let top = self.find(parent.ino, name)?;
        if top.kind == FileKind::Symlink && !ends_in_slash(path) {
            return self.unlink(parent.ino, name);
        }
        top.directory()?;
        self.empty(top.ino)?;
        self.rmdir(parent.ino, name)
    }

    /// Removes everything in a directory, depth first. It keeps an explicit stack,
    /// because trees may be deeper than the thread's stack.
    fn empty(&self, top: InodeNo) -> varve_fs::Result<()> {
        let mut stack: Vec<(Found<'_>, Vec<u8>)> = Vec::new();
        loop {
            let directory = stack.last().map_or(top, |(found, _)| found.ino);
            let mut names = Vec::new();
            self.readdir(directory, 2, &mut |entry| {
                names.push((entry.name.to_vec(), entry.kind));
                names.len() < REMOVE_BATCH
            })?;
            if names.is_empty() {
                let Some((_, name)) = stack.pop() else {
                    return Ok(());
                };
                let parent = stack.last().map_or(top, |(found, _)| found.ino);
                self.rmdir(parent, &name)?;
                continue;
            }
            for (name, kind) in names {
                if kind == FileKind::Directory {
                    let child = self.find(directory, &name)?;
                    stack.push((child, name));
                    break;
                }
                self.unlink(directory, &name)?;
            }
        }
    }
}
