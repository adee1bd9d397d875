//! Inserts, replaces and deletes records.

use super::Tree;
use crate::buffer::WritePage;
use crate::change::Change;
use crate::engine::Author;
use crate::error::Result;
use crate::page::{Cell, Found};

/// A leaf that uses less than one part in this number of a page is merged.
pub(super) const UNDERFULL: usize = 4;

/// Result of [`Tree::put`].
#[derive(Debug)]
pub(crate) struct Put {
    /// The former descriptor, if the former value was large.
    pub old_overflow: Option<Vec<u8>>,
    /// True if the key had a value before.
    pub existed: bool,
}

impl<'a> Tree<'a> {
    /// Sets the value of a key, whether it has one or not.
    pub(crate) fn put(&self, author: &mut Author, key: &[u8], value: Cell<'_>) -> Result<Put> {
        loop {
            let mut leaf = self.leaf_for_writing(key)?;
            let (at, done) = match leaf.page().search(key) {
                Found::At(at) => {
                    let old = leaf.page().value(at);
                    let old_overflow = old.overflow.then(|| old.bytes.to_vec());
                    if self.replace(author, &mut leaf, at, key, value)? {
                        let put = Put {
                            old_overflow,
                            existed: true,
                        };
                        return Ok(put);
                    }
                    (at, false)
                }
                Found::Missing(at) => (at, self.insert(author, &mut leaf, at, key, value)?),
            };
            if done {
                let put = Put {
                    old_overflow: None,
                    existed: false,
                };
                return Ok(put);
            }
            self.split(author, leaf, at, key)?;
        }
    }

    /// Inserts a cell. Returns false if there is no space.
    fn insert(
        &self,
        author: &mut Author,
        leaf: &mut WritePage<'a>,
        at: usize,
        key: &[u8],
        value: Cell<'_>,
    ) -> Result<bool> {
        if !leaf.page().fits(key.len(), value.bytes.len()) {
            return Ok(false);
        }
        let change = Change::Insert {
            page: leaf.number(),
            at: at as u16,
            key,
            value,
        };
        self.engine.note(author, self.table, key, None);
        let lsn = self.engine.log(author, self.table, &change)?;
        self.engine.apply(&change, lsn, &mut [leaf])?;
        Ok(true)
    }

    /// Replaces a value. Returns false if there is no space.
    fn replace(
        &self,
        author: &mut Author,
        leaf: &mut WritePage<'a>,
        at: usize,
        key: &[u8],
        new: Cell<'_>,
    ) -> Result<bool> {
        let (page, number) = (leaf.page(), leaf.number());
        let old = page.value(at);
        let grows = new.bytes.len().saturating_sub(old.bytes.len());
        if page.used() + grows > page.room() {
            return Ok(false);
        }
        let same = !old.overflow && !new.overflow && old.bytes.len() == new.bytes.len();
        self.engine.note(author, self.table, key, Some(old));
        let old_bytes = old.bytes.to_vec();
        let change = match same {
            true => {
                let range = difference(&old_bytes, new.bytes);
                Change::Patch {
                    page: number,
                    at: at as u16,
                    key,
                    offset: range.start as u32,
                    old: &old_bytes[range.clone()],
                    new: &new.bytes[range],
                }
            }
            false => Change::Replace {
                page: number,
                at: at as u16,
                key,
                old: Cell {
                    overflow: old.overflow,
                    bytes: &old_bytes,
                },
                new,
            },
        };
        let lsn = self.engine.log(author, self.table, &change)?;
        self.engine.apply(&change, lsn, &mut [leaf])?;
        Ok(true)
    }

    /// Overwrites a part of a key's value, to undo a patch.
    pub(super) fn patch(
        &self,
        author: &mut Author,
        key: &[u8],
        offset: u32,
        new: &[u8],
    ) -> Result<bool> {
        let mut leaf = self.leaf_for_writing(key)?;
        let Found::At(at) = leaf.page().search(key) else {
            return Ok(false);
        };
        let range = offset as usize..offset as usize + new.len();
        let Some(old) = leaf.page().value(at).bytes.get(range).map(<[u8]>::to_vec) else {
            return Ok(false);
        };
        let change = Change::Patch {
            page: leaf.number(),
            at: at as u16,
            key,
            offset,
            old: &old,
            new,
        };
        let lsn = self.engine.log(author, self.table, &change)?;
        self.engine.apply(&change, lsn, &mut [&mut leaf])?;
        Ok(true)
    }

    /// Deletes a key. Returns its value as the leaf stored it, if the key existed.
    pub(crate) fn delete(
        &self,
        author: &mut Author,
        key: &[u8],
    ) -> Result<Option<(bool, Vec<u8>)>> {
        let mut leaf = self.leaf_for_writing(key)?;
        let Found::At(at) = leaf.page().search(key) else {
            return Ok(None);
        };
        let old = leaf.page().value(at);
        self.engine.note(author, self.table, key, Some(old));
        let (overflow, bytes) = (old.overflow, old.bytes.to_vec());
        let change = Change::Delete {
            page: leaf.number(),
            at: at as u16,
            key,
            old: Cell {
                overflow,
                bytes: &bytes,
            },
        };
        let lsn = self.engine.log(author, self.table, &change)?;
        self.engine.apply(&change, lsn, &mut [&mut leaf])?;
        let page = leaf.page();
        let underfull = leaf.number() != self.root && page.used() < page.room() / UNDERFULL;
        drop(leaf);
        if underfull {
            self.merge(author, key, 0)?;
        }
        Ok(Some((overflow, bytes)))
    }
}

/// Returns the range from the first to the last byte that differs.
fn difference(old: &[u8], new: &[u8]) -> std::ops::Range<usize> {
    let differ = |(old, new): (&u8, &u8)| old != new;
    let Some(start) = old.iter().zip(new).position(differ) else {
        return 0..0;
    };
    let last = old.iter().zip(new).rposition(differ);
    start..last.map_or(start, |last| last + 1)
}
