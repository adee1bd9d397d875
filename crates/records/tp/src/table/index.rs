//! Reads by an index.

use super::range::Range;
use super::typed::{bytes, decoded};
use super::{Handle, Row};
use crate::codec::{Key, Value};
use crate::ended::{behind, escaped, split};
use crate::error::{Error, Result};
use crate::transaction::TableId;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// An index for reading: records of its table in the order of the index keys.
#[derive(Debug)]
pub struct Index<'t, 'e, I, K, V> {
    handle: &'t Handle<'e>,
    id: TableId,
    table: TableId,
    types: PhantomData<fn(I, K, V)>,
}

/// An iterator over a range of an index, which may be advanced from both ends until they
/// meet.
#[derive(Debug)]
pub struct IndexRange<'t, 'e, I, K, V> {
    handle: &'t Handle<'e>,
    id: TableId,
    table: TableId,
    entries: Range<'t, 'e, &'static [u8], ()>,
    types: PhantomData<fn(I, K, V)>,
}

/// An index key, and a record that has it.
type Found<I, K, V> = (<I as Value>::Owned, Row<K, V>);

/// An iterator over the records with one index key.
#[derive(Debug)]
pub struct IndexMatches<'t, 'e, I, K, V>(IndexRange<'t, 'e, I, K, V>);

impl<'t, 'e, I: Key, K: Key, V: Value> Index<'t, 'e, I, K, V> {
    pub(super) fn new(handle: &'t Handle<'e>, id: TableId, table: TableId) -> Self {
        Index {
            handle,
            id,
            table,
            types: PhantomData,
        }
    }

    fn entries(
        &self,
        from: Bound<Vec<u8>>,
        to: Bound<Vec<u8>>,
    ) -> Result<IndexRange<'t, 'e, I, K, V>> {
        self.handle.transaction.borrow_mut().lock_to_scan(self.id)?;
        Ok(IndexRange {
            handle: self.handle,
            id: self.id,
            table: self.table,
            entries: Range::new(self.handle, self.id, (from, to)),
            types: PhantomData,
        })
    }

    /// Returns the records with an index key, in the order of their own keys. If reads
    /// lock, the whole index is locked.
    ///
    /// # Errors
    /// The same as [`ReadTable::get`](super::ReadTable::get).
    pub fn get(&self, key: I::Ref<'_>) -> Result<IndexMatches<'t, 'e, I, K, V>> {
        let key = bytes::<I>(key);
        let entries = escaped(&key);
        let (from, to) = (Bound::Included(entries.clone()), behind(entries));
        Ok(IndexMatches(self.entries(from, to)?))
    }

    /// Returns the records whose index keys are in a range, from either end. A record
    /// with several such keys is returned once for each. Concurrent changes of the same
    /// transaction may be visible or not.
    ///
    /// # Errors
    /// The same as [`get`](Self::get).
    pub fn range<'k>(
        &self,
        range: impl RangeBounds<I::Ref<'k>>,
    ) -> Result<IndexRange<'t, 'e, I, K, V>>
    where
        I::Ref<'k>: Clone,
    {
        let encode = |key: &I::Ref<'k>| bytes::<I>(key.clone());
        let from = match range.start_bound() {
            Bound::Included(key) => Bound::Included(escaped(&encode(key))),
            // No key is between these bounds.
            Bound::Excluded(key) => match behind(escaped(&encode(key))) {
                Bound::Excluded(key) => Bound::Included(key),
                other => other,
            },
            Bound::Unbounded => Bound::Unbounded,
        };
        let to = match range.end_bound() {
            Bound::Included(key) => behind(escaped(&encode(key))),
            Bound::Excluded(key) => Bound::Excluded(escaped(&encode(key))),
            Bound::Unbounded => Bound::Unbounded,
        };
        self.entries(from, to)
    }

    /// Returns all records in the index, in the order of its keys.
    ///
    /// # Errors
    /// The same as [`get`](Self::get).
    pub fn iter(&self) -> Result<IndexRange<'t, 'e, I, K, V>> {
        self.entries(Bound::Unbounded, Bound::Unbounded)
    }
}

impl<I: Key, K: Key, V: Value> IndexRange<'_, '_, I, K, V> {
    /// Returns the record of an entry; `None` if this transaction has removed it since
    /// the entry was read.
    fn row(&self, entry: Result<Row<&'static [u8], ()>>) -> Result<Option<Found<I, K, V>>> {
        let (entry, ()) = entry?;
        let wrong = |what| Error::damaged("pages", 0, what);
        let split = split(&entry);
        let (index_key, key) = split.ok_or_else(|| wrong("an entry of an index"))?;
        let statement = self.entries.statement();
        let mut transaction = self.handle.transaction.borrow_mut();
        let Some(value) = transaction.read_in(self.table, key, statement)? else {
            return match transaction.read_in(self.id, &entry, statement)? {
                Some(_) => Err(wrong("an index leads to no record")),
                None => Ok(None),
            };
        };
        drop(transaction);
        let row = (decoded::<K>(key)?, decoded::<V>(&value)?);
        Ok(Some((decoded::<I>(&index_key)?, row)))
    }
}

impl<I: Key, K: Key, V: Value> Iterator for IndexRange<'_, '_, I, K, V> {
    type Item = Result<Found<I, K, V>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = self.entries.next()?;
            if let Some(row) = self.row(entry).transpose() {
                return Some(row);
            }
        }
    }
}

impl<I: Key, K: Key, V: Value> DoubleEndedIterator for IndexRange<'_, '_, I, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            let entry = self.entries.next_back()?;
            if let Some(row) = self.row(entry).transpose() {
                return Some(row);
            }
        }
    }
}

impl<I: Key, K: Key, V: Value> Iterator for IndexMatches<'_, '_, I, K, V> {
    type Item = Result<Row<K, V>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map(|(_, row)| row))
    }
}

impl<I: Key, K: Key, V: Value> DoubleEndedIterator for IndexMatches<'_, '_, I, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.0.next_back()?.map(|(_, row)| row))
    }
}
