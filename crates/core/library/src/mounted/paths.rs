//! Paths by which a transaction found files, so that a conflict can name them.

use super::Mounted;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use varve_fs::InodeNo;

/// Largest number of files recorded per transaction.
const FILES: usize = 1024;

/// Paths of a transaction and of all savepoints in it.
#[derive(Default)]
pub(crate) struct Paths(Mutex<HashMap<InodeNo, Box<Path>>>);

impl Mounted {
    /// Records that `path` led to this file.
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

    /// Returns the path that last led to a file, if it is recorded.
    pub fn path_of(&self, ino: InodeNo) -> Option<PathBuf> {
        let paths = self.paths.as_deref()?.0.lock();
        paths.get(&ino).map(|path| path.to_path_buf())
    }
}
