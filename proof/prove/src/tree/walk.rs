//! Reads a whole tree and checks that lookups, parents, `.` and `..`, cookies and sizes
//! agree with each other.

use super::{Line, SeenFile, Tree, shorten};
use crate::mounted::{Mounted, Name};
use std::collections::BTreeMap;
use varve_fs::{Error, FileKind, InodeNo};

/// Limits of a walk, because images may be hostile.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Largest number of names to visit.
    pub names: usize,
    /// Largest number of bytes to read of each file.
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

impl Bounds {
    /// Returns limits for trees that may be damaged or crafted.
    pub fn damaged() -> Self {
        Bounds {
            names: 20_000,
            file_bytes: 1 << 20,
        }
    }
}

/// The reason that a walk stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A call was refused for a reason that damage or a device may have.
    Refused(String),
    /// Results of calls disagree with each other.
    Disagrees(String),
}

impl Trouble {
    /// Returns the description.
    pub fn text(&self) -> &str {
        match self {
            Trouble::Refused(text) | Trouble::Disagrees(text) => text,
        }
    }

    fn at(self, path: &[u8]) -> Self {
        let tell = |text| format!("/{}: {text}", shorten(path));
        match self {
            Trouble::Refused(text) => Trouble::Refused(tell(text)),
            Trouble::Disagrees(text) => Trouble::Disagrees(tell(text)),
        }
    }
}

fn disagrees<T>(text: String) -> Result<T, Trouble> {
    Err(Trouble::Disagrees(text))
}

/// Returns the mapping of errors during `what`. EIO is a refusal. Any other error for a
/// name just listed is a disagreement.
fn during(what: &str) -> impl Fn(Error) -> Trouble {
    move |error| {
        let text = format!("{what}: {error}");
        match error.errno() {
            5 => Trouble::Refused(text),
            _ => Trouble::Disagrees(text),
        }
    }
}

/// Number of names per request. It is small, so that the walk also tests resuming.
const BATCH: usize = 50;

/// Reads the whole tree.
///
/// # Errors
///
/// The first failure or disagreement, with its location.
pub fn walk(mounted: &dyn Mounted, bounds: Bounds) -> Result<Tree, String> {
    let walked = Walk::new(mounted, bounds, false).run();
    walked.map_err(|trouble| trouble.text().to_owned())
}

/// Reads the readable part of a tree, and lists the parts that are refused with EIO. Any
/// other error stops the walk.
///
/// # Errors
///
/// The disagreement, with its location.
pub fn walk_damaged(mounted: &dyn Mounted, bounds: Bounds) -> Result<Tree, Trouble> {
    Walk::new(mounted, bounds, true).run()
}

struct Walk<'a> {
    mounted: &'a dyn Mounted,
    bounds: Bounds,
    goes_on: bool,
    /// For each inode, the line on which it was first seen.
    first: BTreeMap<InodeNo, usize>,
    tree: Tree,
}

impl<'a> Walk<'a> {
    fn new(mounted: &'a dyn Mounted, bounds: Bounds, goes_on: bool) -> Self {
        Walk {
            mounted,
            bounds,
            goes_on,
            first: BTreeMap::new(),
            tree: Tree::default(),
        }
    }

    fn run(mut self) -> Result<Tree, Trouble> {
        // The stack is explicit, because a damaged tree may be deep. Names are pushed in
        // reverse order, so that the list is sorted, parents first.
        let mut stack = vec![(Vec::new(), InodeNo::ROOT, InodeNo::ROOT)];
        while let Some((path, ino, parent)) = stack.pop() {
            match self.enter(&path, ino, parent) {
                Ok(names) => {
                    for (name, child) in names {
                        let mut path = path.clone();
                        if !path.is_empty() {
                            path.push(b'/');
                        }
                        path.extend_from_slice(&name);
                        stack.push((path, child, ino));
                    }
                }
                Err(Trouble::Refused(text)) if self.goes_on => {
                    self.tree
                        .unreadable
                        .push(format!("/{}: {text}", shorten(&path)));
                }
                Err(trouble) => return Err(trouble.at(&path)),
            }
        }
        Ok(self.tree)
    }

    /// Adds `ino` to the tree, and returns the names in it, last first.
    fn enter(
        &mut self,
        path: &[u8],
        ino: InodeNo,
        parent: InodeNo,
    ) -> Result<Vec<(Vec<u8>, InodeNo)>, Trouble> {
        if !self.visit(path, ino)? {
            return Ok(Vec::new());
        }
        let mut names = self.names(ino, parent)?;
        names.sort_by(|a, b| b.0.cmp(&a.0));
        Ok(names)
    }

    /// Adds the line of `ino`, and returns true if it is a directory.
    fn visit(&mut self, path: &[u8], ino: InodeNo) -> Result<bool, Trouble> {
        if self.tree.lines.len() >= self.bounds.names {
            return disagrees(format!("more than {} names", self.bounds.names));
        }
        let attr = self.mounted.getattr(ino).map_err(during("getattr"))?;
        if attr.ino != ino {
            return disagrees(format!("getattr of {ino:?} is about {:?}", attr.ino));
        }
        let index = self.tree.lines.len();
        let first = *self.first.entry(ino).or_insert(index);
        let same_as = (first != index).then(|| self.tree.lines[first].path.clone());
        if same_as.is_some() && attr.kind == FileKind::Directory {
            return disagrees(format!("{ino:?} is a directory with two names"));
        }
        let is_link = attr.kind == FileKind::Symlink;
        let mut line = Line {
            path: path.to_vec(),
            kind: attr.kind.mode_bits(),
            mode: attr.mode & 0o7777,
            owner: (attr.uid, attr.gid),
            nlink: attr.nlink,
            same_as: same_as.clone(),
            target: Vec::new(),
            xattrs: BTreeMap::new(),
        };
        // The line stays even if the rest cannot be read, because other lines may refer
        // to it.
        let rest = self.attributes(&mut line, ino, is_link);
        let found = line.target.len() as u64;
        self.tree.lines.push(line);
        rest?;
        if is_link && attr.size != found {
            return disagrees(format!("size {} of a link to {found} bytes", attr.size));
        }
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

    fn attributes(&self, line: &mut Line, ino: InodeNo, is_link: bool) -> Result<(), Trouble> {
        for name in self.mounted.listxattr(ino).map_err(during("listxattr"))? {
            let value = self
                .mounted
                .getxattr(ino, &name)
                .map_err(during("getxattr"))?;
            line.xattrs.insert(name, value);
        }
        if is_link {
            line.target = self.mounted.readlink(ino).map_err(during("readlink"))?;
        }
        Ok(())
    }

    fn content(&self, ino: InodeNo, size: u64) -> Result<Vec<u8>, Trouble> {
        let wanted = size.min(self.bounds.file_bytes) as usize;
        let mut bytes = vec![0xee; wanted + 1];
        let count = self
            .mounted
            .read(ino, 0, &mut bytes)
            .map_err(during("read"))?;
        let limit = if size > wanted as u64 {
            wanted + 1
        } else {
            wanted
        };
        if count != limit {
            return disagrees(format!("read {count} bytes of a file of {size}"));
        }
        bytes.truncate(wanted);
        Ok(bytes)
    }

    /// Returns the names in `ino` except `.` and `..`, which are checked.
    fn names(&self, ino: InodeNo, parent: InodeNo) -> Result<Vec<(Vec<u8>, InodeNo)>, Trouble> {
        let found = self.mounted.parent(ino).map_err(during("parent"))?;
        if found != parent {
            return disagrees(format!("parent is {found:?}, not {parent:?}"));
        }
        let mut names = Vec::new();
        let (mut after, mut dots) = (0, 0);
        loop {
            let batch = self
                .mounted
                .readdir(ino, after, BATCH)
                .map_err(during("readdir"))?;
            let last = batch.len() < BATCH;
            for entry in batch {
                if entry.cookie <= after {
                    return disagrees(format!("cookie {} after {after}", entry.cookie));
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
                        return disagrees(format!("{entry:?} should lead to {expected:?}"));
                    }
                    continue;
                }
                self.check_name(ino, &entry)?;
                names.push((entry.name, entry.ino));
                if names.len() > self.bounds.names {
                    return disagrees(format!("more than {} names", self.bounds.names));
                }
            }
            if last {
                break;
            }
        }
        if dots != 2 {
            return disagrees(format!("{dots} of the names . and .. listed"));
        }
        Ok(names)
    }

    fn check_name(&self, directory: InodeNo, entry: &Name) -> Result<(), Trouble> {
        let name = shorten(&entry.name);
        let attr = match self.mounted.lookup(directory, &entry.name) {
            Ok(attr) => attr,
            // The inode of the name is refused, and will be refused again when the walk
            // visits it.
            Err(error) if self.goes_on && error.errno() == 5 => return Ok(()),
            Err(error) => return Err(during(&format!("lookup of {name}"))(error)),
        };
        if attr.ino != entry.ino || attr.kind != entry.kind {
            return disagrees(format!(
                "{name} is listed as {:?} {:?} and found as {:?} {:?}",
                entry.ino, entry.kind, attr.ino, attr.kind
            ));
        }
        Ok(())
    }
}
