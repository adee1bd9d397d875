//! Maintains an index, fills it, and compares it with its table.

use crate::bundle::{Bundle, is_bundle, tree_key};
use crate::ended::entry;
use crate::error::{Error, Result};
use crate::page::longest_key;
use crate::planted::{self, Planted};
use crate::registered::Registered;
use crate::transaction::{TableId, Transaction};
use crate::tree::Tree;
use std::ops::Bound;
use std::sync::Arc;
use varve_locks::Mode;

/// An index of a table that is open for writing.
#[derive(Clone, Debug)]
pub(crate) struct Indexed {
    pub index: Arc<Registered>,
    pub id: TableId,
}

impl Indexed {
    /// Replaces the index entries of a record by those of its new value.
    pub(crate) fn change(
        &self,
        transaction: &mut Transaction<'_>,
        key: &[u8],
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<()> {
        let keys = |value: Option<&[u8]>| match value {
            Some(value) => self.index.keys(key, value),
            None => Ok(Vec::new()),
        };
        let (old, new) = (keys(old)?, keys(new)?);
        for gone in old.iter().filter(|key| !new.contains(key)) {
            transaction.delete(self.id, &entry(gone, key))?;
        }
        for come in new.iter().filter(|key| !old.contains(key)) {
            if old.is_empty() || !planted::is(Planted::IndexEntryLost) {
                transaction.put(self.id, &entry(come, key), &[])?;
            }
        }
        Ok(())
    }
}

/// Passes each record of a tree in its present state to `each`.
fn records(tree: Tree<'_>, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
    let limit = longest_key(tree.engine.pool.page_bytes);
    let mut from = Vec::new();
    loop {
        let leaf = tree.leaf_from(Bound::Included(&from), Bound::Unbounded, None)?;
        for (key, large, value) in leaf.records {
            let value = match large {
                true => tree.load(&value)?,
                false => value,
            };
            if !is_bundle(&key, limit) {
                each(&key, &value)?;
                continue;
            }
            let bundle = Bundle::read(&key, value)?;
            for at in 0..bundle.len() {
                let value = bundle.value(at);
                match value.overflow {
                    true => each(&bundle.key(at), &tree.load(value.bytes)?)?,
                    false => each(&bundle.key(at), value.bytes)?,
                }
            }
        }
        match leaf.next {
            Some(next) => from = next,
            None => return Ok(()),
        }
    }
}

/// Creates the entries of all records of a table, which is locked for reading.
pub(crate) fn fill(
    transaction: &mut Transaction<'_>,
    table: TableId,
    index: &Indexed,
) -> Result<u64> {
    transaction.lock_table(table.table, Mode::Read)?;
    transaction.lock_table(index.id.table, Mode::Write)?;
    let mut count = 0;
    records(transaction.tree(table), |key, value| {
        for index_key in index.index.keys(key, value)? {
            transaction.put(index.id, &entry(&index_key, key), &[])?;
            count += 1;
        }
        Ok(())
    })?;
    Ok(count)
}

/// Returns true if a tree contains a key of any length.
fn holds(tree: Tree<'_>, key: &[u8]) -> Result<bool> {
    let limit = longest_key(tree.engine.pool.page_bytes);
    let Some(tree_key) = tree_key(key, limit) else {
        return Ok(tree.get(key, None)?.0.is_some());
    };
    let bytes = match tree.get(&tree_key, None)?.0 {
        Some((true, stored)) => tree.load(&stored)?,
        Some((false, bytes)) => bytes.into_vec(),
        None => return Ok(false),
    };
    Ok(Bundle::read(&tree_key, bytes)?.search(key).is_ok())
}

/// Checks that an index has an entry for each record of its table, and no other. Returns
/// the number of entries. No writer may run meanwhile.
pub(crate) fn compare(table: Tree<'_>, entries: Tree<'_>, index: &Registered) -> Result<u64> {
    let wrong = |what: &str| {
        let what = format!("index {:?}: {what}", index.name);
        Error::damaged("pages", 0, what)
    };
    let (mut expected, mut found) = (0, 0);
    records(table, |key, value| {
        for index_key in index.keys(key, value)? {
            if !holds(entries, &entry(&index_key, key))? {
                return Err(wrong("it lacks a record"));
            }
            expected += 1;
        }
        Ok(())
    })?;
    records(entries, |_, _| {
        found += 1;
        Ok(())
    })?;
    match found == expected {
        true => Ok(found),
        false => Err(wrong("it has entries of no records")),
    }
}
