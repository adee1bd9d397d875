//! Directories: a B+tree from names to inode numbers, ordered by hash.
//!
//! A directory is a file whose logical blocks are the nodes of the tree. The
//! root is block 0; a directory without block 0 is empty. An entry's key is
//! its *cookie*, a 55-bit hash of the name followed by an 8-bit sequence
//! number that tells names of equal hash apart. The cookie is also what
//! `readdir` hands out, so it must not change while the entry exists.
//!
//! Invariants:
//! - An entry keeps its cookie from insert to remove, whatever splits or
//!   collapses around it. A listing resumed after any cookie therefore shows
//!   every entry that existed throughout exactly once.
//! - No node is empty. Emptied nodes are freed at once; a root with a single
//!   leaf takes its place; the last entry's removal frees block 0.
//! - Nodes are as long as what they hold: a small directory costs a sector.
//! - An operation that fails has changed nothing: everything that can fail is
//!   read and reserved before the first write.
//!
//! Node bytes are input. Each node names its owner and its own block number,
//! and what is read of it is checked; a flaw is [`Error::Damaged`]. Every loop
//! ends on any bytes: a child's level is its parent's less one, and ranges of
//! cookies only narrow on the way down, so a walk enters no node twice.
//!
//! | file | |
//! |---|---|
//! | `name.rs` | which names are allowed, equal, and what they hash to |
//! | `node.rs` | the bytes of a node, and reading them |
//! | `make.rs` | making and editing nodes |
//! | `numbers.rs` | which blocks new nodes get |
//! | `tree.rs` | the way down, and the search for a name |
//! | `reshape.rs` | inserts and removals, splits and collapses |
//! | `check.rs` | the whole structure, for fsck |
//!
//! Source: the tree is Comer 1979, leaves without side links; ordering by hash
//! for stable cookies follows ext3's htree and XFS.

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
/// Within an operation later calls see earlier ones: a block exists after
/// `write` and no longer after `free`.
pub trait DirectoryBlocks {
    /// The content of a block: at least the bytes last written, perhaps
    /// followed by zeros. A block that does not exist may answer anything
    /// (zeros, no bytes, an error), as damaged directories ask for such.
    ///
    /// # Errors
    /// Whatever reading the block can fail with.
    fn read(&mut self, block: u64) -> Result<Arc<Block>>;

    /// Sees to it that a later write or free of this block cannot fail. An
    /// operation asks for every block that it will write or free, but for
    /// those it edits, before its first change. The default has nothing to do.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn prepare(&mut self, _block: u64) -> Result<()> {
        Ok(())
    }

    /// Replaces a block's content, or makes the block: at most
    /// [`NODE_BYTES`] bytes. It was prepared.
    fn write(&mut self, block: u64, data: Vec<u8>);

    /// Makes a hole of the block. It was prepared.
    fn free(&mut self, block: u64);

    /// True if the block is not a hole.
    ///
    /// # Errors
    /// Whatever finding out can fail with.
    fn exists(&mut self, block: u64) -> Result<bool>;

    /// True if what the block holds was checked whole, or made, by an earlier
    /// change: the next one need not check it again. The default knows of none.
    fn is_checked(&self, _block: u64) -> bool {
        false
    }

    /// The first block at or after `from` that exists; [`check`] asks, to find
    /// blocks that belong to no node. The default tries 1024 numbers.
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

    /// Changes a block that was just read, keeping no reference to it.
    ///
    /// The default copies the block. A cache that owns it can run `change` on
    /// `Arc::make_mut` of its own reference, which copies only what is shared.
    /// `change` may leave the vector shorter or longer, and must be called
    /// exactly once unless the answer is an error. An edit is an operation's
    /// only change, so it need not be prepared.
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

/// What must be known of a directory to read it.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// [`crate::LayoutGeometry::hash_seed`].
    pub hash_seed: u64,
    /// [`crate::LayoutGeometry::case_fold`].
    pub case_fold: bool,
    /// The directory's inode number; its nodes carry it.
    pub ino: InodeNo,
    /// The directory's version; its nodes carry it.
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

/// Where `name` leads, if it exists.
///
/// Of the leaf it checks what lies before the name; see [`check`] for all.
///
/// # Errors
/// `NameTooLong`, `Damaged`, and what [`DirectoryBlocks::read`] fails with.
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
/// `Exists`; `NameTooLong`; `Invalid` for an empty name, `.`, `..`, or one
/// with `/` or NUL; `NoSpace` when 256 names of this hash exist or the tree
/// cannot grow; otherwise as [`lookup`]. Nothing has changed then.
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

/// Removes `name` and says where it led. Works without room to spare: it
/// makes no block that does not exist, and writes at most
/// [`REMOVE_BLOCKS_MAX`].
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

/// An entry that [`search`] found, and its place. It is out of date with the
/// directory's next change.
pub struct SearchedEntry(tree::Found);

impl SearchedEntry {
    /// Where the name leads.
    pub fn leads_to(&self) -> (InodeNo, FileKind) {
        (self.0.ino, self.0.kind)
    }
}

/// [`lookup`], for a name that is perhaps to be removed: [`remove_entry`] need
/// not search again.
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
/// As [`remove`], but for `NotFound`.
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

/// Lets `name` lead elsewhere and says where it led. Name (as first spelled,
/// where case is folded) and cookie stay.
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

/// True if the directory holds no name.
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

/// True if a directory cannot hold both names.
pub(crate) fn is_same(key: &Key, a: &[u8], b: &[u8]) -> bool {
    name::same(key, a, b)
}

/// Refuses what no entry may be called.
///
/// # Errors
/// `NameTooLong`, `Invalid`.
pub(crate) fn allowed(name: &[u8]) -> Result<()> {
    name::allowed(name)
}

/// Takes an entry's name, inode, kind and cookie; false ends the listing.
pub type Emit<'a> = dyn FnMut(&[u8], InodeNo, FileKind, u64) -> bool + 'a;

/// Hands the entries with cookies greater than `after_cookie` to `emit`, by
/// ascending cookie, until `emit` answers false.
/// Cookies are at least 256 and less than 2^63, so that 0 begins and small
/// numbers are free for `.` and `..`.
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
