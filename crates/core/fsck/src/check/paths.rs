//! Adds paths to findings.

use super::Checker;
use super::names::{Blocks, FileView};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use varve_fs::{InodeNo, directory};

/// Number of files whose paths are searched.
const MAX_FILES: usize = 1000;
/// Number of directories followed above one file.
const MAX_DEPTH: usize = 256;

impl Checker<'_> {
    /// Fills in the paths of the findings' files.
    pub(super) fn name_findings(&mut self) {
        let errors = self.found.errors.iter().chain(&self.found.warnings);
        let files: BTreeSet<u64> = errors
            .filter_map(|finding| finding.subject.ino())
            .take(MAX_FILES)
            .collect();
        let mut wanted: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for &file in &files {
            let mut ino = file;
            for _ in 0..MAX_DEPTH {
                let above = self.inodes.get(ino).named_by;
                if above == 0 || !wanted.entry(above).or_default().insert(ino) {
                    break;
                }
                ino = above;
            }
        }
        let names = self.names_of(&wanted);
        let paths: HashMap<u64, String> = files
            .into_iter()
            .filter_map(|ino| Some((ino, self.path(ino, &names)?)))
            .collect();
        let (errors, warnings) = (&mut self.found.errors, &mut self.found.warnings);
        for finding in errors.iter_mut().chain(warnings) {
            finding.path = finding
                .subject
                .ino()
                .and_then(|ino| paths.get(&ino).cloned());
        }
    }

    /// Returns one name of each wanted inode, from the directory that contains it.
    fn names_of(&self, wanted: &BTreeMap<u64, BTreeSet<u64>>) -> HashMap<u64, String> {
        let mut names = HashMap::new();
        let live = Arc::clone(&self.state.live);
        let base = Arc::clone(&self.state.base);
        for directory in &self.directories {
            let Some(children) = wanted.get(&directory.ino) else {
                continue;
            };
            let ino = InodeNo(directory.ino);
            let Ok(view) = FileView::new(self.reader, &self.geometry, &base, &live, ino) else {
                continue;
            };
            let key = self.key(directory.ino, directory.version);
            let mut left = children.len();
            let _ = directory::list(&key, &mut Blocks::new(view), 0, &mut |name, ino, _, _| {
                if children.contains(&ino.0) && !names.contains_key(&ino.0) {
                    names.insert(ino.0, name.escape_ascii().to_string());
                    left -= 1;
                }
                left > 0
            });
        }
        names
    }

    fn path(&self, file: u64, names: &HashMap<u64, String>) -> Option<String> {
        if file == InodeNo::ROOT.0 {
            return Some("/".into());
        }
        let mut parts = Vec::new();
        let mut ino = file;
        while ino != InodeNo::ROOT.0 {
            parts.push(names.get(&ino)?.as_str());
            ino = self.inodes.get(ino).named_by;
            if parts.len() > MAX_DEPTH {
                return None;
            }
        }
        parts.reverse();
        Some(format!("/{}", parts.join("/")))
    }
}
