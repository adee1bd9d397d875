//! A tree as plain maps: the model of one view in the tests of transactions.

use super::harness::*;
use crate::{Caller, FileKind, InodeNo};
use std::collections::{BTreeMap, BTreeSet};

/// A file: its number, and its serial among the files of that number.
pub type Id = (u64, u32);

pub const TOP: Id = (InodeNo::ROOT.0, 1);

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub kind: FileKind,
    pub mode: u32,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// A file's content, or a symbolic link's target.
    pub data: Vec<u8>,
    /// Names in a directory.
    pub names: BTreeMap<String, Id>,
}

impl Node {
    pub fn new(kind: FileKind, mode: u32) -> Node {
        Node {
            kind,
            mode,
            xattrs: BTreeMap::new(),
            data: Vec::new(),
            names: BTreeMap::new(),
        }
    }

    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }
}

/// The visible state of one view.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    pub nodes: BTreeMap<Id, Node>,
}

impl Tree {
    pub fn new() -> Tree {
        let root = Node::new(FileKind::Directory, 0o755);
        Tree {
            nodes: BTreeMap::from([(TOP, root)]),
        }
    }

    /// The visible state of a file system, listed in pieces of `piece` names.
    pub fn of(fs: &Fs, piece: usize) -> Tree {
        let mut tree = Tree {
            nodes: BTreeMap::new(),
        };
        tree.take(fs, ROOT, piece);
        for (id, node) in &tree.nodes {
            let nlink = fs.getattr(InodeNo(id.0)).unwrap().nlink as usize;
            assert_eq!(nlink, tree.links(*id), "links of {id:?}, {:?}", node.kind);
        }
        tree
    }

    fn take(&mut self, fs: &Fs, ino: InodeNo, piece: usize) -> Id {
        let root = Caller::root();
        let attr = fs.getattr(ino).unwrap();
        let id = (ino.0, attr.version);
        if self.nodes.contains_key(&id) {
            return id;
        }
        let mut node = Node::new(attr.kind, attr.mode & 0o7777);
        for name in fs.listxattr(&root, ino).unwrap() {
            let value = fs.getxattr(&root, ino, &name).unwrap();
            node.xattrs.insert(name, value);
        }
        match attr.kind {
            FileKind::Regular => node.data = fs.t_read(ino),
            FileKind::Symlink => node.data = fs.readlink(ino).unwrap(),
            _ => {}
        }
        self.nodes.insert(id, node);
        if attr.kind == FileKind::Directory {
            let mut names = BTreeMap::new();
            for (name, child, kind) in listing(fs, ino, piece) {
                let found = fs.lookup(&root, ino, name.as_bytes()).unwrap();
                assert_eq!((found.ino, found.kind), (child, kind), "{name}");
                let child = self.take(fs, child, piece);
                assert!(names.insert(name, child).is_none(), "a name is seen twice");
                if kind == FileKind::Directory {
                    assert_eq!(fs.parent(InodeNo(child.0)).unwrap(), ino);
                }
            }
            self.nodes.get_mut(&id).unwrap().names = names;
        }
        id
    }

    /// Number of names of a file; for a directory 2 plus its subdirectories.
    pub fn links(&self, id: Id) -> usize {
        if self.nodes[&id].is_directory() {
            let names = self.nodes[&id].names.values();
            return 2 + names.filter(|id| self.nodes[id].is_directory()).count();
        }
        let all = self.nodes.values().flat_map(|node| node.names.values());
        all.filter(|found| **found == id).count()
    }

    pub fn get(&self, directory: Id, name: &str) -> Option<Id> {
        self.nodes[&directory].names.get(name).copied()
    }

    pub fn node(&mut self, id: Id) -> &mut Node {
        self.nodes.get_mut(&id).unwrap()
    }

    pub fn all(&self, kind: impl Fn(FileKind) -> bool) -> Vec<Id> {
        let chosen = self.nodes.iter().filter(|(_, node)| kind(node.kind));
        chosen.map(|(id, _)| *id).collect()
    }

    /// True if `below` is `above`, or is below it.
    pub fn is_below(&self, below: Id, above: Id) -> bool {
        let mut at = below;
        while at != above {
            let holds = |(_, node): &(&Id, &Node)| node.names.values().any(|id| *id == at);
            match self.nodes.iter().find(holds) {
                Some((parent, _)) => at = *parent,
                None => return false,
            }
        }
        true
    }

    /// Removes all files that no name refers to.
    pub fn sweep(&mut self) {
        let mut reached = BTreeSet::new();
        let mut ways = vec![TOP];
        while let Some(id) = ways.pop() {
            if reached.insert(id) {
                let node = self.nodes.get(&id);
                ways.extend(node.iter().flat_map(|node| node.names.values()));
            }
        }
        self.nodes.retain(|id, _| reached.contains(id));
    }

    /// A copy without the bytes of files that are not among these.
    pub fn without_data(&self, but: &BTreeSet<Id>) -> Tree {
        let mut tree = self.clone();
        for (id, node) in &mut tree.nodes {
            if node.kind == FileKind::Regular && !but.contains(id) {
                node.data.clear();
            }
        }
        tree
    }

    /// Panics with the difference, if there is one.
    pub fn must_be(&self, want: &Tree, what: &str) {
        if self == want {
            return;
        }
        let ids: BTreeSet<_> = self.nodes.keys().chain(want.nodes.keys()).collect();
        for id in ids {
            let (found, want) = (self.nodes.get(id), want.nodes.get(id));
            if found != want {
                eprintln!("{id:?} is   {}\n        want {}", short(found), short(want));
                if let (Some(found), Some(want)) = (found, want) {
                    let differ = found.data.iter().zip(&want.data).position(|(a, b)| a != b);
                    eprintln!("  first different byte: {differ:?}");
                }
            }
        }
        panic!("{what}: not as the model");
    }
}

fn short(node: Option<&Node>) -> String {
    let Some(node) = node else {
        return "nothing".to_owned();
    };
    let xattrs: Vec<_> = node.xattrs.values().map(Vec::len).collect();
    format!(
        "{:?} {:o} {} bytes, attributes {xattrs:?}, names {:?}",
        node.kind,
        node.mode,
        node.data.len(),
        node.names
    )
}

fn listing(fs: &Fs, ino: InodeNo, piece: usize) -> Vec<(String, InodeNo, FileKind)> {
    let mut all = Vec::new();
    let mut after = 2;
    loop {
        let before = all.len();
        fs.readdir(ino, after, &mut |entry| {
            assert!(entry.cookie > after, "cookies ascend");
            let name = String::from_utf8(entry.name.to_vec()).unwrap();
            all.push((name, entry.ino, entry.kind));
            after = entry.cookie;
            all.len() < before + piece
        })
        .unwrap();
        if all.len() < before + piece {
            return all;
        }
    }
}

/// The expected outcome of a commit.
pub struct Verdict {
    /// Both sides changed the same: the commit must be refused.
    pub must: bool,
    /// Both sides changed parts of one file, or names of one directory: it may be
    /// refused.
    pub may: bool,
    /// The tree if it succeeds.
    pub merged: Tree,
}

/// Judges the commit of a transaction that began at `origin` and shows `mine` now, while
/// the mounted tree has become `theirs`. It touched some files, and some names.
pub fn judge(
    origin: &Tree,
    mine: &Tree,
    theirs: &Tree,
    touched: &BTreeSet<Id>,
    touched_names: &BTreeSet<(Id, String)>,
) -> Verdict {
    let mut merged = theirs.clone();
    let mut must = false;
    let mut may = false;
    for id in touched {
        let (before, now) = (origin.nodes.get(id), theirs.nodes.get(id));
        may |= match (before, now) {
            (Some(before), Some(now)) => {
                let names = |node: &Node| Node {
                    names: BTreeMap::new(),
                    ..node.clone()
                };
                names(before) != names(now) || origin.links(*id) != theirs.links(*id)
            }
            (before, now) => before.is_some() != now.is_some(),
        };
    }
    for (directory, name) in touched_names {
        let of = |tree: &Tree| {
            let node = tree.nodes.get(directory)?;
            node.names.get(name).copied()
        };
        may |= of(origin) != of(theirs);
    }
    for (id, node) in &mine.nodes {
        let Some(before) = origin.nodes.get(id) else {
            merged.nodes.insert(*id, node.clone());
            continue;
        };
        if before == node {
            continue;
        }
        match merged.nodes.get_mut(id) {
            Some(theirs) => must |= merge_node(before, node, theirs),
            None => must = true,
        }
    }
    // A removed directory that has names in the target.
    for (id, node) in &origin.nodes {
        if node.is_directory() && !mine.nodes.contains_key(id) {
            must |= theirs.nodes.get(id).is_none_or(|theirs| {
                let left = theirs.names.keys();
                left.filter(|name| !node.names.contains_key(*name)).count() > 0
            });
            if let Some(gone) = merged.nodes.get_mut(id) {
                for name in node.names.keys() {
                    gone.names.remove(name);
                }
            }
        }
    }
    // A removed file that has new content in the target.
    for (id, node) in &origin.nodes {
        if node.kind == FileKind::Regular
            && !mine.nodes.contains_key(id)
            && let Some(now) = theirs.nodes.get(id)
        {
            must |= now.data != node.data && theirs.links(*id) <= origin.links(*id);
        }
    }
    if must {
        return Verdict {
            must,
            may: true,
            merged,
        };
    }
    let directories = merged.all(|kind| kind == FileKind::Directory);
    merged.sweep();
    // Directories have one name each, and are reached from the root; one that is not was
    // removed.
    for id in directories {
        let all = merged.nodes.values().flat_map(|node| node.names.values());
        let names = all.filter(|found| **found == id).count();
        let gone = !mine.nodes.contains_key(&id) || !theirs.nodes.contains_key(&id);
        let new = !origin.nodes.contains_key(&id);
        must |= names > 1
            || (id != TOP && names == 0 && (!gone || new && mine.nodes.contains_key(&id)));
    }
    let known = |id: &Id| merged.nodes.contains_key(id);
    must |= merged
        .nodes
        .values()
        .flat_map(|node| node.names.values())
        .any(|id| !known(id));
    Verdict {
        must,
        may: may || must,
        merged,
    }
}

/// Merges one file's changes into the mounted one; true if both sides changed the same.
fn merge_node(before: &Node, mine: &Node, theirs: &mut Node) -> bool {
    let was = theirs.clone();
    let mut must = false;
    if mine.mode != before.mode {
        must |= was.mode != before.mode;
        theirs.mode = mine.mode;
    }
    let keys = |a: &Node, b: &Node| -> BTreeSet<Vec<u8>> {
        a.xattrs.keys().chain(b.xattrs.keys()).cloned().collect()
    };
    for key in keys(before, mine) {
        let (old, new) = (before.xattrs.get(&key), mine.xattrs.get(&key));
        if old != new {
            must |= was.xattrs.get(&key) != old;
            match new {
                Some(value) => theirs.xattrs.insert(key, value.clone()),
                None => theirs.xattrs.remove(&key),
            };
        }
    }
    let names: BTreeSet<_> = before.names.keys().chain(mine.names.keys()).collect();
    for name in names {
        let (old, new) = (before.names.get(name), mine.names.get(name));
        if old != new {
            must |= was.names.get(name) != old;
            match new {
                Some(id) => theirs.names.insert(name.clone(), *id),
                None => theirs.names.remove(name),
            };
        }
    }
    must | merge_bytes(&before.data, &mine.data, &mut theirs.data)
}

fn merge_bytes(before: &[u8], mine: &[u8], theirs: &mut Vec<u8>) -> bool {
    if before == mine {
        return false;
    }
    let was = theirs.clone();
    let mut must = false;
    if mine.len() != before.len() {
        must |= was.len() != before.len();
        theirs.resize(mine.len(), 0);
    }
    for at in 0..before.len().max(mine.len()) {
        if before.get(at) != mine.get(at) {
            must |= was.get(at) != before.get(at);
            if let (Some(byte), Some(new)) = (theirs.get_mut(at), mine.get(at)) {
                *byte = *new;
            }
        }
    }
    must
}
