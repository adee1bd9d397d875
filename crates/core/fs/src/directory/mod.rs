//! Directories: a B+tree from names to inode numbers, ordered by hash.
//!
//! A directory is a file whose logical blocks are the nodes of the tree. The root is
//! block 0; a directory without block 0 is empty. An entry's key is its *cookie*, a
//! 55-bit hash of the name followed by an 8-bit sequence number that distinguishes names
//! of equal hash. `readdir` returns the cookie, too, so it must not change while the
//! entry exists.
//!
//! Invariants:
//! - An entry keeps its cookie from insert to remove, regardless of splits and collapses
//!   around it. A listing resumed after any cookie therefore shows every entry that
//!   existed throughout exactly once.
//! - No node is empty. Emptied nodes are freed at once; a root with a single leaf is
//!   replaced by that leaf; the last entry's removal frees block 0.
//! - Nodes are as long as their contents: a small directory takes one sector.
//! - An operation that fails has changed nothing: everything that can fail is read and
//!   reserved before the first write.
//!
//! Node bytes are input. Each node names its owner and its own block number, and all
//! bytes that are used are checked; a flaw is [`Error::Damaged`]. Every loop ends on any
//! bytes: a child's level is its parent's less one, and ranges of cookies only narrow on
//! the path down, so a walk enters no node twice.
//!
//! | file | |
//! |---|---|
//! | `name.rs` | allowed names, equality, and hashes |
//! | `node.rs` | the bytes of a node, and reading them |
//! | `make.rs` | making and editing nodes |
//! | `numbers.rs` | block numbers of new nodes |
//! | `tree.rs` | the walk from the root to a leaf, and the search for a name |
//! | `reshape.rs` | inserts and removals, splits and collapses |
//! | `check.rs` | the whole structure, for fsck |
//!
//! Source: the tree is Comer 1979, leaves without side links; ordering by hash for stable
//! cookies follows ext3's htree and XFS.

mod check;
mod leftovers;
mod make;
mod name;
mod node;
mod numbers;
mod reshape;
mod tree;

#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::types::{FileKind, InodeNo, Version};
use node::Entry;
use std::sync::Arc;
use tree::{Extent, Find};

pub use check::check;
pub use leftovers::names_in;
pub use name::MAX_NAME_BYTES;
pub use node::NODE_BYTES;
pub use reshape::{INSERT_BLOCKS_MAX, REMOVE_BLOCKS_MAX};
use varve_device::Block;

/// The blocks of one directory file, as its operations see them.
///
/// Within an operation later calls see earlier ones: a block exists after `write` and no
/// longer after `free`.
pub trait DirectoryBlocks {
    /// The content of a block: at least the bytes last written, perhaps followed by
    /// zeros. A block that does not exist may return anything (zeros, no bytes, an
    /// error), as damaged directories refer to such blocks.
    ///
    /// # Errors
    /// Errors of reading the block.
    fn read(&mut self, block: u64) -> Result<Arc<Block>>;

    /// Ensures that a later write or free of this block cannot fail. Before its first
    /// change, an operation prepares every block that it will write or free, except those
    /// it edits. The default does nothing.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn prepare(&mut self, _block: u64) -> Result<()> {
        Ok(())
    }

    /// Replaces the content of a prepared block, or makes the block, with at most
    /// [`NODE_BYTES`] bytes.
    fn write(&mut self, block: u64, data: Vec<u8>);

    /// Makes a prepared block a hole.
    fn free(&mut self, block: u64);

    /// True if the block is not a hole.
    ///
    /// # Errors
    /// Errors of the look-up.
    fn exists(&mut self, block: u64) -> Result<bool>;

    /// True if an earlier change checked the block's whole content, or made it, so that
    /// the next one need not check it again. The default is always false.
    fn is_checked(&self, _block: u64) -> bool {
        false
    }

    /// The first block at or after `from` that exists. [`check`] uses it to find blocks
    /// that belong to no node. The default tries 1024 numbers.
    ///
    /// # Errors
    /// As [`Self::exists`].
    fn next_existing(&mut self, from: u64) -> Result<Option<u64>> {
        for block in from..from.saturating_add(1024) {
            if self.exists(block)? {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// Changes a block that was just read, and keeps no reference to it.
    ///
    /// The default copies the block. A cache that owns it can run `change` on
    /// `Arc::make_mut` of its own reference, which copies only a shared block. `change`
    /// may leave the vector shorter or longer, and must be called exactly once unless the
    /// result is an error. An edit is an operation's only change, so it need not be
    /// prepared.
    ///
    /// # Errors
    /// As [`Self::read`]; then nothing was changed.
    fn edit(&mut self, block: u64, change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<()> {
        let mut data = Arc::unwrap_or_clone(self.read(block)?);
        self.prepare(block)?;
        let data = data.as_vec_mut();
        change(data);
        self.write(block, std::mem::take(data));
        Ok(())
    }
}

/// Parameters of a directory that are needed to read it.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Seed of name hashes, [`crate::LayoutGeometry::hash_seed`].
    pub hash_seed: u64,
    /// Names compare without regard to case, [`crate::LayoutGeometry::case_fold`].
    pub case_fold: bool,
    /// The directory's inode number, stored in its nodes.
    pub ino: InodeNo,
    /// The directory's version, stored in its nodes.
    pub version: Version,
}

impl Key {
    fn damaged(&self, detail: String) -> Error {
        Error::Damaged {
            ino: Some(self.ino),
            detail,
        }
    }
}

/// The inode to which `name` refers, if the name exists.
///
/// Of the leaf it checks the part before the name; [`check`] checks all.
///
/// # Errors
/// `NameTooLong`, `Damaged`, and errors of [`DirectoryBlocks::read`].
pub fn lookup(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    name: &[u8],
) -> Result<Option<(InodeNo, FileKind)>> {
    let entry = search(key, blocks, name)?;
    Ok(entry.map(|entry| entry.leads_to()))
}

/// Adds `name`. Writes at most [`INSERT_BLOCKS_MAX`] blocks.
///
/// # Errors
/// `Exists`; `NameTooLong`; `Invalid` for an empty name, `.`, `..`, or one with `/` or
/// NUL; `NoSpace` when 256 names of this hash exist or the tree cannot grow; otherwise as
/// [`lookup`]. Nothing has changed then.
///
/// # Panics
/// If `ino` is 0.
pub fn insert(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    name: &[u8],
    ino: InodeNo,
    kind: FileKind,
) -> Result<()> {
    assert_ne!(ino.0, 0, "inode 0 names nothing");
    name::allowed(name)?;
    let (place, cookie) = match tree::find(key, blocks, name, Extent::Leaf)? {
        Find::Found(_) => return Err(Error::Exists),
        Find::Absent { place, cookie } => (place, cookie.ok_or(Error::NoSpace)?),
    };
    let entry = Entry {
        cookie,
        ino: ino.0,
        kind: kind as u8,
        name,
    };
    match place {
        Some(place) => reshape::insert(key, blocks, place, &entry),
        None => {
            blocks.prepare(0)?;
            blocks.write(0, make::first_leaf(key, &entry));
            Ok(())
        }
    }
}

/// Removes `name` and returns the inode to which it referred. It needs no free space: it
/// makes no block that does not exist, and writes at most [`REMOVE_BLOCKS_MAX`].
///
/// # Errors
/// `NotFound`, otherwise as [`lookup`]. Nothing has changed then.
pub fn remove(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    name: &[u8],
) -> Result<(InodeNo, FileKind)> {
    let entry = search(key, blocks, name)?.ok_or(Error::NotFound)?;
    let former = entry.leads_to();
    remove_entry(key, blocks, entry)?;
    Ok(former)
}

/// An entry that [`search`] found, and its place. It is outdated after the directory's
/// next change.
pub struct SearchedEntry(tree::Found);

impl SearchedEntry {
    /// The inode to which the name refers.
    pub fn leads_to(&self) -> (InodeNo, FileKind) {
        (self.0.ino, self.0.kind)
    }
}

/// [`lookup`] of a name that may be removed next, so that [`remove_entry`] need not
/// search again.
///
/// # Errors
/// As [`lookup`].
pub fn search(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    name: &[u8],
) -> Result<Option<SearchedEntry>> {
    if name.len() > MAX_NAME_BYTES {
        return Err(Error::NameTooLong);
    }
    match tree::find(key, blocks, name, Extent::ToName)? {
        Find::Found(found) => Ok(Some(SearchedEntry(found))),
        Find::Absent { .. } => Ok(None),
    }
}

/// Removes an entry that was found, in a directory that has not changed since.
///
/// # Errors
/// As [`remove`], except `NotFound`.
pub fn remove_entry(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    entry: SearchedEntry,
) -> Result<()> {
    let descent = &entry.0.place.descent;
    if !blocks.is_checked(descent.block) {
        tree::check_leaf(key, descent)?;
    }
    reshape::remove(key, blocks, entry.0)
}

/// Makes `name` refer to another inode and returns the former one. The name (as first
/// spelled, where case is folded) and the cookie remain.
///
/// # Errors
/// `NotFound`, otherwise as [`lookup`]. Nothing has changed then.
///
/// # Panics
/// If `ino` is 0.
pub fn replace(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    name: &[u8],
    ino: InodeNo,
    kind: FileKind,
) -> Result<(InodeNo, FileKind)> {
    assert_ne!(ino.0, 0, "inode 0 names nothing");
    match tree::find(key, blocks, name, Extent::Leaf)? {
        Find::Found(found) => {
            let (block, at) = found.place.into_position();
            blocks.edit(block, &mut |data| make::set_target(data, at, ino, kind))?;
            Ok((found.ino, found.kind))
        }
        Find::Absent { .. } => Err(Error::NotFound),
    }
}

/// True if the directory has no names.
///
/// # Errors
/// As [`lookup`].
pub fn is_empty(key: &Key, blocks: &mut (impl DirectoryBlocks + ?Sized)) -> Result<bool> {
    if !blocks.exists(0)? {
        return Ok(true);
    }
    // No node is empty, so a sound root means an entry.
    node::parse(key, 0, node::Bounds::ROOT, &blocks.read(0)?)?;
    Ok(false)
}

/// The cookies that a name may have.
pub(crate) fn cookies(key: &Key, name: &[u8]) -> std::ops::RangeInclusive<u64> {
    let run = name::Run::of(key, name);
    run.first..=run.last
}

/// True if a directory cannot have both names.
pub(crate) fn is_same(key: &Key, a: &[u8], b: &[u8]) -> bool {
    name::same(key, a, b)
}

/// Checks that an entry may have this name.
///
/// # Errors
/// `NameTooLong`, `Invalid`.
pub(crate) fn allowed(name: &[u8]) -> Result<()> {
    name::allowed(name)
}

/// Receives an entry's name, inode, kind and cookie; false ends the listing.
pub type Emit<'a> = dyn FnMut(&[u8], InodeNo, FileKind, u64) -> bool + 'a;

/// Passes the entries with cookies greater than `after_cookie` to `emit`, by ascending
/// cookie, until `emit` returns false. Cookies are at least 256 and less than 2^63, so a
/// listing starts at 0, and small numbers are free for `.` and `..`.
///
/// # Errors
/// As [`lookup`], after the entries before the flaw have been emitted.
pub fn list(
    key: &Key,
    blocks: &mut (impl DirectoryBlocks + ?Sized),
    after_cookie: u64,
    emit: &mut Emit<'_>,
) -> Result<()> {
    let mut next = after_cookie.saturating_add(1).max(name::COOKIE_MIN);
    while next < name::COOKIE_END {
        let Some(leaf) = tree::descend(key, blocks, next)? else {
            return Ok(());
        };
        let damaged = |flaw: node::Flaw| flaw.at_block(key, leaf.block);
        let mut entries = leaf.leaf().entries();
        entries.pass(next);
        for entry in entries {
            let (at, entry) = entry.map_err(damaged)?;
            let kind = entry.check(at).map_err(damaged)?;
            if !emit(entry.name, InodeNo(entry.ino), kind, entry.cookie) {
                return Ok(());
            }
        }
        next = leaf.bounds.upper;
    }
    Ok(())
}
