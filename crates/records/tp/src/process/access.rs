//! Transactions and tables of a shared environment, with the methods of a local one.

use super::shared::{Route, SharedEnvironment, unexpected};
use super::wire::{Answer, Request};
use crate::codec::{FirstKey, Key, Value};
use crate::error::{Error, Result};
use crate::options::Durability;
use crate::table::{RecordsDefinition, Row, TableDefinition};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// Bytes of writes that are collected before they are sent.
const WAITING: usize = 64 << 10;

/// A transaction. If it is dropped without a commit, it is aborted.
#[derive(Debug)]
pub struct SharedTransaction<'s> {
    environment: &'s SharedEnvironment,
    /// `None` after the holder exited.
    route: RefCell<Option<Route<'s>>>,
    /// Tables that this transaction was the first of its connection to open.
    opened: RefCell<Vec<(String, String)>>,
}

/// A point in a transaction to which it can be rolled back.
#[derive(Clone, Copy, Debug)]
pub struct SharedSavepoint(u32);

impl<'s> SharedTransaction<'s> {
    pub(super) fn begin(
        environment: &'s SharedEnvironment,
        mut route: Route<'s>,
        writes: bool,
    ) -> Self {
        // A local session cannot fail here, and the error of a remote one is reported
        // later.
        let _ = route.later(&Request::Begin { writes });
        SharedTransaction {
            environment,
            route: RefCell::new(Some(route)),
            opened: RefCell::default(),
        }
    }

    /// Sends a request. After the holder exited, no further request is sent.
    fn send<T>(&self, send: impl FnOnce(&mut Route<'s>) -> Result<T>) -> Result<T> {
        let mut route = self.route.borrow_mut();
        let sent = match route.as_mut() {
            Some(route) => send(route),
            None => Err(Error::HolderDied { committing: false }),
        };
        if let Err(Error::HolderDied { .. }) = sent {
            *route = None;
            self.environment.forget_idle();
        }
        sent
    }

    fn call(&self, request: &Request<'_>) -> Result<Answer> {
        self.send(|route| route.call(request))
    }

    fn later(&self, request: &Request<'_>) -> Result<()> {
        self.send(|route| match route {
            Route::There(connection) if connection.waiting() >= WAITING => {
                connection.call(request).map(|_| ())
            }
            _ => route.later(request),
        })
    }

    fn table(&self, name: &str, types: &str) -> Result<u32> {
        let key = (name.to_owned(), types.to_owned());
        if let Some(Route::There(connection)) = &*self.route.borrow()
            && let Some(number) = connection.tables.get(&key)
        {
            return Ok(*number);
        }
        let number = match self.call(&Request::Open { name, types })? {
            Answer::Number(number) => number as u32,
            _ => return Err(unexpected()),
        };
        if let Some(Route::There(connection)) = &mut *self.route.borrow_mut() {
            connection.tables.insert(key.clone(), number);
            self.opened.borrow_mut().push(key);
        }
        Ok(number)
    }

    /// Opens a table. If it is missing and the transaction may write, it is created.
    ///
    /// # Errors
    /// Errors of a local environment, and [`Error::HolderDied`].
    pub fn open_table<K: Key, V: Value>(
        &self,
        definition: TableDefinition<K, V>,
    ) -> Result<SharedTable<'_, 's, K, V>> {
        Ok(SharedTable {
            transaction: self,
            table: self.table(definition.name(), &definition.types().text())?,
            types: PhantomData,
        })
    }

    /// Opens a table of records by number.
    ///
    /// # Errors
    /// The same as [`open_table`](Self::open_table).
    pub fn open_records<V: Value>(
        &self,
        definition: RecordsDefinition<V>,
    ) -> Result<SharedRecords<'_, 's, V>> {
        Ok(SharedRecords(SharedTable {
            transaction: self,
            table: self.table(definition.name(), &definition.types().text())?,
            types: PhantomData,
        }))
    }

    /// Returns the present point, for [`rollback_to`](Self::rollback_to).
    ///
    /// # Errors
    /// [`Error::HolderDied`], [`Error::ReadOnly`], and errors of earlier writes sent with
    /// it.
    pub fn savepoint(&self) -> Result<SharedSavepoint> {
        match self.call(&Request::Savepoint)? {
            Answer::Number(number) => Ok(SharedSavepoint(number as u32)),
            _ => Err(unexpected()),
        }
    }

    /// Undoes everything since a savepoint. Locks are kept.
    ///
    /// # Errors
    /// The same as [`savepoint`](Self::savepoint), and errors of the storage.
    pub fn rollback_to(&self, savepoint: SharedSavepoint) -> Result<()> {
        self.forget_tables();
        let savepoint = savepoint.0;
        self.call(&Request::RollbackTo { savepoint }).map(|_| ())
    }

    /// Commits, and waits as the holder's options demand.
    ///
    /// # Errors
    /// Errors of a local commit, and errors of earlier writes sent with it, which abort
    /// the transaction. After [`Error::HolderDied`] with `committing` the outcome is
    /// unknown.
    pub fn commit(self) -> Result<()> {
        self.end(None)
    }

    /// Commits with this durability.
    ///
    /// # Errors
    /// The same as [`commit`](Self::commit).
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        self.end(Some(durability == Durability::Durable))
    }

    fn end(self, durable: Option<bool>) -> Result<()> {
        self.call(&Request::Commit { durable })?;
        if let Some(route) = self.route.take() {
            self.environment.give_back(route);
        }
        Ok(())
    }

    /// Undoes everything.
    ///
    /// # Errors
    /// Errors of the storage, and [`Error::HolderDied`], after which it is undone as
    /// well.
    pub fn abort(self) -> Result<()> {
        self.undo()
    }

    /// Forgets tables that the transaction may have created.
    fn forget_tables(&self) {
        if let Some(Route::There(connection)) = &mut *self.route.borrow_mut() {
            for key in self.opened.borrow_mut().drain(..) {
                connection.tables.remove(&key);
            }
        }
    }

    fn undo(&self) -> Result<()> {
        self.forget_tables();
        let undone = self.call(&Request::Abort);
        match self.route.take() {
            Some(route) if undone.is_ok() => self.environment.give_back(route),
            // Closing the connection also aborts.
            _ => {}
        }
        undone.map(|_| ())
    }
}

impl Drop for SharedTransaction<'_> {
    fn drop(&mut self) {
        if self.route.borrow().is_some()
            && let Err(error) = self.undo()
        {
            tracing::debug!("a dropped transaction: {error}");
        }
    }
}

/// A table in a transaction. Writes fail with [`Error::ReadOnly`] in a read-only
/// transaction.
#[derive(Debug)]
pub struct SharedTable<'t, 's, K, V> {
    transaction: &'t SharedTransaction<'s>,
    table: u32,
    types: PhantomData<fn(K, V)>,
}

fn bytes<V: Value>(value: V::Ref<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    V::encode(value, &mut bytes);
    bytes
}

impl<'t, 's, K: Key, V: Value> SharedTable<'t, 's, K, V> {
    fn get_in(&self, key: K::Ref<'_>, update: bool) -> Result<Option<V::Owned>> {
        let key = bytes::<K>(key);
        let answer = self.transaction.call(&Request::Get {
            table: self.table,
            key: &key,
            update,
        })?;
        match answer {
            Answer::Value(found) => found
                .map(|bytes| crate::table::decoded::<V>(&bytes))
                .transpose(),
            _ => Err(unexpected()),
        }
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// [`Error::Deadlock`], [`Error::LockTimeout`], [`Error::HolderDied`], and errors of
    /// the storage.
    pub fn get(&self, key: K::Ref<'_>) -> Result<Option<V::Owned>> {
        self.get_in(key, false)
    }

    /// Returns the value of a key in order to change it.
    ///
    /// # Errors
    /// The same as [`get`](Self::get).
    pub fn get_for_update(&self, key: K::Ref<'_>) -> Result<Option<V::Owned>> {
        self.get_in(key, true)
    }

    /// Sets the value of a key. Returns true if it had one.
    ///
    /// # Errors
    /// Errors of a local table, and [`Error::HolderDied`].
    pub fn insert(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<bool> {
        let (key, value) = (bytes::<K>(key), bytes::<V>(value));
        let answer = self.transaction.call(&Request::Put {
            table: self.table,
            key: &key,
            value: &value,
        })?;
        match answer {
            Answer::Flag(had) => Ok(had),
            _ => Err(unexpected()),
        }
    }

    /// Sets the value of a key without waiting. The request is sent with the next one
    /// that has an answer, which also returns its error.
    ///
    /// # Errors
    /// The same as [`insert`](Self::insert).
    pub fn insert_later(&self, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<()> {
        let (key, value) = (bytes::<K>(key), bytes::<V>(value));
        self.transaction.later(&Request::Put {
            table: self.table,
            key: &key,
            value: &value,
        })
    }

    /// Removes a key. Returns true if it existed.
    ///
    /// # Errors
    /// The same as [`insert`](Self::insert).
    pub fn remove(&self, key: K::Ref<'_>) -> Result<bool> {
        let key = bytes::<K>(key);
        let answer = self.transaction.call(&Request::Delete {
            table: self.table,
            key: &key,
        })?;
        match answer {
            Answer::Flag(had) => Ok(had),
            _ => Err(unexpected()),
        }
    }

    /// Returns an iterator over the records in a range of keys, from either end. At most
    /// a thousand are fetched at a time.
    pub fn range<'k>(&self, range: impl RangeBounds<K::Ref<'k>>) -> SharedRange<'t, 's, K, V>
    where
        K::Ref<'k>: Clone,
    {
        let encode = |key: &K::Ref<'k>| bytes::<K>(key.clone());
        let bounds = (range.start_bound(), range.end_bound());
        self.within((bounds.0.map(encode), bounds.1.map(encode)))
    }

    /// Returns an iterator over all records, in the order of their keys.
    pub fn iter(&self) -> SharedRange<'t, 's, K, V> {
        self.within((Bound::Unbounded, Bound::Unbounded))
    }

    fn within(&self, bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> SharedRange<'t, 's, K, V> {
        SharedRange {
            transaction: self.transaction,
            table: self.table,
            rest: Some(bounds),
            front: VecDeque::new(),
            back: VecDeque::new(),
            types: PhantomData,
        }
    }
}

impl<'t, 's, A: FirstKey, B: Key, V: Value> SharedTable<'t, 's, (A, B), V> {
    /// Returns an iterator over the records whose keys are pairs with this first, from
    /// either end.
    pub fn with_first(&self, first: A::Ref<'_>) -> SharedRange<'t, 's, (A, B), V> {
        self.within(crate::table::of_first::<A>(first))
    }
}

/// A table of records by number in a transaction.
#[derive(Debug)]
pub struct SharedRecords<'t, 's, V>(SharedTable<'t, 's, u64, V>);

impl<'t, 's, V: Value> SharedRecords<'t, 's, V> {
    /// Returns the record of a number.
    ///
    /// # Errors
    /// The same as [`SharedTable::get`].
    pub fn get(&self, number: u64) -> Result<Option<V::Owned>> {
        self.0.get(number)
    }

    /// Returns an iterator over the records in a range of numbers, like
    /// [`SharedTable::range`].
    pub fn range(&self, range: impl RangeBounds<u64>) -> SharedRange<'t, 's, u64, V> {
        self.0.range(range)
    }

    /// Returns an iterator over all records, in the order of their numbers.
    pub fn iter(&self) -> SharedRange<'t, 's, u64, V> {
        self.0.iter()
    }

    /// Replaces an existing record.
    ///
    /// # Errors
    /// The same as [`SharedTable::insert`], and [`Error::NoRecord`] if it does not exist.
    pub fn set(&self, number: u64, value: V::Ref<'_>) -> Result<()> {
        match self.0.get_for_update(number)? {
            Some(_) => self.0.insert(number, value).map(|_| ()),
            None => Err(Error::NoRecord(number)),
        }
    }

    /// Removes a record; its number is not reused. Returns true if it existed.
    ///
    /// # Errors
    /// The same as [`SharedTable::remove`].
    pub fn remove(&self, number: u64) -> Result<bool> {
        self.0.remove(number)
    }

    /// Appends a record, and returns its number.
    ///
    /// # Errors
    /// The same as [`SharedTable::insert`].
    pub fn append(&self, value: V::Ref<'_>) -> Result<u64> {
        let value = bytes::<V>(value);
        let answer = self.0.transaction.call(&Request::Append {
            table: self.0.table,
            value: &value,
        })?;
        match answer {
            Answer::Number(number) => Ok(number),
            _ => Err(unexpected()),
        }
    }

    /// Appends a record without waiting, like [`SharedTable::insert_later`].
    ///
    /// # Errors
    /// The same as [`SharedTable::insert`].
    pub fn append_later(&self, value: V::Ref<'_>) -> Result<()> {
        let value = bytes::<V>(value);
        self.0.transaction.later(&Request::Append {
            table: self.0.table,
            value: &value,
        })
    }
}

type Pair = (Vec<u8>, Vec<u8>);
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// An iterator over a range of keys, which may be advanced from both ends until they
/// meet.
#[derive(Debug)]
pub struct SharedRange<'t, 's, K, V> {
    transaction: &'t SharedTransaction<'s>,
    table: u32,
    /// Range that was not read yet.
    rest: Option<Bounds>,
    front: VecDeque<Pair>,
    back: VecDeque<Pair>,
    types: PhantomData<fn(K, V)>,
}

impl<K: Key, V: Value> SharedRange<'_, '_, K, V> {
    fn read(&mut self, backward: bool) -> Result<()> {
        let Some((from, to)) = self.rest.take() else {
            return Ok(());
        };
        let answer = self.transaction.call(&Request::Range {
            table: self.table,
            from: from.as_ref().map(Vec::as_slice),
            to: to.as_ref().map(Vec::as_slice),
            backward,
        })?;
        let Answer::Rows(rows, more) = answer else {
            return Err(unexpected());
        };
        let last = rows.last().map(|(key, _)| Bound::Excluded(key.clone()));
        self.rest = match (last, more) {
            (Some(last), true) if backward => Some((from, last)),
            (Some(last), true) => Some((last, to)),
            _ => None,
        };
        match backward {
            true => self.back = rows.into(),
            false => self.front = rows.into(),
        }
        Ok(())
    }

    fn row(&self, (key, value): Pair) -> Result<Row<K, V>> {
        let key = crate::table::decoded::<K>(&key)?;
        Ok((key, crate::table::decoded::<V>(&value)?))
    }
}

impl<K: Key, V: Value> Iterator for SharedRange<'_, '_, K, V> {
    type Item = Result<Row<K, V>>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.front.is_empty() && self.rest.is_some() {
            if let Err(error) = self.read(false) {
                return Some(Err(error));
            }
        }
        // Records fetched backward are in descending order.
        let record = self.front.pop_front().or_else(|| self.back.pop_back());
        record.map(|record| self.row(record))
    }
}

impl<K: Key, V: Value> DoubleEndedIterator for SharedRange<'_, '_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        while self.back.is_empty() && self.rest.is_some() {
            if let Err(error) = self.read(true) {
                return Some(Err(error));
            }
        }
        let record = self.back.pop_front().or_else(|| self.front.pop_back());
        record.map(|record| self.row(record))
    }
}
