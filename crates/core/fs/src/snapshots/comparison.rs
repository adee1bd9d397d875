//! Names and files of two trees, compared (`diff.rs`).

use super::diff::{BLOCKS_AT_ONCE, Change, ChangeKind, Name, all_of, blocks_unlike};
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::hash::MixBuilder;
use crate::inode::{Inode, flags};
use crate::layout::Layout;
use crate::types::{FileKind, InodeNo};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

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
        let paths = &mut self.paths;
        let mut enter = |name: &[u8], ino, kind| {
            if kind == FileKind::Directory {
                paths.insert(ino, below(&path, name));
            }
        };
        self.tree.each_name(directory, |_| true, &mut enter)
    }

    fn path_in(&mut self, (directory, name): &Place) -> Result<Vec<u8>> {
        Ok(below(&self.path_of(*directory)?, name))
    }

    /// A path of each of these files: a walk through the directories until all are
    /// found.
    fn search(&self, mut wanted: Numbers) -> Result<HashMap<InodeNo, Vec<u8>>> {
        let mut found = HashMap::new();
        let mut rest = vec![(InodeNo::ROOT, Vec::new())];
        while let Some((directory, path)) = rest.pop()
            && !wanted.is_empty()
        {
            let mut look = |name: &[u8], ino, kind| {
                if kind == FileKind::Directory {
                    rest.push((ino, below(&path, name)));
                } else if wanted.remove(&ino) {
                    found.insert(ino, below(&path, name));
                }
            };
            self.tree.each_name(directory, |_| true, &mut look)?;
        }
        Ok(found)
    }
}

fn below(path: &[u8], name: &[u8]) -> Vec<u8> {
    [path, b"/", name].concat()
}

/// The names in those nodes of a directory that `wanted` accepts.
fn names<L: Layout>(
    tree: &FileSystem<L>,
    directory: InodeNo,
    wanted: impl Fn(u64) -> bool,
) -> Result<Vec<Name>> {
    let mut names = Vec::new();
    tree.each_name(directory, wanted, &mut |name, ino, kind| {
        names.push((name.to_vec(), ino, kind));
    })?;
    Ok(names)
}

/// Inodes, in a set that is asked for every name of a volume.
type Numbers = HashSet<InodeNo, MixBuilder>;

/// A directory and a name in it.
pub(super) type Place = (InodeNo, Vec<u8>);

/// Two trees, and the changes found so far.
pub(super) struct Comparison<'a, L: Layout> {
    old: Side<'a, L>,
    new: Side<'a, L>,
    changes: Vec<Change>,
}

/// Names that only one side has, by what they lead to.
pub(super) type Places = BTreeMap<InodeNo, Vec<Place>>;

impl<'a, L: Layout> Comparison<'a, L> {
    /// Compares the inodes `changed`, which the old side has, and all that is new.
    ///
    /// # Errors
    /// `Damaged`, `Aborted`, device errors.
    pub(super) fn of(
        old: &'a FileSystem<L>,
        new: &'a FileSystem<L>,
        changed: &[InodeNo],
    ) -> Result<Vec<Change>> {
        let mut comparison = Comparison {
            old: Side::new(old),
            new: Side::new(new),
            changes: Vec::new(),
        };
        comparison.run(changed)?;
        Ok(comparison.changes)
    }

    fn run(&mut self, changed: &[InodeNo]) -> Result<()> {
        let (removed, added) = self.compare_all_names(changed)?;
        self.tell_names(&removed, &added)?;
        self.tell_files(changed, &added)
    }

    /// Names that only the old side has, and names that only the new one has.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub(super) fn names(
        old: &'a FileSystem<L>,
        new: &'a FileSystem<L>,
        changed: &[InodeNo],
    ) -> Result<(Places, Places)> {
        let comparison = Comparison {
            old: Side::new(old),
            new: Side::new(new),
            changes: Vec::new(),
        };
        comparison.compare_all_names(changed)
    }

    /// A path of each of these files and directories of a tree.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub(super) fn paths(
        tree: &'a FileSystem<L>,
        wanted: &BTreeSet<InodeNo>,
    ) -> Result<BTreeMap<InodeNo, Vec<u8>>> {
        let mut side = Side::new(tree);
        let (mut paths, mut files) = (BTreeMap::new(), Numbers::default());
        for &ino in wanted {
            let inode = tree.inode_at(ino)?.ok_or(Error::Stale)?;
            match inode.kind() {
                FileKind::Directory => _ = paths.insert(ino, side.path_of(ino)?),
                _ => _ = files.insert(ino),
            }
        }
        paths.extend(side.search(files)?);
        Ok(paths)
    }

    fn compare_all_names(&self, changed: &[InodeNo]) -> Result<(Places, Places)> {
        let (mut removed, mut added) = (Places::new(), Places::new());
        let replaced = self.replaced(changed)?;
        for &ino in changed {
            self.compare_names(ino, &replaced, &mut removed, &mut added)?;
        }
        self.walk_new(&mut added)?;
        Ok((removed, added))
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
            true => (names(self.old.tree, directory, |_| true)?, Vec::new()),
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
        let mut unlike = Vec::new();
        let mut next = 0;
        while let Some(first) = old.next_in_either(new, directory, next)? {
            let map = |tree: &FileSystem<L>| {
                tree.store
                    .layout
                    .map(tree.view(), directory, first, BLOCKS_AT_ONCE)
            };
            unlike.extend(blocks_unlike(&map(old)?, &map(new)?));
            next = first.saturating_add(BLOCKS_AT_ONCE);
        }
        let wanted = |block| unlike.binary_search(&block).is_ok();
        Ok((
            names(old, directory, wanted)?,
            names(new, directory, wanted)?,
        ))
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
            for (name, child, _) in names(self.new.tree, ino, |_| true)? {
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
