//! Making, removing and changing names.

use super::walk::{Found, Last};
use super::{Volume, at, bytes};
use crate::error::Result;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use varve_fs::{Error as Cause, FileKind, InodeNo, Rename, View};

/// Names removed from a directory before it is listed again.
const REMOVE_BATCH: usize = 256;

impl Volume {
    /// Makes a directory with mode 0755.
    ///
    /// # Errors
    /// If the parent is missing or the name exists.
    pub fn create_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.mkdir(bytes(path)).map_err(at("make directory", path))
    }

    /// Makes a directory and whatever is missing above it. One that exists is
    /// no error.
    ///
    /// # Errors
    /// If something on the way is not a directory, or cannot be made.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.mkdir_all(bytes(path))
            .map_err(at("make directory", path))
    }

    fn mkdir(&self, path: &[u8]) -> varve_fs::Result<()> {
        let (parent, name) = match self.mounted.resolve_parent(path) {
            // `/`, `.` and `..` always exist.
            Err(Cause::Invalid(_)) => return Err(Cause::Exists),
            other => other?,
        };
        let caller = self.caller();
        self.fs()
            .mkdir(View::Live, caller, parent.ino, name, 0o777)?;
        Ok(())
    }

    fn mkdir_all(&self, path: &[u8]) -> varve_fs::Result<()> {
        match self.mounted.resolve(path, Last::Follow) {
            Ok(attr) if attr.kind == FileKind::Directory => return Ok(()),
            Ok(_) => return Err(Cause::NotDirectory),
            Err(Cause::NotFound) => {}
            Err(error) => return Err(error),
        }
        let end = path.iter().rposition(|&b| b != b'/').map_or(0, |i| i + 1);
        if let Some(slash) = path[..end].iter().rposition(|&b| b == b'/') {
            self.mkdir_all(&path[..slash])?;
        }
        match self.mkdir(path) {
            Err(Cause::Exists) => Ok(()), // somebody was faster
            other => other,
        }
    }

    /// Removes a file's name, or a symbolic link.
    ///
    /// # Errors
    /// If there is none, or it is a directory.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.mounted
            .resolve_parent(bytes(path))
            .and_then(|(parent, name)| {
                self.fs()
                    .unlink(View::Live, self.caller(), parent.ino, name)
            })
            .map_err(at("remove", path))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// If there is none, or it holds names.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.mounted
            .resolve_parent(bytes(path))
            .and_then(|(parent, name)| self.fs().rmdir(View::Live, self.caller(), parent.ino, name))
            .map_err(at("remove directory", path))
    }

    /// Removes a directory and everything in it, without following symbolic
    /// links. The root itself stays.
    ///
    /// # Errors
    /// If it is no directory, or something in it cannot be removed; what was
    /// removed before stays so.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.remove_tree(bytes(path))
            .map_err(at("remove directory", path))
    }

    fn remove_tree(&self, path: &[u8]) -> varve_fs::Result<()> {
        let (parent, name) = match self.mounted.resolve_parent(path) {
            // The root stays, however it is spelled.
            Err(Cause::Invalid(_))
                if self.mounted.resolve(path, Last::Keep)?.ino == InodeNo::ROOT =>
            {
                return self.empty(InodeNo::ROOT);
            }
            other => other?,
        };
        let top = self.mounted.find(parent.ino, name)?;
        if top.kind != FileKind::Directory {
            return Err(Cause::NotDirectory);
        }
        self.empty(top.ino)?;
        self.fs().rmdir(View::Live, self.caller(), parent.ino, name)
    }

    /// Removes everything in a directory, depth first, with a stack of its
    /// own: trees may be deeper than ours.
    fn empty(&self, top: InodeNo) -> varve_fs::Result<()> {
        let mut stack: Vec<(Found<'_>, Vec<u8>)> = Vec::new();
        loop {
            let directory = stack.last().map_or(top, |(found, _)| found.ino);
            let mut names = Vec::new();
            self.fs().readdir(View::Live, directory, 2, &mut |entry| {
                names.push((entry.name.to_vec(), entry.kind));
                names.len() < REMOVE_BATCH
            })?;
            if names.is_empty() {
                let Some((_, name)) = stack.pop() else {
                    return Ok(());
                };
                let parent = stack.last().map_or(top, |(found, _)| found.ino);
                self.fs().rmdir(View::Live, self.caller(), parent, &name)?;
                continue;
            }
            for (name, kind) in names {
                if kind == FileKind::Directory {
                    let child = self.mounted.find(directory, &name)?;
                    stack.push((child, name));
                    break;
                }
                self.fs()
                    .unlink(View::Live, self.caller(), directory, &name)?;
            }
        }
    }

    /// Gives a file another name, in one step: a crash leaves the one or the
    /// other. What had the new name is replaced.
    ///
    /// # Errors
    /// If the source is missing, or the target is a directory that holds
    /// names.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.rename_as(from.as_ref(), to.as_ref(), Rename::default())
    }

    /// [`Volume::rename`], but never replaces anything.
    ///
    /// # Errors
    /// As [`Volume::rename`], and if the target exists.
    pub fn rename_no_replace(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let flags = Rename {
            no_replace: true,
            ..Rename::default()
        };
        self.rename_as(from.as_ref(), to.as_ref(), flags)
    }

    /// Swaps two names in one step.
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
        let source = self.mounted.resolve_parent(bytes(from));
        let (parent, name) = source.map_err(at("rename", from))?;
        let target = self.mounted.resolve_parent(bytes(to));
        let (new_parent, new_name) = target.map_err(at("rename to", to))?;
        self.fs()
            .rename(
                View::Live,
                self.caller(),
                parent.ino,
                name,
                new_parent.ino,
                new_name,
                flags,
            )
            .map_err(at("rename", from))
    }

    /// Gives a file a further name. A symbolic link at the end of `existing`
    /// is linked itself.
    ///
    /// # Errors
    /// If the file is missing or a directory, or the new name exists.
    pub fn hard_link(&self, existing: impl AsRef<Path>, new: impl AsRef<Path>) -> Result<()> {
        let (existing, new) = (existing.as_ref(), new.as_ref());
        let file = self.mounted.resolve(bytes(existing), Last::Keep);
        let file = file.map_err(at("link", existing))?;
        self.mounted
            .resolve_parent(bytes(new))
            .and_then(|(parent, name)| {
                self.fs()
                    .link(View::Live, self.caller(), file.ino, parent.ino, name)
            })
            .map_err(at("make link", new))?;
        Ok(())
    }

    /// Makes a symbolic link that says `target`, which need not exist.
    ///
    /// # Errors
    /// If the name exists or the target is empty or too long.
    pub fn symlink(&self, target: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let (target, link) = (bytes(target.as_ref()), link.as_ref());
        self.mounted
            .resolve_parent(bytes(link))
            .and_then(|(parent, name)| {
                self.fs()
                    .symlink(View::Live, self.caller(), parent.ino, name, target)
            })
            .map_err(at("make symbolic link", link))?;
        Ok(())
    }

    /// What a symbolic link says.
    ///
    /// # Errors
    /// If there is none.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let path = path.as_ref();
        let target = self
            .mounted
            .resolve(bytes(path), Last::Keep)
            .and_then(|attr| self.fs().readlink(View::Live, attr.ino))
            .map_err(at("read link", path))?;
        Ok(OsString::from_vec(target).into())
    }

    /// True if the path leads to something. An unreadable path counts as
    /// nothing.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        let path = bytes(path.as_ref());
        self.mounted.resolve(path, Last::Follow).is_ok()
    }
}
