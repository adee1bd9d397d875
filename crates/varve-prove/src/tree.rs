//! A whole tree as it is seen from outside, and its comparison.
//!
//! The part that crashes restore to one moment (names, kinds, links, owners,
//! modes, attributes, targets) is a list of [`Line`]s, which a model makes as
//! well; contents are kept beside it.

use crate::model::{Id, Model, ROOT};
use crate::mounted::Mounted;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use varve_fs::{FileKind, InodeNo};

/// One name and what it leads to, without contents. Inode numbers do not
/// appear: names of one file refer to the first of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// From the root, components separated by `/`.
    pub path: Vec<u8>,
    /// What it is; the type bits of the mode.
    pub kind: u32,
    /// Permission bits.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Link count.
    pub nlink: u32,
    /// The first path of the same file, in the order of the list.
    pub same_as: Option<Vec<u8>>,
    /// Of a symbolic link.
    pub target: Vec<u8>,
    /// By name.
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

/// A hash by which equal lists are found.
pub fn fingerprint(lines: &[Line]) -> u64 {
    let mut hasher = DefaultHasher::new();
    lines.hash(&mut hasher);
    hasher.finish()
}

/// The first few differences between two lists, one per line of text.
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
#[derive(Clone, Debug)]
pub struct Tree {
    /// Sorted by path, parents first; the root is the first.
    pub lines: Vec<Line>,
    /// Of regular files: the first path's index, the number, sectors, bytes.
    pub files: Vec<SeenFile>,
    /// Inodes reached.
    pub inodes: u64,
}

/// A regular file as seen.
#[derive(Clone, Debug)]
pub struct SeenFile {
    /// Index into the lines, of its first path.
    pub line: usize,
    /// Its inode number.
    pub ino: InodeNo,
    /// `st_blocks`.
    pub sectors: u64,
    /// Everything in it.
    pub bytes: Vec<u8>,
}

/// What a walk may cost: images may be hostile.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Names visited at most.
    pub names: usize,
    /// Bytes read of each file at most.
    pub file_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            names: 200_000,
            file_bytes: 64 << 20,
        }
    }
}

/// Names asked for at once; small, so that resuming is exercised.
const BATCH: usize = 50;

/// Reads the whole tree and checks on the way that look-ups, parents, `.` and
/// `..`, cookies and sizes agree with each other.
///
/// # Errors
/// What failed or disagreed, where.
pub fn walk(mounted: &dyn Mounted, bounds: Bounds) -> Result<Tree, String> {
    let mut walk = Walk {
        mounted,
        bounds,
        first: BTreeMap::new(),
        tree: Tree {
            lines: Vec::new(),
            files: Vec::new(),
            inodes: 0,
        },
    };
    // An explicit stack: a damaged tree may be deep. Directories are pushed
    // in reverse order, so that the list comes out sorted, parents first.
    let mut stack = vec![(Vec::new(), InodeNo::ROOT, InodeNo::ROOT)];
    while let Some((path, ino, parent)) = stack.pop() {
        let at = |error: String| format!("/{}: {error}", shorten(&path));
        let is_directory = walk.visit(&path, ino).map_err(at)?;
        if is_directory {
            let mut names = walk.names(ino, parent).map_err(at)?;
            names.sort_by(|a, b| b.0.cmp(&a.0));
            for (name, child) in names {
                let mut path = path.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(&name);
                stack.push((path, child, ino));
            }
        }
    }
    Ok(walk.tree)
}

struct Walk<'a> {
    mounted: &'a dyn Mounted,
    bounds: Bounds,
    /// The line on which an inode was first seen.
    first: BTreeMap<InodeNo, usize>,
    tree: Tree,
}

fn text(what: &str) -> impl FnOnce(varve_fs::Error) -> String {
    move |error| format!("{what}: {error}")
}

impl Walk<'_> {
    /// Adds the line of `ino`; tells whether it is a directory.
    fn visit(&mut self, path: &[u8], ino: InodeNo) -> Result<bool, String> {
        if self.tree.lines.len() >= self.bounds.names {
            return Err(format!("more than {} names", self.bounds.names));
        }
        let attr = self.mounted.getattr(ino).map_err(text("getattr"))?;
        if attr.ino != ino {
            return Err(format!("getattr of {ino:?} is about {:?}", attr.ino));
        }
        let index = self.tree.lines.len();
        let first = *self.first.entry(ino).or_insert(index);
        let same_as = (first != index).then(|| self.tree.lines[first].path.clone());
        if same_as.is_some() && attr.kind == FileKind::Directory {
            return Err(format!("{ino:?} is a directory with two names"));
        }
        let mut xattrs = BTreeMap::new();
        for name in self.mounted.listxattr(ino).map_err(text("listxattr"))? {
            let value = self
                .mounted
                .getxattr(ino, &name)
                .map_err(text("getxattr"))?;
            xattrs.insert(name, value);
        }
        let target = match attr.kind {
            FileKind::Symlink => self.mounted.readlink(ino).map_err(text("readlink"))?,
            _ => Vec::new(),
        };
        if attr.kind == FileKind::Symlink && attr.size != target.len() as u64 {
            return Err(format!(
                "size {} of a link to {} bytes",
                attr.size,
                target.len()
            ));
        }
        self.tree.lines.push(Line {
            path: path.to_vec(),
            kind: attr.kind.mode_bits(),
            mode: attr.mode & 0o7777,
            owner: (attr.uid, attr.gid),
            nlink: attr.nlink,
            same_as: same_as.clone(),
            target,
            xattrs,
        });
        if same_as.is_none() {
            self.tree.inodes += 1;
            if attr.kind == FileKind::Regular {
                let bytes = self.content(ino, attr.size)?;
                let sectors = attr.sectors;
                self.tree.files.push(SeenFile {
                    line: index,
                    ino,
                    sectors,
                    bytes,
                });
            }
        }
        Ok(attr.kind == FileKind::Directory)
    }

    fn content(&self, ino: InodeNo, size: u64) -> Result<Vec<u8>, String> {
        let wanted = size.min(self.bounds.file_bytes) as usize;
        let mut bytes = vec![0xee; wanted + 1];
        let count = self
            .mounted
            .read(ino, 0, &mut bytes)
            .map_err(text("read"))?;
        let limit = if size > wanted as u64 {
            wanted + 1
        } else {
            wanted
        };
        if count != limit {
            return Err(format!("read {count} bytes of a file of {size}"));
        }
        bytes.truncate(wanted);
        Ok(bytes)
    }

    /// The names in `ino` without `.` and `..`, which are checked.
    fn names(&self, ino: InodeNo, parent: InodeNo) -> Result<Vec<(Vec<u8>, InodeNo)>, String> {
        let found = self.mounted.parent(ino).map_err(text("parent"))?;
        if found != parent {
            return Err(format!("parent is {found:?}, not {parent:?}"));
        }
        let mut names = Vec::new();
        let (mut after, mut dots) = (0, 0);
        loop {
            let batch = self
                .mounted
                .readdir(ino, after, BATCH)
                .map_err(text("readdir"))?;
            let last = batch.len() < BATCH;
            for entry in batch {
                if entry.cookie <= after {
                    return Err(format!("cookie {} after {after}", entry.cookie));
                }
                after = entry.cookie;
                let expected = match entry.name.as_slice() {
                    b"." => Some(ino),
                    b".." => Some(parent),
                    _ => None,
                };
                if let Some(expected) = expected {
                    dots += 1;
                    if entry.ino != expected || entry.kind != FileKind::Directory {
                        return Err(format!("{entry:?} should lead to {expected:?}"));
                    }
                    continue;
                }
                self.check_name(ino, &entry)?;
                names.push((entry.name, entry.ino));
                if names.len() > self.bounds.names {
                    return Err(format!("more than {} names", self.bounds.names));
                }
            }
            if last {
                break;
            }
        }
        if dots != 2 {
            return Err(format!("{dots} of the names . and .. listed"));
        }
        Ok(names)
    }

    fn check_name(&self, directory: InodeNo, entry: &crate::mounted::Name) -> Result<(), String> {
        let name = shorten(&entry.name);
        let attr = self
            .mounted
            .lookup(directory, &entry.name)
            .map_err(|error| format!("lookup of {name}: {error}"))?;
        if attr.ino != entry.ino || attr.kind != entry.kind {
            return Err(format!(
                "{name} is listed as {:?} {:?} and found as {:?} {:?}",
                entry.ino, entry.kind, attr.ino, attr.kind
            ));
        }
        Ok(())
    }
}

/// The model's lines, and the file behind each.
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
