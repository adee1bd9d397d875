//! The contract for layouts that need a check after a crash (`Promise::Ordered`,
//! `Promise::UntilCommit`). Each inode is in its state of some allowed moment, which may
//! differ between inodes:
//!
//! 1. every name found is one that its directory had at an allowed moment and leads to
//!    the same file; owner, mode, attributes and target are those of one moment, the
//!    content is explained by one, and link counts are those of the tree;
//! 2. a name that leads to one file at every allowed moment is present;
//! 3. a file that has a name at every allowed moment is present; if nothing is ordered,
//!    it may be in `/lost+found` if its names vary, and may be missing if it is empty;
//! 4. a file in `/lost+found` is one of an allowed moment or an earlier one, because an
//!    inode without names may outlive its removal by some time.

use super::Moment;
use crate::model::{Id, ROOT};
use crate::tree::{Line, Tree};
use std::collections::{BTreeMap, BTreeSet};
use varve_fs::FileKind;

/// Name of the directory in which a check puts files without names.
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// The comparison of a tree with the moments.
pub(super) struct Mixed<'a> {
    /// Moments before the allowed ones.
    pub past: &'a [Moment],
    /// The allowed moments, in order.
    pub moments: Vec<&'a Moment>,
    /// Moments whose operations had begun.
    pub later: &'a [Moment],
    /// True if names are ordered.
    pub ordered: bool,
    pub tree: &'a Tree,
    /// True if a write was torn.
    pub torn: bool,
    /// Returns true if some file has contained a sector of these bytes.
    pub is_known: &'a dyn Fn(&[u8]) -> bool,
}

fn is_kept(path: &[u8]) -> bool {
    let rest = path.strip_prefix(LOST_AND_FOUND);
    rest.is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// An inode of the tree: its lines, and its bytes.
struct Seen<'a> {
    lines: Vec<&'a Line>,
    bytes: Option<&'a [u8]>,
}

impl Mixed<'_> {
    /// Checks the tree.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub fn check(&self) -> Result<(), String> {
        let files = self.files();
        self.links(&files)?;
        let mut found: BTreeSet<Id> = BTreeSet::new();
        let mut kept: BTreeSet<Id> = BTreeSet::new();
        for seen in files.values() {
            let first = seen.lines[0];
            let path = first.path.as_slice();
            if path == LOST_AND_FOUND && self.candidates(path).is_empty() {
                continue;
            }
            let in_kept = seen.lines.iter().all(|line| is_kept(&line.path));
            let ids = match in_kept {
                true => self.everything(),
                false => self.named(seen)?,
            };
            let mut reason = format!("surplus {first}");
            let fits = |id: &Id| match self.explains(*id, seen, in_kept) {
                Ok(()) => true,
                Err(text) => {
                    reason = text;
                    false
                }
            };
            let fitting: Vec<Id> = ids.into_iter().filter(fits).collect();
            if fitting.is_empty() {
                return Err(reason);
            }
            match in_kept {
                true => kept.extend(fitting),
                false => found.extend(fitting),
            }
        }
        self.names(&files)?;
        self.nothing_is_missing(&found, &kept)
    }

    fn files(&self) -> BTreeMap<&[u8], Seen<'_>> {
        let mut files: BTreeMap<&[u8], Seen<'_>> = BTreeMap::new();
        for line in &self.tree.lines {
            let first = line.same_as.as_deref().unwrap_or(&line.path);
            let seen = files.entry(first).or_insert(Seen {
                lines: Vec::new(),
                bytes: None,
            });
            seen.lines.push(line);
        }
        for file in &self.tree.files {
            if let Some(seen) = files.get_mut(self.tree.lines[file.line].path.as_slice()) {
                seen.bytes = Some(&file.bytes);
            }
        }
        files
    }

    /// Checks that link counts are those of the tree itself.
    fn links(&self, files: &BTreeMap<&[u8], Seen<'_>>) -> Result<(), String> {
        let directory = FileKind::Directory.mode_bits();
        let mut below: BTreeMap<&[u8], u32> = BTreeMap::new();
        for line in self.tree.lines.iter().filter(|line| line.kind == directory) {
            if !line.path.is_empty() {
                let end = line
                    .path
                    .iter()
                    .rposition(|&byte| byte == b'/')
                    .unwrap_or(0);
                *below.entry(&line.path[..end]).or_default() += 1;
            }
        }
        for (path, seen) in files {
            let line = seen.lines[0];
            let count = match line.kind == directory {
                true => 2 + below.get(path).copied().unwrap_or(0),
                false => seen.lines.len() as u32,
            };
            if line.nlink != count {
                return Err(format!("{line}: {count} links counted"));
            }
        }
        Ok(())
    }

    /// Returns the files to which a path leads, with each directory on it in its state of
    /// some allowed moment, because the content of a directory that has moved may be
    /// older.
    fn candidates(&self, path: &[u8]) -> BTreeSet<Id> {
        if path.is_empty() {
            return BTreeSet::from([ROOT]);
        }
        let slash = path.iter().rposition(|&byte| byte == b'/');
        let (above, name) = match slash {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&[][..], path),
        };
        let above = self.candidates(above);
        let within = |moment: &&Moment| -> Vec<Id> {
            let found = above.iter().filter_map(|id| moment.entry(*id, name));
            found.collect()
        };
        self.moments.iter().flat_map(within).collect()
    }

    fn everything(&self) -> BTreeSet<Id> {
        let all = self.past.iter().chain(self.moments.iter().copied());
        all.flat_map(|moment| moment.lines.1.iter().copied())
            .collect()
    }

    /// Returns the files to which all names of an inode lead.
    fn named(&self, seen: &Seen<'_>) -> Result<BTreeSet<Id>, String> {
        let mut common: Option<BTreeSet<Id>> = None;
        for line in seen.lines.iter().filter(|line| !is_kept(&line.path)) {
            let ids = self.candidates(&line.path);
            if ids.is_empty() {
                return Err(format!("surplus {line}"));
            }
            common = Some(match common {
                None => ids,
                Some(common) => common.intersection(&ids).copied().collect(),
            });
        }
        let common = common.unwrap_or_default();
        match common.is_empty() {
            true => Err(format!(
                "{}: its names were never one file's",
                seen.lines[0]
            )),
            false => Ok(common),
        }
    }

    /// Checks that an inode is this file at allowed moments, or also at earlier ones.
    fn explains(&self, id: Id, seen: &Seen<'_>, earlier: bool) -> Result<(), String> {
        let line = seen.lines[0];
        let past = self.past.iter().filter(|_| earlier);
        let moments: Vec<&Moment> = past.chain(self.moments.iter().copied()).collect();
        let mut closest = String::new();
        let is_same = moments.iter().any(|moment| {
            let at = moment.lines.1.iter().position(|known| *known == id);
            at.is_some_and(|at| {
                let known = &moment.lines.0[at];
                closest = format!("expected {known}");
                (known.kind, known.mode, known.owner) == (line.kind, line.mode, line.owner)
                    && known.target == line.target
                    && known.xattrs == line.xattrs
            })
        });
        if !is_same {
            return Err(format!("{closest}\n   found {line}"));
        }
        let Some(bytes) = seen.bytes else {
            return Ok(());
        };
        let mut reason = String::new();
        for (nth, moment) in moments.iter().enumerate() {
            let Some(content) = moment.model.content(id) else {
                continue;
            };
            let later = moments[nth + 1..].iter().copied().chain(self.later);
            let later: Vec<_> = later
                .filter_map(|moment| moment.model.content(id))
                .collect();
            match content.explains_in_place(bytes, &later, self.torn, self.is_known) {
                Ok(()) => return Ok(()),
                Err(text) => reason = text,
            }
        }
        Err(format!("{line}: {reason}"))
    }

    /// Checks that names that have always led to one file do so.
    fn names(&self, files: &BTreeMap<&[u8], Seen<'_>>) -> Result<(), String> {
        let Some(first) = self.moments.first() else {
            return Err("no moment is left".into());
        };
        let paths: BTreeSet<&[u8]> = files
            .values()
            .flat_map(|seen| seen.lines.iter().map(|line| line.path.as_slice()))
            .collect();
        let counts = |line: &&Line| !is_kept(&line.path) && line.path != LOST_AND_FOUND;
        for line in first.lines.0.iter().filter(counts) {
            let id = first.leads_to(&line.path);
            let always = self
                .moments
                .iter()
                .all(|moment| moment.leads_to(&line.path) == id);
            if always && !paths.contains(line.path.as_slice()) {
                return Err(format!(" missing {line}"));
            }
        }
        Ok(())
    }

    /// Checks that files that have always had a name have one.
    fn nothing_is_missing(&self, found: &BTreeSet<Id>, kept: &BTreeSet<Id>) -> Result<(), String> {
        let Some((first, rest)) = self.moments.split_first() else {
            return Ok(());
        };
        for (line, id) in first.lines.0.iter().zip(&first.lines.1) {
            let always = rest.iter().all(|moment| moment.lines.1.contains(id));
            if !always || found.contains(id) {
                continue;
            }
            let holds = self.moments.iter().all(|moment| {
                let node = moment.model.node(*id);
                match node.kind {
                    FileKind::Directory => !node.entries.is_empty(),
                    FileKind::Regular => node.content.size() > 0 && node.content.settled(),
                    FileKind::Symlink => true,
                    _ => false,
                }
            });
            // A file that is already there may get another name there.
            let in_kept = is_kept(&line.path) || line.path == LOST_AND_FOUND;
            let must_have_a_name = self.ordered && !in_kept;
            if must_have_a_name || holds && !kept.contains(id) {
                return Err(format!(" missing under every name: {line}"));
            }
        }
        Ok(())
    }
}
