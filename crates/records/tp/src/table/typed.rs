//! Tables of typed keys and values.

use super::range::{Bounds, Range};
use super::{Handle, Row};
use crate::codec::{FirstKey, Key, Value};
use crate::ended::behind;
use crate::error::{Error, Result};
use crate::index::Indexed;
use crate::transaction::{Bytes, TableId, Transaction};
use crate::types::Types;
use std::marker::PhantomData;
use std::ops::{Deref, RangeBounds};
use varve_locks::Mode;

/// A table's name and types.
///
/// ```
/// use varve_tp::TableDefinition;
///
/// const ACCOUNTS: TableDefinition<u32, &[u8]> = TableDefinition::new("accounts");
/// assert_eq!(ACCOUNTS.name(), "accounts");
/// ```
#[derive(Debug)]
pub struct TableDefinition<'n, K, V>(&'n str, PhantomData<fn(K, V)>);

impl<K, V> Clone for TableDefinition<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for TableDefinition<'_, K, V> {}

impl<'n, K, V> TableDefinition<'n, K, V> {
    /// Returns the definition of the table with this name.
    pub const fn new(name: &'n str) -> Self {
        TableDefinition(name, PhantomData)
    }

    /// Returns the name of the table.
    pub const fn name(&self) -> &'n str {
        self.0
    }
}

impl<K: Key, V: Value> TableDefinition<'_, K, V> {
    pub(crate) fn types(&self) -> Types {
        Types([K::type_name(), " -> ".into(), V::type_name()])
    }
}

/// A table for reading.
#[derive(Debug)]
pub struct ReadTable<'t, 'e, K, V> {
    handle: &'t Handle<'e>,
    id: TableId,
    types: PhantomData<fn(K, V)>,
}

/// A table for reading and writing.
#[derive(Debug)]
pub struct Table<'t, 'e, K, V> {
    table: ReadTable<'t, 'e, K, V>,
    indices: Vec<Indexed>,
}

impl<'t, 'e, K, V> Deref for Table<'t, 'e, K, V> {
    type Target = ReadTable<'t, 'e, K, V>;

    fn deref(&self) -> &Self::Target {
        &self.table
    }
}

pub(super) fn bytes<V: Value>(value: V::Ref<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    V::encode(value, &mut bytes);
    bytes
}

pub(crate) fn decoded<V: Value>(bytes: &[u8]) -> Result<V::Owned> {
    V::decode(bytes).ok_or_else(|| of_other_type::<V>(bytes.len()))
}

fn of_other_type<V: Value>(bytes: usize) -> Error {
    let what = format!("{bytes} bytes are no {}", V::type_name());
    Error::damaged("pages", 0, what)
}

/// Decodes an owned buffer, which need not be copied.
pub(super) fn decoded_vec<V: Value>(bytes: Vec<u8>) -> Result<V::Owned> {
    let length = bytes.len();
    V::decode_vec(bytes).ok_or_else(|| of_other_type::<V>(length))
}

/// Decodes a value that was read; small ones are stored inline and need no allocation.
fn decoded_read<V: Value>(bytes: Bytes) -> Result<V::Owned> {
    match bytes.spilled() {
        true => decoded_vec::<V>(bytes.into_vec()),
        false => decoded::<V>(&bytes),
    }
}

impl<'t, 'e, K: Key, V: Value> ReadTable<'t, 'e, K, V> {
    pub(super) fn new(handle: &'t Handle<'e>, id: TableId) -> Self {
        ReadTable {
            handle,
            id,
            types: PhantomData,
        }
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// [`Error::SnapshotTooOld`] or, if reads lock, [`Error::Deadlock`] and
    /// [`Error::LockTimeout`]; [`Error::TableDropped`]; errors of the storage.
    pub fn get(&self, key: K::Ref<'_>) -> Result<Option<V::Owned>> {
        let key = bytes::<K>(key);
        let found = self.handle.transaction.borrow_mut().read(self.id, &key)?;
        found.map(decoded_read::<V>).transpose()
    }

    /// Returns an iterator over the records in a range of keys, from either end. If reads
    /// lock, the whole table is locked. Records are read a leaf at a time, so concurrent
    /// changes of the same transaction may be visible or not.
    ///
    /// # Errors
    /// The same as [`get`](Self::get).
    pub fn range<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> Result<Range<'t, 'e, K, V>>
    where
        K::Ref<'k>: Clone,
    {
        let encode = |key: &K::Ref<'k>| bytes::<K>(key.clone());
        let bounds: Bounds = (
            range.start_bound().map(encode),
            range.end_bound().map(encode),
        );
        let mut transaction = self.handle.transaction.borrow_mut();
        transaction.lock_to_scan(self.id)?;
        drop(transaction);
        Ok(Range::new(self.handle, self.id, bounds))
    }

    /// Returns an iterator over all records, in the order of their keys.
    ///
    /// # Errors
    /// The same as [`range`](Self::range).
    pub fn iter(&self) -> Result<Range<'t, 'e, K, V>> {
        let mut transaction = self.handle.transaction.borrow_mut();
        transaction.lock_to_scan(self.id)?;
        drop(transaction);
        let bounds = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        Ok(Range::new(self.handle, self.id, bounds))
    }

    /// Returns the record with the lowest key.
    ///
    /// # Errors
    /// The same as [`range`](Self::range).
    pub fn first(&self) -> Result<Option<Row<K, V>>> {
        self.iter()?.next().transpose()
    }

    /// Returns the record with the highest key.
    ///
    /// # Errors
    /// The same as [`range`](Self::range).
    pub fn last(&self) -> Result<Option<Row<K, V>>> {
        self.iter()?.next_back().transpose()
    }
}

impl<'t, 'e, A: FirstKey, B: Key, V: Value> ReadTable<'t, 'e, (A, B), V> {
    /// Returns an iterator over the records whose keys are pairs with this first, from
    /// either end: with the unit as value, all values of a key. If reads lock, the whole
    /// table is locked.
    ///
    /// ```
    /// use varve_tp::{Options, TableDefinition};
    ///
    /// // Any number of titles for an author.
    /// const TITLES: TableDefinition<(&str, &str), ()> = TableDefinition::new("titles");
    ///
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let environment = Options::new().open(directory.path())?;
    /// let transaction = environment.begin_write();
    /// let titles = transaction.open_table(TITLES)?;
    /// titles.insert(("Gray", "The Transaction Concept"), ())?;
    /// titles.insert(("Gray", "Notes on Data Base Operating Systems"), ())?;
    /// titles.insert(("Graefe", "Modern B-Tree Techniques"), ())?;
    /// let gray: Result<Vec<_>, _> = titles.with_first("Gray")?.collect();
    /// let gray: Vec<_> = gray?.into_iter().map(|((_, title), ())| title).collect();
    /// assert_eq!(gray, ["Notes on Data Base Operating Systems", "The Transaction Concept"]);
    /// # Ok::<(), varve_tp::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`get`](Self::get).
    pub fn with_first(&self, first: A::Ref<'_>) -> Result<Range<'t, 'e, (A, B), V>> {
        let mut transaction = self.handle.transaction.borrow_mut();
        transaction.lock_to_scan(self.id)?;
        drop(transaction);
        Ok(Range::new(self.handle, self.id, of_first::<A>(first)))
    }
}

/// Returns the bounds of pairs with this first.
pub(crate) fn of_first<A: FirstKey>(first: A::Ref<'_>) -> Bounds {
    let mut beginning = Vec::new();
    A::encode_first(first, &mut beginning);
    let to = behind(beginning.clone());
    (std::ops::Bound::Included(beginning), to)
}

impl<'t, 'e, K: Key, V: Value> Table<'t, 'e, K, V> {
    pub(super) fn new(handle: &'t Handle<'e>, id: TableId, indices: Vec<Indexed>) -> Self {
        let table = ReadTable::new(handle, id);
        Table { table, indices }
    }

    /// Changes a record and its index entries atomically. Returns true if the record
    /// existed.
    fn change(&self, key: &[u8], value: Option<&[u8]>) -> Result<bool> {
        let change = |transaction: &mut Transaction<'_>| match value {
            Some(value) => transaction.put(self.id, key, value),
            None => transaction.delete(self.id, key),
        };
        if self.indices.is_empty() {
            return self.handle.run(change);
        }
        self.handle.atomically(|transaction| {
            let old = transaction.get_to_write(self.id, key)?;
            let existed = change(transaction)?;
            for index in &self.indices {
                index.change(transaction, key, old.as_deref(), value)?;
            }
            Ok(existed)
        })
    }

    /// Returns the value of a key in order to change it. The key is locked for writing at
    /// once, because two transactions that have read it and both write it would be in a
    /// deadlock.
    ///
    /// # Errors
    /// The same as [`get`](ReadTable::get).
    pub fn get_for_update(&self, key: K::Ref<'_>) -> Result<Option<V::Owned>> {
        let key = bytes::<K>(key);
        let mut transaction = self.handle.transaction.borrow_mut();
        let found = transaction.get_to_write(self.id, &key)?;
        drop(transaction);
        found.map(decoded_read::<V>).transpose()
    }

    /// Sets the value of a key. Returns true if it had one.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`], [`Error::LogFull`], those of
    /// [`get`](ReadTable::get), and errors of the storage.
    pub fn insert(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<bool> {
        self.change(&bytes::<K>(key), Some(&bytes::<V>(value)))
    }

    /// Removes a key. Returns true if it existed.
    ///
    /// # Errors
    /// The same as [`insert`](Self::insert).
    pub fn remove(&self, key: K::Ref<'_>) -> Result<bool> {
        self.change(&bytes::<K>(key), None)
    }

    /// Fills an empty table with records in ascending order of keys. Its pages become
    /// full, while random inserts fill them to two thirds. Returns the number of records.
    ///
    /// # Errors
    /// [`Error::BulkLoad`], and those of [`insert`](Self::insert).
    pub fn bulk_load<'v>(
        &self,
        records: impl IntoIterator<Item = (K::Ref<'v>, V::Ref<'v>)>,
    ) -> Result<u64> {
        self.handle
            .transaction
            .borrow_mut()
            .lock_table(self.id.table, Mode::Write)?;
        if self.iter()?.next().is_some() {
            return Err(Error::BulkLoad("the table is not empty"));
        }
        let (mut last, mut count) = (None, 0);
        for (key, value) in records {
            let (key, value) = (bytes::<K>(key), bytes::<V>(value));
            if last.as_ref().is_some_and(|last| *last >= key) {
                return Err(Error::BulkLoad("keys do not grow"));
            }
            self.change(&key, Some(&value))?;
            count += 1;
            last = Some(key);
        }
        Ok(count)
    }
}
