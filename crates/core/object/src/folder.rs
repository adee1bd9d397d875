//! Objects as files below a directory of the host.
//!
//! An object is written to a temporary file, flushed, and given its name by link(2), which
//! fails if the name exists: so an object is whole or absent, also after a power cut.
//! Names that begin with a dot are no objects. Slashes in names are directories.

use crate::store::{Cause, Listed, Request, Store, StoreError, StoreResult};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

/// A store in a directory.
#[derive(Debug)]
pub struct FolderStore {
    root: PathBuf,
    /// Number of temporary files made, for their names.
    made: AtomicU64,
}

impl FolderStore {
    /// Opens the store in a directory, which is made if it is missing.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(root: impl Into<PathBuf>) -> StoreResult<Self> {
        let store = FolderStore {
            root: root.into(),
            made: AtomicU64::new(0),
        };
        let made = fs::create_dir_all(&store.root);
        made.map_err(|error| store.failed(Request::Create, "", &error))?;
        Ok(store)
    }

    fn failed(&self, operation: Request, object: &str, error: &io::Error) -> StoreError {
        let cause = match error.kind() {
            ErrorKind::NotFound => Cause::Missing,
            ErrorKind::AlreadyExists => Cause::Exists,
            ErrorKind::Interrupted | ErrorKind::TimedOut => Cause::Unavailable,
            ErrorKind::UnexpectedEof => Cause::Malformed,
            _ => Cause::Rejected,
        };
        StoreError {
            store: self.name(),
            operation,
            object: object.to_owned(),
            cause,
            message: error.to_string(),
        }
    }

    /// Runs a request on the file of an object.
    fn on<T>(
        &self,
        operation: Request,
        name: &str,
        run: impl FnOnce(&Path) -> io::Result<T>,
    ) -> StoreResult<T> {
        let is_part = |part: &str| !part.is_empty() && !part.starts_with('.');
        let done = match name.split('/').all(is_part) && !name.contains('\0') {
            true => run(&self.root.join(name)),
            false => Err(io::Error::from(ErrorKind::InvalidInput)),
        };
        done.map_err(|error| self.failed(operation, name, &error))
    }

    fn write(&self, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        let above = path.parent().unwrap_or(&self.root);
        if !above.is_dir() {
            fs::create_dir_all(above)?;
            sync(above.parent().unwrap_or(&self.root))?;
        }
        let number = self.made.fetch_add(1, Relaxed);
        let temporary = self
            .root
            .join(format!(".new-{}-{number}", std::process::id()));
        let written = File::create_new(&temporary).and_then(|mut file| {
            parts.iter().try_for_each(|part| file.write_all(part))?;
            file.sync_all()?;
            fs::hard_link(&temporary, path)?;
            sync(above)
        });
        let removed = fs::remove_file(&temporary);
        written.and(removed)
    }

    fn collect(&self, directory: &Path, into: &mut Vec<Listed>) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            let found = match entry.metadata() {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                found => found?,
            };
            if found.is_dir() {
                self.collect(&path, into)?;
            } else if let Some(name) = path.strip_prefix(&self.root).ok().and_then(Path::to_str) {
                into.push(Listed {
                    name: name.to_owned(),
                    bytes: found.len(),
                    modified: found.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                });
            }
        }
        Ok(())
    }
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

impl Store for FolderStore {
    fn create(&self, name: &str, parts: &[&[u8]]) -> StoreResult<()> {
        self.on(Request::Create, name, |path| self.write(path, parts))
    }

    fn get(&self, name: &str) -> StoreResult<Vec<u8>> {
        self.on(Request::Get, name, |path| fs::read(path))
    }

    fn get_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> StoreResult<()> {
        let read = |path: &Path| File::open(path)?.read_exact_at(buffer, offset);
        self.on(Request::Get, name, read)
    }

    fn list(&self, prefix: &str, after: &str) -> StoreResult<Vec<Listed>> {
        let mut all = Vec::new();
        let collected = self.collect(&self.root, &mut all);
        collected.map_err(|error| self.failed(Request::List, prefix, &error))?;
        all.retain(|object| object.name.starts_with(prefix) && *object.name > *after);
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    fn delete(&self, name: &str) -> StoreResult<()> {
        self.on(Request::Delete, name, |path| match fs::remove_file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        })
    }

    fn name(&self) -> String {
        self.root.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_created_once_read_listed_and_deleted() {
        let host = tempfile::tempdir().unwrap();
        let store = FolderStore::open(host.path().join("new")).unwrap();
        store.create("a/1", &[b"one", b"more"]).unwrap();
        store.create("a/2", &[]).unwrap();
        store.create("b", &[b"x"]).unwrap();
        let cause = |result: StoreResult<()>| result.unwrap_err().cause;
        assert_eq!(cause(store.create("a/1", &[b"other"])), Cause::Exists);
        assert_eq!(store.get("a/1").unwrap(), b"onemore");
        let mut part = [0; 4];
        store.get_range("a/1", 3, &mut part).unwrap();
        assert_eq!(&part, b"more");
        assert_eq!(
            cause(store.get_range("a/1", 4, &mut part)),
            Cause::Malformed
        );
        let names = |prefix, after| -> Vec<String> {
            let all = store.list(prefix, after).unwrap().into_iter();
            all.map(|object| object.name).collect()
        };
        assert_eq!(names("", ""), ["a/1", "a/2", "b"]);
        assert_eq!(names("a/", "a/1"), ["a/2"]);
        store.delete("a/1").unwrap();
        store.delete("a/1").unwrap();
        assert_eq!(store.get("a/1").unwrap_err().cause, Cause::Missing);
        for name in ["../x", ".hidden", "a//b", ""] {
            assert_eq!(cause(store.create(name, &[])), Cause::Rejected, "{name}");
        }
    }
}
