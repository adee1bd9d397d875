//! What differs between two snapshots, or between one and the present.
//!
//! The layout names the inodes that changed. Directories among them are compared by
//! name, without nodes that did not change; new directories are walked, and files are compared by pointers: blocks of one
//! write are equal wherever they are stored. Nothing else is read, except that only
//! directories know their place: the names of files that changed in a directory that
//! did not are searched for in the directories, without reading inodes.
//!
//! A file is the same in both if number and version are.

use super::told;
use crate::directory;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::{Inode, flags};
use crate::isolation::Kind;
use crate::layout::{BlockPointer, Layout, Mapping};
use crate::snapshots::SnapshotTree;
use crate::types::{FileKind, InodeNo, View};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Blocks that are mapped at once.
const BLOCKS_AT_ONCE: u64 = 1 << 14;

/// What happened to a name or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// The name did not exist.
    Created,
    /// The name exists no more; [`Change::path`] is the former path.
    Removed,
    /// The file had another path, [`Change::from`].
    Renamed,
    /// The content of the file differs.
    Modified,
    /// Owner, permissions, flags, extended attributes or only the time of modification
    /// differ.
    Attributes,
}

/// A difference between two states of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// The path from the root, with a leading slash.
    pub path: Vec<u8>,
    /// The former path of what was renamed.
    pub from: Option<Vec<u8>>,
    /// The number of the file.
    pub ino: InodeNo,
    /// What the file is.
    pub file: FileKind,
    /// Bytes that were written or freed, by whole blocks: of a new file all, of a
    /// modified one the parts that differ, up to the larger of both sizes.
    pub ranges: Vec<Range<u64>>,
}

impl Change {
    /// How many bytes the ranges have.
    pub fn bytes(&self) -> u64 {
        self.ranges
            .iter()
            .map(|range| range.end - range.start)
            .sum()
    }
}

impl<L: Layout> FileSystem<L> {
    /// What happened between the snapshot `from` and the snapshot `to`, or the present,
    /// sorted by path.
    ///
    /// # Errors
    /// `Invalid` if `to` is older than `from`; `NoSuchSnapshot`, `NoSnapshots`,
    /// `Aborted` if one of them is deleted meanwhile, `Damaged`, device errors.
    pub fn diff(self: &Arc<Self>, from: u32, to: Option<u32>) -> Result<Vec<Change>> {
        if to.is_some_and(|to| to < from) {
            return Err(Error::Invalid(
                "the second snapshot is older than the first",
            ));
        }
        let old = self.at(from)?;
        let new = match to {
            Some(number) => self.at(number)?,
            None => self.at_present()?,
        };
        // Asked for after the present was pinned, so none of its changes is missing.
        let changed = self.layout().changed_inodes(from, to).map_err(told)?;
        let mut comparison = Comparison {
            old: Side::new(&old),
            new: Side::new(&new),
            changes: Vec::new(),
        };
        comparison.run(&changed)?;
        let mut changes = comparison.changes;
        changes.sort_unstable_by(|a, b| (&a.path, a.kind).cmp(&(&b.path, b.kind)));
        Ok(changes)
    }

    /// The present as a tree that takes no changes.
    pub(super) fn at_present(self: &Arc<Self>) -> Result<SnapshotTree<L>> {
        let snapshot = self.take_snapshot()?;
        let tree = self.make_private(Some(snapshot), Kind::ReadOnly)?;
        Ok(SnapshotTree { tree, number: 0 })
    }

    /// The inode of a number in this tree; none if the number is free.
    pub(super) fn inode_at(&self, ino: InodeNo) -> Result<Option<Inode>> {
        match self.vnode(ino) {
            Ok(vnode) => Ok(Some(vnode.read().inode.clone())),
            Err(Error::Stale) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The names in a directory, without `.` and `..`.
    pub(super) fn names_in(&self, directory: InodeNo) -> Result<Vec<Name>> {
        let mut names = Vec::new();
        self.readdir(directory, 2, &mut |entry| {
            names.push((entry.name.to_vec(), entry.ino, entry.kind));
            true
        })?;
        Ok(names)
    }

    /// Appends the names in one node of a directory that has no changes of this tree.
    fn names_in_node(&self, directory: InodeNo, block: u64, names: &mut Vec<Name>) -> Result<()> {
        let vnode = self.vnode(directory)?;
        let Some(node) = self.store.load_below(&vnode, block)? else {
            return Ok(());
        };
        let key = self.store.key(&vnode);
        directory::names_in(&key, block, &node.data, &mut |name, ino, kind| {
            names.push((name.to_vec(), ino, kind));
        })
    }

    fn view(&self) -> View {
        let below = self.below.as_ref();
        let snapshot = below.and_then(|below| below.snapshot);
        snapshot.map_or(View::Live, |(number, _)| View::Snapshot(number))
    }

    /// The parts of a file that differ between this tree and another, in which it is
    /// the same file. Neither has changes of its own to it.
    pub(super) fn ranges_unlike(
        &self,
        old: &Inode,
        other: &FileSystem<L>,
        new: &Inode,
    ) -> Result<Vec<Range<u64>>> {
        let size = old.size.max(new.size);
        if old.kind() != FileKind::Regular {
            return Ok(Vec::new());
        }
        let inline = |inode: &Inode| inode.flags & flags::INLINE != 0;
        match (inline(old), inline(new)) {
            (true, true) if old.inline == new.inline => return Ok(Vec::new()),
            (false, false) => {}
            _ => return Ok(all_of(size)),
        }
        let mut ranges = Vec::new();
        let block_bytes = self.store.block_bytes as u64;
        let mut next = 0;
        while let Some(first) = self.next_in_either(other, old.ino, next)? {
            let map = |tree: &Self| {
                tree.store
                    .layout
                    .map(tree.view(), old.ino, first, BLOCKS_AT_ONCE)
            };
            let (mine, theirs) = (map(self)?, map(other)?);
            for block in blocks_unlike(&mine, &theirs) {
                let start = block.saturating_mul(block_bytes).min(size);
                join(
                    &mut ranges,
                    start..start.saturating_add(block_bytes).min(size),
                );
            }
            next = first.saturating_add(BLOCKS_AT_ONCE);
        }
        // All that was cut off or added, with or without a block.
        let cut = old.size.min(new.size);
        if cut < size {
            ranges.retain(|range: &Range<u64>| range.start < cut);
            join(&mut ranges, cut..size);
        }
        Ok(ranges)
    }

    fn next_in_either(&self, other: &Self, ino: InodeNo, from: u64) -> Result<Option<u64>> {
        let next = |tree: &Self| tree.store.layout.next_mapped(tree.view(), ino, from);
        Ok(match (next(self)?, next(other)?) {
            (Some(one), Some(another)) => Some(one.min(another)),
            (one, another) => one.or(another),
        })
    }
}

/// A name, what it leads to, and its kind.
pub(super) type Name = (Vec<u8>, InodeNo, FileKind);

/// Appends a range behind all others.
fn join(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
        _ => ranges.push(range),
    }
}

/// The blocks that are not of one write in both; what was never written is a hole.
fn blocks_unlike<P: BlockPointer>(old: &[Mapping<P>], new: &[Mapping<P>]) -> Vec<u64> {
    let written = |mappings: &[Mapping<P>]| -> BTreeMap<u64, P> {
        let written = mappings
            .iter()
            .filter(|mapping| !mapping.pointer.unwritten());
        written
            .map(|mapping| (mapping.block, mapping.pointer))
            .collect()
    };
    let (old, mut new) = (written(old), written(new));
    let mut unlike = Vec::new();
    for (block, pointer) in &old {
        let same = new
            .remove(block)
            .is_some_and(|other| pointer.same_write(&other));
        if !same {
            unlike.push(*block);
        }
    }
    unlike.extend(new.into_keys());
    unlike.sort_unstable();
    unlike
}

/// One of the two trees, and the paths of directories in it that are known.
struct Side<'a, L: Layout> {
    tree: &'a FileSystem<L>,
    paths: HashMap<InodeNo, Vec<u8>>,
}

impl<'a, L: Layout> Side<'a, L> {
    fn new(tree: &'a FileSystem<L>) -> Self {
        Side {
            tree,
            paths: HashMap::from([(InodeNo::ROOT, Vec::new())]),
        }
    }

    /// The path of a directory, empty for the root.
    fn path_of(&mut self, directory: InodeNo) -> Result<Vec<u8>> {
        let mut above = vec![directory];
        let mut seen = HashSet::new();
        // Up to one whose path is known, then down.
        while let Some(&last) = above.last()
            && !self.paths.contains_key(&last)
        {
            if !seen.insert(last) {
                return Err(Error::Damaged {
                    ino: Some(last),
                    detail: "the directory is below itself".to_owned(),
                });
            }
            above.push(self.tree.parent(last)?);
        }
        while let Some(known) = above.pop() {
            let Some(&next) = above.last() else { break };
            self.enter(known)?;
            if !self.paths.contains_key(&next) {
                return Err(Error::Damaged {
                    ino: Some(next),
                    detail: format!("directory {known} has no name for it"),
                });
            }
        }
        Ok(self.paths[&directory].clone())
    }

    /// Notes the paths of the directories in one whose path is known.
    fn enter(&mut self, directory: InodeNo) -> Result<()> {
        let path = self.paths[&directory].clone();
        for (name, ino, kind) in self.tree.names_in(directory)? {
            if kind == FileKind::Directory {
                self.paths.insert(ino, below(&path, &name));
            }
        }
        Ok(())
    }

    fn path_in(&mut self, (directory, name): &Place) -> Result<Vec<u8>> {
        Ok(below(&self.path_of(*directory)?, name))
    }

    /// A path of each of these files: a walk through the directories until all are
    /// found.
    fn search(&self, mut wanted: HashSet<InodeNo>) -> Result<HashMap<InodeNo, Vec<u8>>> {
        let mut found = HashMap::new();
        let mut rest = vec![(InodeNo::ROOT, Vec::new())];
        while let Some((directory, path)) = rest.pop()
            && !wanted.is_empty()
        {
            for (name, ino, kind) in self.tree.names_in(directory)? {
                if kind == FileKind::Directory {
                    rest.push((ino, below(&path, &name)));
                } else if wanted.remove(&ino) {
                    found.insert(ino, below(&path, &name));
                }
            }
        }
        Ok(found)
    }
}

fn below(path: &[u8], name: &[u8]) -> Vec<u8> {
    [path, b"/", name].concat()
}

/// A directory and a name in it.
type Place = (InodeNo, Vec<u8>);

struct Comparison<'a, L: Layout> {
    old: Side<'a, L>,
    new: Side<'a, L>,
    changes: Vec<Change>,
}

/// Names that only one side has, by what they lead to.
type Places = BTreeMap<InodeNo, Vec<Place>>;

impl<L: Layout> Comparison<'_, L> {
    fn run(&mut self, changed: &[InodeNo]) -> Result<()> {
        let (mut removed, mut added) = (Places::new(), Places::new());
        let replaced = self.replaced(changed)?;
        for &ino in changed {
            self.compare_names(ino, &replaced, &mut removed, &mut added)?;
        }
        self.walk_new(&mut added)?;
        self.tell_names(&removed, &added)?;
        self.tell_files(changed, &added)
    }

    /// The inode on both sides, if it is the same file.
    fn in_both(&self, ino: InodeNo) -> Result<Option<(Inode, Inode)>> {
        let both = (self.old.tree.inode_at(ino)?, self.new.tree.inode_at(ino)?);
        Ok(match both {
            (Some(old), Some(new)) if old.version == new.version => Some((old, new)),
            _ => None,
        })
    }

    /// Changed inodes that are another file now, or free.
    fn replaced(&self, changed: &[InodeNo]) -> Result<HashSet<InodeNo>> {
        let mut replaced = HashSet::new();
        for &ino in changed {
            if self.in_both(ino)?.is_none() {
                replaced.insert(ino);
            }
        }
        Ok(replaced)
    }

    /// Compares the names in a directory of the old side.
    fn compare_names(
        &self,
        directory: InodeNo,
        replaced: &HashSet<InodeNo>,
        removed: &mut Places,
        added: &mut Places,
    ) -> Result<()> {
        let old = self.old.tree.inode_at(directory)?;
        if old.is_none_or(|old| old.kind() != FileKind::Directory) {
            return Ok(());
        }
        let (old_names, names) = match replaced.contains(&directory) {
            true => (self.old.tree.names_in(directory)?, Vec::new()),
            false => self.names_unlike(directory)?,
        };
        let names = names.into_iter().map(|(name, ino, _)| (name, ino));
        let mut new_names: HashMap<Vec<u8>, InodeNo> = names.collect();
        let place = |name| (directory, name);
        for (name, ino, _) in old_names {
            match new_names.get(&name) {
                Some(same) if *same == ino && !replaced.contains(&ino) => {
                    new_names.remove(&name);
                }
                _ => removed.entry(ino).or_default().push(place(name)),
            }
        }
        for (name, ino) in new_names {
            added.entry(ino).or_default().push(place(name));
        }
        Ok(())
    }

    /// The names of a directory on both sides, without those in nodes of one write: no
    /// name in them was added or removed. One that leads to another file of the same
    /// number was.
    fn names_unlike(&self, directory: InodeNo) -> Result<(Vec<Name>, Vec<Name>)> {
        let (old, new) = (self.old.tree, self.new.tree);
        let mut names = (Vec::new(), Vec::new());
        let mut next = 0;
        while let Some(first) = old.next_in_either(new, directory, next)? {
            let map = |tree: &FileSystem<L>| {
                tree.store
                    .layout
                    .map(tree.view(), directory, first, BLOCKS_AT_ONCE)
            };
            for block in blocks_unlike(&map(old)?, &map(new)?) {
                old.names_in_node(directory, block, &mut names.0)?;
                new.names_in_node(directory, block, &mut names.1)?;
            }
            next = first.saturating_add(BLOCKS_AT_ONCE);
        }
        Ok(names)
    }

    /// Adds the names in directories that the old side does not have.
    fn walk_new(&self, added: &mut Places) -> Result<()> {
        let mut rest: Vec<InodeNo> = added.keys().copied().collect();
        let mut walked = HashSet::new();
        while let Some(ino) = rest.pop() {
            let Some(new) = self.new.tree.inode_at(ino)? else {
                continue;
            };
            let is_new = new.kind() == FileKind::Directory && self.in_both(ino)?.is_none();
            if !is_new || !walked.insert(ino) {
                continue;
            }
            for (name, child, _) in self.new.tree.names_in(ino)? {
                added.entry(child).or_default().push((ino, name));
                rest.push(child);
            }
        }
        Ok(())
    }

    fn tell_names(&mut self, removed: &Places, added: &Places) -> Result<()> {
        let mut all: Vec<InodeNo> = removed.keys().chain(added.keys()).copied().collect();
        all.sort_unstable();
        all.dedup();
        let none = Vec::new();
        for ino in all {
            let gone = removed.get(&ino).unwrap_or(&none);
            let new = added.get(&ino).unwrap_or(&none);
            let both = self.in_both(ino)?;
            let mut renamed = 0;
            if let Some((_, inode)) = &both {
                for (from, to) in gone.iter().zip(new) {
                    let (from, to) = (self.old.path_in(from)?, self.new.path_in(to)?);
                    self.tell(ChangeKind::Renamed, to, Some(from), inode, Vec::new());
                    renamed += 1;
                }
            }
            for place in &gone[renamed..] {
                let inode = self.old.tree.inode_at(ino)?.ok_or(Error::Stale)?;
                let path = self.old.path_in(place)?;
                self.tell(ChangeKind::Removed, path, None, &inode, Vec::new());
            }
            for place in &new[renamed..] {
                let inode = self.new.tree.inode_at(ino)?.ok_or(Error::Stale)?;
                let path = self.new.path_in(place)?;
                // Another name of a file that exists writes none of its bytes.
                let is_file = inode.kind() == FileKind::Regular && both.is_none();
                let ranges = if is_file {
                    all_of(inode.size)
                } else {
                    Vec::new()
                };
                self.tell(ChangeKind::Created, path, None, &inode, ranges);
            }
        }
        Ok(())
    }

    /// Compares the files that both sides have.
    fn tell_files(&mut self, changed: &[InodeNo], added: &Places) -> Result<()> {
        let mut unplaced = Vec::new();
        for &ino in changed {
            let Some((old, new)) = self.in_both(ino)? else {
                continue;
            };
            if new.nlink == 0 {
                continue;
            }
            let found = self.compare_file(&old, &new)?;
            if found.is_empty() {
                continue;
            }
            let place = added.get(&ino).and_then(|places| places.first());
            let path = match (new.kind(), place) {
                (_, Some(place)) => self.new.path_in(place)?,
                (FileKind::Directory, None) => self.new.path_of(ino)?,
                (_, None) => {
                    unplaced.push((new, found));
                    continue;
                }
            };
            self.tell_all(&path, &new, found);
        }
        let wanted = unplaced.iter().map(|(inode, _)| inode.ino).collect();
        let paths = self.new.search(wanted)?;
        for (inode, found) in unplaced {
            // One that is not found lost its last name and is still open.
            if let Some(path) = paths.get(&inode.ino) {
                self.tell_all(path, &inode, found);
            }
        }
        Ok(())
    }

    fn compare_file(&self, old: &Inode, new: &Inode) -> Result<Vec<(ChangeKind, Vec<Range<u64>>)>> {
        let mut found = Vec::new();
        let ranges = self.old.tree.ranges_unlike(old, self.new.tree, new)?;
        let is_directory = new.kind() == FileKind::Directory;
        let is_modified = !ranges.is_empty();
        if is_modified {
            found.push((ChangeKind::Modified, ranges));
        }
        let attributes = |inode: &Inode| {
            let flags = inode.flags & !flags::STORED;
            (inode.mode, inode.uid, inode.gid, inode.project, flags)
        };
        let touched = !is_directory && !is_modified && old.mtime != new.mtime;
        if touched || attributes(old) != attributes(new) || self.has_other_xattrs(old, new)? {
            found.push((ChangeKind::Attributes, Vec::new()));
        }
        Ok(found)
    }

    fn has_other_xattrs(&self, old: &Inode, new: &Inode) -> Result<bool> {
        if old.xattr_bytes != new.xattr_bytes {
            return Ok(true);
        }
        let blob = |side: &Side<'_, L>| {
            let vnode = side.tree.vnode(old.ino)?;
            let state = vnode.read();
            side.tree.store.xattrs(&vnode, &state)
        };
        Ok(old.xattr_bytes > 0 && blob(&self.old)? != blob(&self.new)?)
    }

    fn tell_all(&mut self, path: &[u8], inode: &Inode, found: Vec<(ChangeKind, Vec<Range<u64>>)>) {
        for (kind, ranges) in found {
            self.tell(kind, path.to_vec(), None, inode, ranges);
        }
    }

    fn tell(
        &mut self,
        kind: ChangeKind,
        path: Vec<u8>,
        from: Option<Vec<u8>>,
        inode: &Inode,
        ranges: Vec<Range<u64>>,
    ) {
        let path = if path.is_empty() { b"/".to_vec() } else { path };
        self.changes.push(Change {
            kind,
            path,
            from,
            ino: inode.ino,
            file: inode.kind(),
            ranges,
        });
    }
}

/// The first so many bytes, if there are any.
pub(super) fn all_of(bytes: u64) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    join(&mut ranges, 0..bytes);
    ranges
}
