//! By which paths a transaction found files, so that a conflict can name them.

use super::Mounted;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
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
        let path = if path.is_empty() { b"/" } else { path };
        let path = Path::new(OsStr::from_bytes(path));
        let mut paths = paths.lock();
        let full = paths.len() >= FILES;
        match paths.entry(ino) {
            Entry::Occupied(known) if **known.get() == *path => {}
            Entry::Occupied(mut known) => *known.get_mut() = path.into(),
            Entry::Vacant(_) if full => {}
            Entry::Vacant(place) => _ = place.insert(path.into()),
        }
    }

    /// The path that led to a file last, where it is known.
    pub fn path_of(&self, ino: InodeNo) -> Option<PathBuf> {
        let paths = self.paths.as_deref()?.0.lock();
        paths.get(&ino).map(|path| path.to_path_buf())
    }
}
