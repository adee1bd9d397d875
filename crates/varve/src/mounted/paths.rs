//! By which paths a transaction found files, so that a conflict can name them.

use super::Mounted;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use varve_fs::InodeNo;

/// So many files at most: who uses more has to do without.
const FILES: usize = 1024;

/// Those of a transaction, and of all within it.
#[derive(Default)]
pub(crate) struct Paths(Mutex<HashMap<InodeNo, Box<Path>>>);

impl Mounted {
    /// `path` led to this file.
    pub fn note(&self, ino: InodeNo, path: &[u8]) {
        let Some(Paths(paths)) = self.paths.as_deref() else {
            return;
        };
        let mut paths = paths.lock();
        if paths.len() < FILES || paths.contains_key(&ino) {
            let path = if path.is_empty() { b"/" } else { path };
            paths.insert(ino, Path::new(OsStr::from_bytes(path)).into());
        }
    }

    /// The path that led to a file last, where it is known.
    pub fn path_of(&self, ino: InodeNo) -> Option<PathBuf> {
        let paths = self.paths.as_deref()?.0.lock();
        paths.get(&ino).map(|path| path.to_path_buf())
    }
}
