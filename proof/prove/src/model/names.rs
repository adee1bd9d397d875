//! The model's names: resolving, creating, linking, removing, renaming.

use super::errno::*;
use super::{Id, Model, ROOT, Refusal, refuse};
use crate::operation::{Over, Path};
use varve_fs::FileKind;

/// Longest name in bytes.
const NAME_MAX: usize = 255;

type Result<T> = std::result::Result<T, Refusal>;

impl Model {
    /// Returns the directory that contains the last name of `path`, and that name. The
    /// root has none, and operations on it are outside of the model.
    fn place(&self, path: &Path) -> Result<(Id, Vec<u8>)> {
        let mut components = path.components();
        let name = components.pop().ok_or(Refusal::Skip)?;
        let mut at = ROOT;
        for component in &components {
            at = self.lookup(at, component)?;
        }
        Ok((at, name))
    }

    pub(super) fn resolve(&self, path: &Path) -> Result<Id> {
        let components = path.components();
        components
            .iter()
            .try_fold(ROOT, |at, component| self.lookup(at, component))
    }

    fn lookup(&self, directory: Id, name: &[u8]) -> Result<Id> {
        let node = self.node(directory);
        if node.kind != FileKind::Directory {
            return refuse(ENOTDIR);
        }
        if name.len() > NAME_MAX {
            return refuse(ENAMETOOLONG);
        }
        node.entries
            .get(name)
            .copied()
            .map_or_else(|| refuse(ENOENT), Ok)
    }

    /// Returns the place of a name that must be free.
    fn vacancy(&self, path: &Path) -> Result<(Id, Vec<u8>)> {
        let (directory, name) = self.place(path)?;
        match self.lookup(directory, &name) {
            Ok(_) => refuse(EEXIST),
            Err(Refusal::Errno(ENOENT)) => Ok((directory, name)),
            Err(other) => Err(other),
        }
    }

    pub(super) fn make(&mut self, path: &Path, kind: FileKind, mode: u32) -> Result<Id> {
        let (directory, name) = self.vacancy(path)?;
        let id = self.add(kind, mode, directory);
        self.change(id).nlink = 1;
        if kind == FileKind::Directory {
            self.change(id).nlink = 2;
            self.change(directory).nlink += 1;
        }
        self.change(directory).entries.insert(name, id);
        Ok(id)
    }

    pub(super) fn link(&mut self, from: &Path, to: &Path) -> Result<()> {
        let id = self.resolve(from)?;
        let is_directory = self.node(id).kind == FileKind::Directory;
        let (directory, name) = self.vacancy(to)?;
        if is_directory {
            return refuse(EPERM);
        }
        self.change(directory).entries.insert(name, id);
        self.change(id).nlink += 1;
        Ok(())
    }

    pub(super) fn unlink(&mut self, path: &Path) -> Result<()> {
        let (directory, name) = self.place(path)?;
        let id = self.lookup(directory, &name)?;
        if self.node(id).kind == FileKind::Directory {
            return refuse(EISDIR);
        }
        self.change(directory).entries.remove(&name);
        self.drop_name(id);
        Ok(())
    }

    pub(super) fn rmdir(&mut self, path: &Path) -> Result<()> {
        let (directory, name) = self.place(path)?;
        let id = self.lookup(directory, &name)?;
        if self.node(id).kind != FileKind::Directory {
            return refuse(ENOTDIR);
        }
        if !self.node(id).entries.is_empty() {
            return refuse(ENOTEMPTY);
        }
        self.change(directory).entries.remove(&name);
        self.change(directory).nlink -= 1;
        self.drop_name(id);
        Ok(())
    }

    /// Removes a name of `id`; a directory has only one.
    fn drop_name(&mut self, id: Id) {
        let node = self.change(id);
        node.nlink = if node.kind == FileKind::Directory {
            0
        } else {
            node.nlink - 1
        };
        self.forget_if_unused(id);
    }

    /// Returns true if `directory` is `id` or below it.
    fn is_within(&self, mut directory: Id, id: Id) -> bool {
        while directory != id && directory != ROOT {
            directory = self.node(directory).parent;
        }
        directory == id
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path, over: Over) -> Result<()> {
        let (from_directory, from_name) = self.place(from)?;
        let (to_directory, to_name) = self.place(to)?;
        for directory in [from_directory, to_directory] {
            if self.node(directory).kind != FileKind::Directory {
                return refuse(ENOTDIR);
            }
        }
        let source = self.lookup(from_directory, &from_name)?;
        let target = match self.lookup(to_directory, &to_name) {
            Ok(target) => Some(target),
            Err(Refusal::Errno(ENOENT)) => None,
            Err(other) => return Err(other),
        };
        let below_itself = self.is_within(to_directory, source);
        match (over, target) {
            (Over::Refuse, Some(_)) => return refuse(EEXIST),
            (Over::Exchange, None) => return refuse(ENOENT),
            _ => {}
        }
        if below_itself {
            return refuse(EINVAL);
        }
        if let Some(target) = target {
            if self.is_within(from_directory, target) {
                return refuse(if over == Over::Exchange {
                    EINVAL
                } else {
                    ENOTEMPTY
                });
            }
            if source == target {
                return Ok(());
            }
            if over == Over::Exchange {
                self.place_at(to_directory, to_name, source);
                self.place_at(from_directory, from_name, target);
                self.recount_directories();
                return Ok(());
            }
            self.replaceable(source, target)?;
        }
        self.change(from_directory).entries.remove(&from_name);
        self.place_at(to_directory, to_name, source);
        if over == Over::Whiteout {
            let whiteout = self.add(FileKind::CharDevice, 0, from_directory);
            self.change(whiteout).nlink = 1;
            self.place_at(from_directory, from_name, whiteout);
        }
        if let Some(target) = target {
            self.drop_name(target);
            // The source's data is durable before the rename is.
            self.settle_file(source);
        }
        self.recount_directories();
        Ok(())
    }

    fn replaceable(&self, source: Id, target: Id) -> Result<()> {
        let directory = |id: Id| self.node(id).kind == FileKind::Directory;
        match (directory(source), directory(target)) {
            (true, false) => refuse(ENOTDIR),
            (false, true) => refuse(EISDIR),
            (true, true) if !self.node(target).entries.is_empty() => refuse(ENOTEMPTY),
            _ => Ok(()),
        }
    }

    fn place_at(&mut self, directory: Id, name: Vec<u8>, id: Id) {
        self.change(directory).entries.insert(name, id);
        if self.node(id).kind == FileKind::Directory {
            self.change(id).parent = directory;
        }
    }

    /// Sets link counts of directories: 2, and one for each subdirectory.
    fn recount_directories(&mut self) {
        let directories: Vec<Id> = self.nodes.keys().copied().collect();
        for id in directories {
            let node = self.node(id);
            if node.kind != FileKind::Directory || node.nlink == 0 {
                continue;
            }
            let below = node.entries.values();
            let below = below.filter(|&&child| self.node(child).kind == FileKind::Directory);
            let nlink = 2 + below.count() as u32;
            if self.node(id).nlink != nlink {
                self.change(id).nlink = nlink;
            }
        }
    }
}
