//! Paths of the findings' files, as far as the newest image has them.

use super::Verifier;
use crate::check::{Blocks, FileView};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use varve_fs::InodeNo;
use varve_fs::directory::{self, Key};
use varve_lfs::internal::{Delta, Hold};

/// Largest number of files whose paths are searched.
const MAX_FILES: usize = 1000;
/// Largest number of directories followed above one file.
const MAX_DEPTH: usize = 256;

impl Verifier<'_> {
    /// Fills in paths. A file below an unreadable directory has none.
    pub(super) fn name_findings(&mut self) {
        let found = self.report.errors.iter().chain(&self.report.warnings);
        let files = self.report.files.iter().map(|file| file.inode);
        let wanted: BTreeSet<u64> = found
            .filter_map(|finding| finding.subject.ino())
            .chain(files)
            .filter(|&ino| ino > InodeNo::ROOT.0)
            .take(MAX_FILES)
            .collect();
        if wanted.is_empty() {
            return;
        }
        let hold = Hold::take(self.lfs);
        let names = Names {
            verifier: self,
            hold: &hold,
        };
        let places = names.find(&wanted);
        let paths: HashMap<u64, String> = wanted
            .iter()
            .filter_map(|&ino| Some((ino, names.path(ino, &places)?)))
            .collect();
        for finding in self
            .report
            .errors
            .iter_mut()
            .chain(&mut self.report.warnings)
        {
            finding.path = finding
                .subject
                .ino()
                .and_then(|ino| paths.get(&ino).cloned());
        }
        for file in &mut self.report.files {
            file.path = paths.get(&file.inode).cloned();
        }
    }
}

struct Names<'n, 'a> {
    verifier: &'n Verifier<'a>,
    hold: &'n Hold<'a>,
}

impl Names<'_, '_> {
    /// Returns the directory and name of each wanted inode.
    fn find(&self, wanted: &BTreeSet<u64>) -> HashMap<u64, (u64, String)> {
        let mut found = HashMap::new();
        let mut from = 0;
        while let Some(directory) = self.verifier.directories.next(from) {
            from = directory + 1;
            if found.len() == wanted.len() || self.verifier.control.stopping() {
                break;
            }
            self.list(directory, &mut |name, ino| {
                if wanted.contains(&ino) {
                    found
                        .entry(ino)
                        .or_insert_with(|| (directory, name.escape_ascii().to_string()));
                }
                found.len() < wanted.len()
            });
        }
        found
    }

    fn list(&self, directory: u64, see: &mut dyn FnMut(&[u8], u64) -> bool) -> Option<u64> {
        let verifier = self.verifier;
        let lfs = verifier.lfs;
        let (base, reader, geometry) =
            (&self.hold.base, &verifier.reader, lfs.geometry_of_volume());
        let ino = InodeNo(directory);
        let image: Arc<_> = base.inode(reader, geometry, ino).ok()??;
        let empty = Delta::default();
        let view = FileView::new(reader, geometry, base, &empty, ino).ok()?;
        let key = Key {
            hash_seed: lfs.superblock().hash_seed.get(),
            case_fold: lfs.superblock().case_fold(),
            ino,
            version: image.inode.version,
        };
        let _ = directory::list(&key, &mut Blocks::new(view), 0, &mut |name, ino, _, _| {
            see(name, ino.0)
        });
        Some(image.inode.parent.0)
    }

    /// Joins the names from the root down.
    fn path(&self, file: u64, places: &HashMap<u64, (u64, String)>) -> Option<String> {
        let (mut directory, name) = places.get(&file)?.clone();
        let mut parts = vec![name];
        while directory != InodeNo::ROOT.0 {
            if parts.len() > MAX_DEPTH {
                return None;
            }
            let child = directory;
            directory = self.list(child, &mut |_, _| false)?;
            let mut part = None;
            self.list(directory, &mut |name, ino| {
                if ino == child {
                    part = Some(name.escape_ascii().to_string());
                }
                part.is_none()
            });
            parts.push(part?);
        }
        parts.reverse();
        Some(format!("/{}", parts.join("/")))
    }
}
