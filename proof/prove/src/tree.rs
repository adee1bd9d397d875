//! A whole tree as seen through the file system, and its comparison.
//!
//! The part that crashes restore to one moment (names, kinds, links, owners, modes,
//! attributes, targets) is a list of [`Line`]s, which a model produces as well; contents
//! are kept separately.

mod walk;

use crate::model::{Id, Model, ROOT};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use varve_fs::{FileKind, InodeNo};
pub use walk::{Bounds, Trouble, walk, walk_damaged};

/// One name and its file, without contents. Inode numbers do not appear: names of one
/// file refer to the first of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// Path from the root, components separated by `/`.
    pub path: Vec<u8>,
    /// Type of the file: the type bits of the mode.
    pub kind: u32,
    /// Permission bits.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Link count.
    pub nlink: u32,
    /// The first path of the same file, in the order of the list.
    pub same_as: Option<Vec<u8>>,
    /// Target of a symbolic link.
    pub target: Vec<u8>,
    /// Extended attributes by name.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = FileKind::from_mode(self.kind);
        let kind = kind.map_or("?".to_owned(), |kind| format!("{kind:?}"));
        let path = shorten(&self.path);
        write!(f, "/{path} {kind} {:o} nlink {}", self.mode, self.nlink)?;
        if self.owner != (0, 0) {
            write!(f, " owner {}:{}", self.owner.0, self.owner.1)?;
        }
        if let Some(same) = &self.same_as {
            write!(f, " same as /{}", shorten(same))?;
        }
        if !self.target.is_empty() {
            write!(f, " -> {}", crate::model::content::describe(&self.target))?;
        }
        for (name, value) in &self.xattrs {
            let value = crate::model::content::describe(value);
            write!(f, " {}={value}", String::from_utf8_lossy(name))?;
        }
        Ok(())
    }
}

fn shorten(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    let parts = text
        .split('/')
        .map(|part| match part.char_indices().nth(20) {
            Some((at, _)) => format!("{}..({})", &part[..at], part.len()),
            None => part.to_owned(),
        });
    parts.collect::<Vec<_>>().join("/")
}

/// Returns a hash by which equal lists are found.
pub fn fingerprint(lines: &[Line]) -> u64 {
    let mut hasher = DefaultHasher::new();
    lines.hash(&mut hasher);
    hasher.finish()
}

/// Returns the first few differences between two lists, one per line of text.
pub fn differences(expected: &[Line], found: &[Line]) -> String {
    let by_path = |lines: &[Line]| -> BTreeMap<Vec<u8>, String> {
        lines
            .iter()
            .map(|line| (line.path.clone(), line.to_string()))
            .collect()
    };
    let (expected, found) = (by_path(expected), by_path(found));
    let paths: BTreeSet<&Vec<u8>> = expected.keys().chain(found.keys()).collect();
    let describe = |path: &&Vec<u8>| match (expected.get(*path), found.get(*path)) {
        (Some(expected), Some(found)) if expected == found => None,
        (Some(expected), Some(found)) => Some(format!("expected {expected}\n   found {found}")),
        (Some(expected), None) => Some(format!(" missing {expected}")),
        (None, Some(found)) => Some(format!("surplus  {found}")),
        (None, None) => None,
    };
    let texts: Vec<String> = paths.iter().filter_map(describe).take(12).collect();
    texts.join("\n")
}

/// A tree as a mounted file system shows it.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Lines sorted by path, parents first; the root is the first.
    pub lines: Vec<Line>,
    /// Regular files: index of the first path, inode number, sectors, bytes.
    pub files: Vec<SeenFile>,
    /// Number of inodes reached.
    pub inodes: u64,
    /// Paths that could not be read because of the device or a checksum, if the walk may
    /// continue then.
    pub unreadable: Vec<String>,
}

/// A regular file.
#[derive(Clone, Debug)]
pub struct SeenFile {
    /// Index of the line of its first path.
    pub line: usize,
    /// Inode number.
    pub ino: InodeNo,
    /// Value of `st_blocks`.
    pub sectors: u64,
    /// The whole content.
    pub bytes: Vec<u8>,
}

/// Returns the model's lines, and the file of each.
pub fn model_lines(model: &Model) -> (Vec<Line>, Vec<Id>) {
    let (mut lines, mut ids): (Vec<Line>, Vec<Id>) = (Vec::new(), Vec::new());
    let mut first: BTreeMap<Id, Vec<u8>> = BTreeMap::new();
    let mut stack = vec![(Vec::new(), ROOT)];
    while let Some((path, id)) = stack.pop() {
        let node = model.node(id);
        lines.push(Line {
            path: path.clone(),
            kind: node.kind.mode_bits(),
            mode: node.mode,
            owner: (node.uid, node.gid),
            nlink: node.nlink,
            same_as: first.get(&id).cloned(),
            target: node.target.clone(),
            xattrs: node.xattrs.clone(),
        });
        ids.push(id);
        first.entry(id).or_insert_with(|| path.clone());
        for (name, &child) in node.entries.iter().rev() {
            let mut path = path.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            stack.push((path, child));
        }
    }
    (lines, ids)
}
