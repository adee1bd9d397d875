//! Names of tables and indices, committed or in a transaction.
//!
//! Invariants:
//! - The map in memory has every committed name. A transaction that changes a name owns
//!   its lock in the catalog until the map is changed.
//! - A name is looked up in the map first. If it is missing, or newer than the reader,
//!   the catalog's tree decides.

use super::Shared;
use super::known::Tables;
use crate::catalog::{CATALOG, Entry};
use crate::error::{Error, Result};
use crate::log::Lsn;
use crate::options::Options;
use crate::registered::{Registered, indexed_table};
use crate::transaction::{TableId, Transaction};
use crate::types::Types;
use std::sync::Arc;
use varve_device::sync::atomic::{AtomicU64, Ordering::Relaxed};
use varve_locks::Mode;

/// Returns indices in the catalog whose function was not given, with their tables.
pub(super) fn unknown_indices(options: &Options, tables: &Tables) -> Vec<(String, String)> {
    let known = |name: &String| options.indices.iter().any(|index| index.name == *name);
    let indices = tables.iter().filter_map(|(name, (entry, _))| {
        let table = indexed_table(&entry.types)?;
        Some((table.to_owned(), name.clone()))
    });
    indices.filter(|(_, name)| !known(name)).collect()
}

impl Shared {
    /// Runs `look` on a committed table; with `at`, only if it existed at this commit.
    pub(crate) fn table<T>(
        &self,
        name: &str,
        at: Option<Lsn>,
        look: impl FnOnce(&Entry) -> T,
    ) -> Option<T> {
        let visible = |since| at.is_none_or(|at| since <= at);
        self.known
            .look(name, |entry, since| visible(since).then(|| look(entry)))?
    }

    /// Returns a table from the catalog and locks it for a transaction. If it is missing
    /// and `types` are given, it is created.
    pub(crate) fn find_table(
        &self,
        transaction: &mut Transaction<'_>,
        name: &str,
        types: Option<&Types>,
    ) -> Result<Entry> {
        let found = match types {
            Some(_) => transaction.get(CATALOG, name.as_bytes(), Mode::Write)?,
            None => transaction.read(CATALOG, name.as_bytes())?,
        };
        match (found, types) {
            (Some(bytes), _) => Entry::parse(&bytes),
            (None, None) => Err(Error::NoTable(name.to_owned())),
            (None, Some(types)) => {
                crate::transaction::check_name(name, self.engine.pool.page_bytes)?;
                let number = self.next_table.fetch_add(1, Relaxed);
                let entry = Entry {
                    id: transaction.make_tree(number)?,
                    types: types.text(),
                };
                transaction.put(CATALOG, name.as_bytes(), &entry.to_bytes())?;
                Ok(entry)
            }
        }
    }

    /// Returns the indices of a table that is going to be written.
    pub(crate) fn indices(&self, table: &str) -> Result<Vec<Arc<Registered>>> {
        let is_index = |entry: &Entry| indexed_table(&entry.types) == Some(table);
        let mut unknown = self.unknown_indices.iter();
        let there = unknown.find(|(of, index)| {
            // The index may have been dropped meanwhile, and its name reused.
            of == table && self.table(index, None, is_index) == Some(true)
        });
        if let Some((table, index)) = there.cloned() {
            return Err(Error::IndexNotGiven { table, index });
        }
        let all = self.options.indices.iter();
        Ok(all.filter(|index| index.table == table).cloned().collect())
    }

    /// Returns the names of all indices of a table, with or without a function.
    pub(crate) fn names_of_indices(&self, table: &str) -> Vec<String> {
        let registered = self.options.indices.iter();
        let mut names: Vec<String> = registered
            .filter(|index| index.table == table)
            .map(|index| index.name.clone())
            .collect();
        for (name, (entry, _)) in self.known.all().iter() {
            if indexed_table(&entry.types) == Some(table) && !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// Returns an index from the catalog, and true if it had to be created.
    pub(crate) fn find_index(
        &self,
        transaction: &mut Transaction<'_>,
        index: &Registered,
    ) -> Result<(Entry, bool)> {
        let found = transaction.get(CATALOG, index.name.as_bytes(), Mode::Write)?;
        let types = Some(&index.types);
        let entry = self.find_table(transaction, &index.name, types)?;
        Ok((entry, found.is_none()))
    }

    /// Removes a table from the catalog and returns its entry.
    pub(crate) fn take_table(
        &self,
        transaction: &mut Transaction<'_>,
        name: &str,
    ) -> Result<Entry> {
        let found = transaction.get(CATALOG, name.as_bytes(), Mode::Write)?;
        let found = found.ok_or_else(|| Error::NoTable(name.to_owned()))?;
        let entry = Entry::parse(&found)?;
        transaction.lock_table(entry.id.table, Mode::Write)?;
        transaction.delete(CATALOG, name.as_bytes())?;
        Ok(entry)
    }

    /// Gives a table an unused name.
    pub(crate) fn name_table(
        &self,
        transaction: &mut Transaction<'_>,
        name: &str,
        entry: &Entry,
    ) -> Result<()> {
        crate::transaction::check_name(name, self.engine.pool.page_bytes)?;
        let found = transaction.get(CATALOG, name.as_bytes(), Mode::Write)?;
        if found.is_some() {
            return Err(Error::TableExists(name.to_owned()));
        }
        transaction.put(CATALOG, name.as_bytes(), &entry.to_bytes())?;
        Ok(())
    }

    /// Publishes a transaction's changes of names from this commit on. The commit is not
    /// visible yet, and the transaction still owns its locks.
    pub(crate) fn commits(&self, names: &[(String, Option<Entry>)], gone: &[TableId], at: Lsn) {
        for id in gone {
            self.engine.dropped(id.table);
            self.numbers.lock().remove(&id.table);
        }
        if names.is_empty() {
            return;
        }
        self.known.change(|tables| {
            for (name, entry) in names {
                match entry {
                    Some(entry) => _ = tables.insert(name.clone(), (entry.clone(), at)),
                    None => _ = tables.remove(name),
                }
            }
        });
    }

    /// Returns the counter of a table of records; `next` returns its first value.
    pub(crate) fn numbers(
        &self,
        id: TableId,
        next: impl FnOnce() -> Result<u64>,
    ) -> Result<Arc<AtomicU64>> {
        if let Some(counter) = self.numbers.lock().get(&id.table) {
            return Ok(counter.clone());
        }
        let counter = Arc::new(AtomicU64::new(next()?));
        Ok(self
            .numbers
            .lock()
            .entry(id.table)
            .or_insert(counter)
            .clone())
    }
}
