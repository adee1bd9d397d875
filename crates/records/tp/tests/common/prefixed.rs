//! Several storages in one, so that one record has the writes to all of them in their
//! order, and a crash affects all.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use varve_tp::storage::{MemoryStorage, Storage, StoredFile};

/// The files whose names begin with a word.
#[derive(Debug)]
pub struct Prefixed(pub MemoryStorage, pub &'static str);

impl Prefixed {
    fn name(&self, name: &str) -> String {
        format!("{}/{name}", self.1)
    }
}

/// Returns the files with a prefix from a crashed storage.
pub fn part(files: &BTreeMap<String, Vec<u8>>, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let strip = |name: &String| Some(name.strip_prefix(prefix)?.strip_prefix('/')?.to_owned());
    let files = files.iter();
    files
        .filter_map(|(name, bytes)| Some((strip(name)?, bytes.clone())))
        .collect()
}

impl Storage for Prefixed {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn StoredFile>> {
        self.0.open(&self.name(name), create)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let all = self.0.list()?.into_iter();
        let strip = |name: String| Some(name.strip_prefix(self.1)?.strip_prefix('/')?.to_owned());
        Ok(all.filter_map(strip).collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(&self.name(from), &self.name(to))
    }

    fn lock(&self) -> io::Result<()> {
        self.0.lock()
    }
}
