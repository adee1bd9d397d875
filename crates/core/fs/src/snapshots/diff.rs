//! What differs between two snapshots, or between one and the present.
//!
//! The layout names the inodes that changed. Directories among them are compared by
//! name, without nodes that did not change; new directories are walked, and files are
//! compared by pointers: blocks of one write are equal wherever they are stored. Nothing
//! else is read, except that only directories know their place: the names of files that
//! changed in a directory that did not are searched for in the directories, without
//! reading inodes.
//!
//! A file is the same in both if number and version are.

use super::comparison::Comparison;
use super::of_a_snapshot;
use crate::directory;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::{Inode, flags};
use crate::isolation::Kind;
use crate::layout::{BlockPointer, Layout, Mapping};
use crate::memory::vnode::Vnode;
use crate::snapshots::SnapshotTree;
use crate::types::{FileKind, InodeNo, View};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use varve_device::Block;

/// Blocks that are mapped at once.
pub(super) const BLOCKS_AT_ONCE: u64 = 1 << 14;

/// Blocks of a directory that are read at once.
const NODES_AT_ONCE: u64 = 256;

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
        let changed = self
            .layout()
            .changed_inodes(from, to)
            .map_err(of_a_snapshot)?;
        let mut changes = Comparison::of(&old, &new, &changed)?;
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

    /// Passes the names in those nodes of a directory that `wanted` accepts. This tree
    /// has no changes of its own in the directory.
    pub(super) fn each_name(
        &self,
        directory: InodeNo,
        wanted: impl Fn(u64) -> bool,
        emit: &mut dyn FnMut(&[u8], InodeNo, FileKind),
    ) -> Result<()> {
        let vnode = self.vnode(directory)?;
        vnode.directory()?;
        let key = self.store.key(&vnode);
        let layout = &self.store.layout;
        let mut next = 0;
        while let Some(first) = layout.next_mapped(self.view(), directory, next)? {
            for (block, data) in self.nodes(&vnode, first, &wanted)? {
                directory::names_in(&key, block, &data, emit)?;
            }
            next = first.saturating_add(NODES_AT_ONCE);
        }
        Ok(())
    }

    /// Nodes of a directory among [`NODES_AT_ONCE`] blocks, in few requests.
    fn nodes(
        &self,
        vnode: &Vnode,
        first: u64,
        wanted: impl Fn(u64) -> bool,
    ) -> Result<Vec<(u64, Arc<Block>)>> {
        let map = || {
            let layout = &self.store.layout;
            let all = layout.map(self.view(), vnode.ino, first, NODES_AT_ONCE)?;
            let wanted = all.into_iter().filter(|mapping| wanted(mapping.block));
            Ok::<_, Error>(wanted.collect::<Vec<_>>())
        };
        let mut mapped = map()?;
        loop {
            match self.store.fetch(vnode, &mapped) {
                Ok(nodes) => return Ok(mapped.iter().map(|m| m.block).zip(nodes).collect()),
                // One of them was moved in between, or is damaged.
                Err(error) => match map()? {
                    now if now == mapped => return Err(error),
                    now => mapped = now,
                },
            }
        }
    }

    pub(super) fn view(&self) -> View {
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

    pub(super) fn next_in_either(
        &self,
        other: &Self,
        ino: InodeNo,
        from: u64,
    ) -> Result<Option<u64>> {
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
pub(super) fn blocks_unlike<P: BlockPointer>(old: &[Mapping<P>], new: &[Mapping<P>]) -> Vec<u64> {
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

/// The first so many bytes, if there are any.
pub(super) fn all_of(bytes: u64) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    join(&mut ranges, 0..bytes);
    ranges
}
