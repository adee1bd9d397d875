//! Names by which the kernel of a view found files.
//!
//! The kernel of the mount to which the view's changes are committed invalidates files by
//! name, see [`crate::Kernel`]. A file has an entry while the view's kernel knows it, and until
//! the end of the view if it was changed, as have all directories above it.
//!
//! Invariant: `keep(i)` marks `i` and each directory on its path as kept, and a kept entry is
//! never removed or replaced.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use varve_fs::InodeNo;

/// Longest path, in names. A longer one is a cycle that concurrent renames have made.
const NAMES_MAX: usize = 4096;

/// A directory, and a name in it.
pub(crate) type Name = (InodeNo, Vec<u8>);

struct FoundName {
    name: Name,
    is_kept: bool,
}

/// The names of the files of a view.
#[derive(Default)]
pub(crate) struct FoundNames {
    tables: Mutex<NameTables>,
}

#[derive(Default)]
struct NameTables {
    /// The first name by which a file was found.
    found: HashMap<InodeNo, FoundName>,
    /// The newest name of a file that was renamed.
    renamed: HashMap<InodeNo, Name>,
}

impl NameTables {
    fn keep(&mut self, mut ino: InodeNo) {
        while let Some(entry) = self.found.get_mut(&ino).filter(|entry| !entry.is_kept) {
            entry.is_kept = true;
            ino = entry.name.0;
        }
    }
}

impl FoundNames {
    /// Notes a name by which the kernel has found a file. Only the first one is kept.
    pub(crate) fn note(&self, ino: InodeNo, parent: InodeNo, name: &[u8]) {
        let found = &mut self.tables.lock().found;
        found.entry(ino).or_insert_with(|| FoundName {
            name: (parent, name.to_vec()),
            is_kept: false,
        });
    }

    /// Notes a name to which a file was renamed.
    pub(crate) fn note_renamed(&self, ino: InodeNo, parent: InodeNo, name: &[u8]) {
        let mut tables = self.tables.lock();
        tables.renamed.insert(ino, (parent, name.to_vec()));
        tables.keep(ino);
        tables.keep(parent);
    }

    /// Keeps the names of a file and of all directories above it, because it is changed.
    pub(crate) fn keep(&self, ino: InodeNo) {
        self.tables.lock().keep(ino);
    }

    /// Removes a file that the kernel has forgotten, unless it is kept.
    pub(crate) fn forget(&self, ino: InodeNo) {
        let found = &mut self.tables.lock().found;
        if found.get(&ino).is_some_and(|entry| !entry.is_kept) {
            found.remove(&ino);
        }
    }

    /// The first name by which a file was found.
    pub(crate) fn first(&self, ino: InodeNo) -> Option<Name> {
        let tables = self.tables.lock();
        tables.found.get(&ino).map(|entry| entry.name.clone())
    }

    /// The newest name of a file: the one to which it was renamed, or the first one.
    pub(crate) fn newest(&self, ino: InodeNo) -> Option<Name> {
        let renamed = self.tables.lock().renamed.get(&ino).cloned();
        renamed.or_else(|| self.first(ino))
    }

    /// The files that were renamed.
    pub(crate) fn renamed(&self) -> Vec<InodeNo> {
        self.tables.lock().renamed.keys().copied().collect()
    }

    /// The path of a file from the mount's root by first names.
    pub(crate) fn first_path(&self, ino: InodeNo) -> Option<PathBuf> {
        path_by(ino, |ino| self.first(ino))
    }

    /// The path of a file from the mount's root by newest names.
    pub(crate) fn newest_path(&self, ino: InodeNo) -> Option<PathBuf> {
        path_by(ino, |ino| self.newest(ino))
    }
}

fn path_by(mut ino: InodeNo, name_of: impl Fn(InodeNo) -> Option<Name>) -> Option<PathBuf> {
    let mut names = Vec::new();
    while ino != InodeNo::ROOT {
        let (parent, name) = name_of(ino)?;
        names.push(name);
        ino = parent;
        if names.len() > NAMES_MAX {
            return None;
        }
    }
    let names = names.iter().rev().map(|name| OsStr::from_bytes(name));
    Some(names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORY: InodeNo = InodeNo(5);
    const FILE: InodeNo = InodeNo(6);
    const OTHER: InodeNo = InodeNo(7);

    fn found() -> FoundNames {
        let names = FoundNames::default();
        names.note(DIRECTORY, InodeNo::ROOT, b"d");
        names.note(FILE, DIRECTORY, b"f");
        names.note(FILE, DIRECTORY, b"second name");
        names.note(OTHER, DIRECTORY, b"o");
        names
    }

    fn forget_all(names: &FoundNames) {
        for ino in [DIRECTORY, FILE, OTHER] {
            names.forget(ino);
        }
    }

    #[test]
    fn a_changed_file_is_kept_with_all_directories_above() {
        let names = found();
        names.keep(FILE);
        forget_all(&names);
        assert_eq!(names.first(FILE), Some((DIRECTORY, b"f".to_vec())));
        assert_eq!(names.first(DIRECTORY), Some((InodeNo::ROOT, b"d".to_vec())));
        assert_eq!(names.first(OTHER), None);
        assert_eq!(names.first_path(FILE), Some("d/f".into()));
        assert_eq!(names.first_path(OTHER), None);
    }

    #[test]
    fn a_renamed_file_has_its_first_and_its_newest_name() {
        let names = found();
        names.note_renamed(FILE, InodeNo::ROOT, b"g");
        names.note_renamed(DIRECTORY, InodeNo::ROOT, b"e");
        forget_all(&names);
        assert_eq!(names.first_path(FILE), Some("d/f".into()));
        assert_eq!(names.newest_path(FILE), Some("g".into()));
        assert_eq!(
            names.newest(DIRECTORY),
            Some((InodeNo::ROOT, b"e".to_vec()))
        );
        assert_eq!(names.renamed().len(), 2);
        // Directories below themselves have no path.
        names.note_renamed(DIRECTORY, DIRECTORY, b"e");
        assert_eq!(names.newest_path(DIRECTORY), None);
    }
}
