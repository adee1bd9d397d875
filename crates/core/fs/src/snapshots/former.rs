//! What a path was in each snapshot: versions of a file, and names that are gone.

use super::SnapshotTree;
use crate::attr::{Attr, Caller};
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::{Layout, VolumeSnapshot};
use crate::types::{FileKind, InodeNo};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A version of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerFile {
    /// The oldest snapshot that has this version; none for that of the present.
    pub snapshot: Option<VolumeSnapshot>,
    /// Its attributes.
    pub attr: Attr,
}

/// A name that a snapshot has and the present has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedName {
    /// The name.
    pub name: Vec<u8>,
    /// The newest snapshot that has it.
    pub snapshot: VolumeSnapshot,
    /// The attributes of what it led to.
    pub attr: Attr,
}

impl<L: Layout> FileSystem<L> {
    /// The file at a path, from the root and without following symbolic links.
    ///
    /// # Errors
    /// As [`Self::lookup`].
    pub fn lookup_path(&self, caller: &Caller, path: &[u8]) -> Result<Attr> {
        let mut attr = self.getattr(InodeNo::ROOT)?;
        for name in names_of(path) {
            attr = self.lookup(caller, attr.ino, name)?;
        }
        Ok(attr)
    }

    /// The versions of the file at a path, oldest first and the present one last.
    /// Snapshots in which it is the same are one version.
    ///
    /// # Errors
    /// `NoSnapshots`, `AccessDenied`, `Damaged`, device errors.
    pub fn versions(self: &Arc<Self>, caller: &Caller, path: &[u8]) -> Result<Vec<FormerFile>> {
        let mut versions: Vec<FormerFile> = Vec::new();
        let mut add = |snapshot, attr: Attr| {
            let is_same = |last: &FormerFile| identity(&last.attr) == identity(&attr);
            if !versions.last().is_some_and(is_same) {
                versions.push(FormerFile { snapshot, attr });
            }
        };
        for snapshot in self.snapshots()? {
            if let Some(tree) = self.at_if_kept(&snapshot)?
                && let Some(attr) = tree.at_path(caller, path)?
            {
                add(Some(snapshot), attr);
            }
        }
        if let Some(attr) = self.at_path(caller, path)? {
            add(None, attr);
        }
        Ok(versions)
    }

    /// The names that were in the directory at a path and are not any more, sorted.
    /// The directory itself may be gone.
    ///
    /// # Errors
    /// As [`Self::versions`].
    pub fn removed_names(
        self: &Arc<Self>,
        caller: &Caller,
        path: &[u8],
    ) -> Result<Vec<RemovedName>> {
        let present = match self.directory_at_path(caller, path)? {
            Some(directory) => self.names_in(directory)?,
            None => Vec::new(),
        };
        let mut known: BTreeSet<Vec<u8>> = present.into_iter().map(|(name, ..)| name).collect();
        let mut removed = BTreeMap::new();
        for snapshot in self.snapshots()?.into_iter().rev() {
            let Some(tree) = self.at_if_kept(&snapshot)? else {
                continue;
            };
            let Some(directory) = tree.directory_at_path(caller, path)? else {
                continue;
            };
            for (name, ino, _) in tree.names_in(directory)? {
                if known.insert(name.clone()) {
                    let (attr, snapshot) = (tree.getattr(ino)?, snapshot.clone());
                    let removed_name = RemovedName {
                        name: name.clone(),
                        snapshot,
                        attr,
                    };
                    removed.insert(name, removed_name);
                }
            }
        }
        Ok(removed.into_values().collect())
    }

    /// The newest snapshot in which a path exists.
    ///
    /// # Errors
    /// `NotFound` if none has it; as [`Self::versions`].
    pub fn newest_with(self: &Arc<Self>, caller: &Caller, path: &[u8]) -> Result<VolumeSnapshot> {
        for snapshot in self.snapshots()?.into_iter().rev() {
            if let Some(tree) = self.at_if_kept(&snapshot)?
                && tree.at_path(caller, path)?.is_some()
            {
                return Ok(snapshot);
            }
        }
        Err(Error::NotFound)
    }

    /// The tree of a snapshot that was listed; none if it was deleted since.
    fn at_if_kept(self: &Arc<Self>, snapshot: &VolumeSnapshot) -> Result<Option<SnapshotTree<L>>> {
        match self.at(snapshot.number) {
            Ok(tree) => Ok(Some(tree)),
            Err(Error::NoSuchSnapshot) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn at_path(&self, caller: &Caller, path: &[u8]) -> Result<Option<Attr>> {
        match self.lookup_path(caller, path) {
            Ok(attr) => Ok(Some(attr)),
            Err(Error::NotFound | Error::NotDirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn directory_at_path(&self, caller: &Caller, path: &[u8]) -> Result<Option<InodeNo>> {
        let attr = self.at_path(caller, path)?;
        let directory = attr.filter(|attr| attr.kind == FileKind::Directory);
        let Some(attr) = directory else {
            return Ok(None);
        };
        self.access(caller, attr.ino, 4)?;
        Ok(Some(attr.ino))
    }
}

/// The names that a path consists of.
pub(crate) fn names_of(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let names = path.split(|byte| *byte == b'/');
    names.filter(|name| !name.is_empty() && *name != b".")
}

/// What tells versions of a file apart: every change of content sets the time.
fn identity(attr: &Attr) -> impl PartialEq + use<> {
    (attr.ino, attr.version, attr.size, attr.mtime)
}
