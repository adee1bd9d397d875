//! Records by number: the formatted files of the thesis.
//!
//! A tree by number, filled from its end, so its pages become full, and an append finds
//! its leaf by the hint. Each number is used once, from 0 on. Numbers of aborted
//! transactions stay unused, unless they were the last when the environment was closed.

use super::typed::decoded;
use super::{Handle, ReadTable, Table};
use crate::codec::Value;
use crate::error::{Error, Result};
use crate::index::Indexed;
use crate::transaction::TableId;
use crate::types::Types;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use varve_device::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The name of a table of records, and their type.
#[derive(Debug)]
pub struct RecordsDefinition<'n, V>(&'n str, PhantomData<fn(V)>);

impl<V> Clone for RecordsDefinition<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for RecordsDefinition<'_, V> {}

impl<'n, V> RecordsDefinition<'n, V> {
    /// Returns the definition of the table with this name.
    pub const fn new(name: &'n str) -> Self {
        RecordsDefinition(name, PhantomData)
    }

    /// Returns the name of the table.
    pub const fn name(&self) -> &'n str {
        self.0
    }
}

impl<V: Value> RecordsDefinition<'_, V> {
    pub(crate) fn types(&self) -> Types {
        Types(["records of ".into(), V::type_name(), "".into()])
    }
}

/// A table of records by number. It dereferences to the table for reading.
#[derive(Debug)]
pub struct Records<'t, 'e, V> {
    table: Table<'t, 'e, u64, V>,
    next: Arc<AtomicU64>,
}

impl<'t, 'e, V> Deref for Records<'t, 'e, V> {
    type Target = ReadTable<'t, 'e, u64, V>;

    fn deref(&self) -> &Self::Target {
        &self.table
    }
}

impl<'t, 'e, V: Value> Records<'t, 'e, V> {
    pub(super) fn open(handle: &'t Handle<'e>, id: TableId, indices: Vec<Indexed>) -> Result<Self> {
        let next = handle.shared.numbers(id, || {
            // Without a lock, because uncommitted transactions have used numbers as well.
            let last = handle.transaction.borrow().last_key(id)?;
            let number = last.map(|last| decoded::<u64>(&last)).transpose()?;
            Ok(number.map_or(0, |last| last.saturating_add(1)))
        })?;
        let table = Table::new(handle, id, indices);
        Ok(Records { table, next })
    }

    /// Appends a record, and returns its number.
    ///
    /// # Errors
    /// The same as [`Table::insert`]; [`Error::NoNumber`] after the highest number.
    pub fn append(&self, value: V::Ref<'_>) -> Result<u64> {
        let one_more = |next: u64| next.checked_add(1);
        let taken = self.next.fetch_update(Relaxed, Relaxed, one_more);
        let number = taken.map_err(|_| Error::NoNumber)?;
        self.table.insert(number, value)?;
        Ok(number)
    }

    /// Replaces an existing record.
    ///
    /// # Errors
    /// The same as [`Table::insert`]; [`Error::NoRecord`] if it does not exist.
    pub fn set(&self, number: u64, value: V::Ref<'_>) -> Result<()> {
        match self.table.get_for_update(number)? {
            Some(_) => self.table.insert(number, value).map(|_| ()),
            None => Err(Error::NoRecord(number)),
        }
    }

    /// Removes a record; its number is not reused. Returns true if it existed.
    ///
    /// # Errors
    /// The same as [`Table::remove`].
    pub fn remove(&self, number: u64) -> Result<bool> {
        self.table.remove(number)
    }
}
