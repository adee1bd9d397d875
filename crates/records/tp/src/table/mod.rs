//! Transactions and tables in the form of the public interface.

mod definition;
mod index;
mod nested;
mod range;
mod raw;
mod records;
mod typed;

pub use definition::{IndexDefinition, IndexKeys};
pub use index::{Index, IndexMatches, IndexRange};
pub use nested::NestedTransaction;
pub use range::{Range, Row};
pub use records::{Records, RecordsDefinition};
pub use typed::{ReadTable, Table, TableDefinition};
pub(crate) use typed::{decoded, of_first};

use crate::catalog::Entry;
use crate::codec::{Key, Value};
use crate::environment::{Environment, Shared};
use crate::error::{Error, Result};
use crate::index::Indexed;
use crate::options::{Durability, Isolation};
use crate::registered::{Registered, indexed_table};
use crate::transaction::{Mark, TableId, Transaction};
use crate::types::Types;
use std::cell::RefCell;
use std::sync::Arc;

/// State shared by both kinds of transactions.
#[derive(Debug)]
pub(crate) struct Handle<'e> {
    shared: &'e Shared,
    transaction: RefCell<Transaction<'e>>,
    /// Tables that were found or created here; without an entry, tables that were dropped
    /// here. The last one of a name is valid, so that a rollback can truncate the list.
    found: RefCell<Vec<(String, Option<Entry>)>>,
    /// True for a read-only transaction.
    reads: bool,
}

impl<'e> Handle<'e> {
    fn begin(shared: &'e Shared, isolation: Isolation, reads: bool) -> Self {
        Handle {
            shared,
            transaction: RefCell::new(shared.transaction(isolation, reads)),
            found: RefCell::default(),
            reads,
        }
    }

    /// Runs an operation. If the log is full, it takes a checkpoint, which may free log,
    /// and tries once more.
    fn run<T>(&self, mut what: impl FnMut(&mut Transaction<'e>) -> Result<T>) -> Result<T> {
        for _ in 0..2 {
            match what(&mut self.transaction.borrow_mut()) {
                Err(Error::LogFull { .. }) => self.shared.checkpoint(true)?,
                other => return other,
            }
        }
        what(&mut self.transaction.borrow_mut())
    }

    /// Runs an operation of several changes atomically.
    fn atomically<T>(&self, mut what: impl FnMut(&mut Transaction<'e>) -> Result<T>) -> Result<T> {
        self.run(|transaction| {
            let mark = transaction.mark();
            let done = what(transaction);
            if done.is_err() {
                transaction.rollback_to(mark)?;
            }
            done
        })
    }

    fn know(&self, name: &str, entry: Option<Entry>) {
        self.found.borrow_mut().push((name.to_owned(), entry));
    }

    /// Runs `look` on a table that is known without the catalog; `None` if the catalog
    /// must be read, or the table was dropped here.
    fn known<T>(&self, name: &str, look: impl FnOnce(&Entry) -> T) -> Option<T> {
        let found = self.found.borrow();
        if let Some((_, entry)) = found.iter().rfind(|(known, _)| known == name) {
            return entry.as_ref().map(look);
        }
        let at = match self.reads {
            true => self.transaction.borrow().snapshot_at(),
            false => None,
        };
        self.shared.table(name, at, look)
    }

    fn table(&self, name: &str, types: &Types, make: bool) -> Result<TableId> {
        let right = |entry: &Entry| match types.are(&entry.types) {
            true => Ok(entry.id),
            false => Err(Error::WrongType {
                table: name.to_owned(),
                found: entry.types.clone(),
                wanted: types.text(),
            }),
        };
        if let Some(known) = self.known(name, right) {
            return known;
        }
        let types = make.then_some(types);
        let entry = self.atomically(|t| self.shared.find_table(t, name, types))?;
        // A writer that only reads the table may see an older snapshot of its name, which
        // must not be remembered.
        if make || self.reads {
            self.know(name, Some(entry.clone()));
        }
        right(&entry)
    }

    /// Returns a table of any types.
    fn any_table(&self, name: &str) -> Result<TableId> {
        if let Some(id) = self.known(name, |entry| entry.id) {
            return Ok(id);
        }
        let entry = self.run(|t| self.shared.find_table(t, name, None))?;
        self.know(name, Some(entry.clone()));
        Ok(entry.id)
    }

    /// Returns the indices of a table that is opened for writing; missing ones are
    /// created and filled.
    fn indices(&self, name: &str, id: TableId) -> Result<Vec<Indexed>> {
        let registered = self.shared.indices(name)?;
        let index = |index: Arc<Registered>| -> Result<Indexed> {
            if self.known(&index.name, |_| ()).is_some() {
                let id = self.table(&index.name, &index.types, false)?;
                return Ok(Indexed { index, id });
            }
            let (indexed, entry) = self.atomically(|transaction| {
                let (entry, made) = self.shared.find_index(transaction, &index)?;
                let indexed = Indexed {
                    index: index.clone(),
                    id: entry.id,
                };
                if made {
                    crate::index::fill(transaction, id, &indexed)?;
                }
                Ok((indexed, entry))
            })?;
            self.know(&index.name, Some(entry));
            // An existing index may have another type.
            self.table(&index.name, &index.types, false)?;
            Ok(indexed)
        };
        registered.into_iter().map(index).collect()
    }

    /// Returns an index and its table.
    fn index<I: Key, K: Key, V: Value>(
        &self,
        index: &IndexDefinition<'_, I, K, V>,
    ) -> Result<(TableId, TableId)> {
        let table = index.table();
        let id = self.table(index.name(), &index.types(), false)?;
        Ok((id, self.table(table.name(), &table.types(), false)?))
    }
}

/// A transaction that reads and writes. If it is dropped without a commit, it is aborted.
///
/// Transactions are serializable, unless they begin at another level ([`Isolation`]): no
/// other transaction can change a record that this one has read until it has ended. So a
/// transaction may wait for another one, and in a deadlock one of them fails with
/// [`Error::Deadlock`] and must be aborted and repeated.
#[derive(Debug)]
pub struct WriteTransaction<'e>(Handle<'e>);

/// A read-only transaction: a snapshot, unless it begins at another level
/// ([`Isolation`]). It waits for no writer, and no writer waits for it. Its results are
/// durable if commits are; for that it may have to wait once for a flush of the log.
#[derive(Debug)]
pub struct ReadTransaction<'e>(Handle<'e>);

/// A point in a transaction to which it can be rolled back.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    mark: Mark,
    /// Number of tables found or created before.
    found: usize,
}

impl Environment {
    /// Begins a transaction that may write.
    ///
    /// ```
    /// use varve_tp::{Options, TableDefinition};
    ///
    /// const FRUIT: TableDefinition<&str, u64> = TableDefinition::new("fruit");
    ///
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path();
    /// let environment = Options::new().open(path)?;
    /// let transaction = environment.begin_write();
    /// let fruit = transaction.open_table(FRUIT)?;
    /// fruit.insert("apples", 3)?;
    /// fruit.insert("pears", 5)?;
    /// transaction.commit()?;
    ///
    /// let transaction = environment.begin_read();
    /// let fruit = transaction.open_table(FRUIT)?;
    /// assert_eq!(fruit.get("apples")?, Some(3));
    /// let all: Result<Vec<_>, _> = fruit.range("a".."z")?.collect();
    /// assert_eq!(all?, [("apples".to_owned(), 3), ("pears".to_owned(), 5)]);
    /// # Ok::<(), varve_tp::Error>(())
    /// ```
    pub fn begin_write(&self) -> WriteTransaction<'_> {
        self.begin_write_at(Isolation::Serializable)
    }

    /// Begins a transaction that may write, at a level of isolation.
    pub fn begin_write_at(&self, isolation: Isolation) -> WriteTransaction<'_> {
        WriteTransaction(Handle::begin(self.shared(), isolation, false))
    }

    /// Begins a transaction that reads the state committed now, whatever is committed
    /// meanwhile.
    ///
    /// ```
    /// # use varve_tp::{Options, TableDefinition};
    /// # const FRUIT: TableDefinition<&str, u64> = TableDefinition::new("fruit");
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let environment = Options::new().open(directory.path())?;
    /// let put = |apples| {
    ///     let transaction = environment.begin_write();
    ///     transaction.open_table(FRUIT)?.insert("apples", apples)?;
    ///     transaction.commit()
    /// };
    /// put(3)?;
    /// let snapshot = environment.begin_read();
    /// put(4)?;
    /// assert_eq!(snapshot.open_table(FRUIT)?.get("apples")?, Some(3));
    /// # Ok::<(), varve_tp::Error>(())
    /// ```
    pub fn begin_read(&self) -> ReadTransaction<'_> {
        self.begin_read_at(Isolation::Snapshot)
    }

    /// Begins a read-only transaction at a level of isolation.
    pub fn begin_read_at(&self, isolation: Isolation) -> ReadTransaction<'_> {
        ReadTransaction(Handle::begin(self.shared(), isolation, true))
    }
}

impl<'e> WriteTransaction<'e> {
    /// Opens a table, which is created if it is missing.
    ///
    /// # Errors
    /// [`Error::WrongType`], and those of a write.
    pub fn open_table<K: crate::Key, V: crate::Value>(
        &self,
        definition: TableDefinition<K, V>,
    ) -> Result<Table<'_, 'e, K, V>> {
        let id = self.0.table(definition.name(), &definition.types(), true)?;
        let indices = self.0.indices(definition.name(), id)?;
        Ok(Table::new(&self.0, id, indices))
    }

    /// Opens an index for reading.
    ///
    /// # Errors
    /// [`Error::NoTable`] if its table was never opened for writing with this index, and
    /// [`Error::WrongType`].
    pub fn open_index<I: Key, K: Key, V: Value>(
        &self,
        index: IndexDefinition<'_, I, K, V>,
    ) -> Result<Index<'_, 'e, I, K, V>> {
        let (id, table) = self.0.index(&index)?;
        Ok(Index::new(&self.0, id, table))
    }

    /// Rebuilds an index from its table, after its function has changed. Returns the
    /// number of entries.
    ///
    /// # Errors
    /// The same as [`open_table`](Self::open_table).
    pub fn rebuild_index<I: Key, K: Key, V: Value>(
        &self,
        index: IndexDefinition<'_, I, K, V>,
    ) -> Result<u64> {
        let (_, table) = self.0.index(&index)?;
        let registered = self.0.shared.indices(index.table().name())?;
        let registered = registered
            .into_iter()
            .find(|registered| registered.name == index.name());
        let registered = registered.ok_or_else(|| Error::IndexNotGiven {
            table: index.table().name().to_owned(),
            index: index.name().to_owned(),
        })?;
        let (count, entry) = self.0.atomically(|transaction| {
            // Another transaction may have rebuilt it meanwhile; the entry that is now
            // locked is valid.
            let old = self.0.shared.take_table(transaction, index.name())?;
            transaction.drop_tree(old.id)?;
            let (entry, _) = self.0.shared.find_index(transaction, &registered)?;
            let indexed = Indexed {
                index: registered.clone(),
                id: entry.id,
            };
            let count = crate::index::fill(transaction, table, &indexed)?;
            Ok((count, entry))
        })?;
        self.0.know(index.name(), Some(entry));
        Ok(count)
    }

    /// Opens a table of records by number, which is created if it is missing.
    ///
    /// # Errors
    /// The same as [`open_table`](Self::open_table).
    pub fn open_records<V: crate::Value>(
        &self,
        definition: RecordsDefinition<V>,
    ) -> Result<Records<'_, 'e, V>> {
        let id = self.0.table(definition.name(), &definition.types(), true)?;
        let indices = self.0.indices(definition.name(), id)?;
        Records::open(&self.0, id, indices)
    }

    /// Drops a table of either kind, and its indices. Its pages are freed when the
    /// transaction has committed and no snapshot needs them. The table is locked, and its
    /// leaves are read to find values with their own pages.
    ///
    /// # Errors
    /// [`Error::NoTable`], and those of a write.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let indices = self.0.shared.names_of_indices(name);
        self.0.atomically(|transaction| {
            let entry = self.0.shared.take_table(transaction, name)?;
            transaction.drop_tree(entry.id)?;
            for index in &indices {
                match self.0.shared.take_table(transaction, index) {
                    Ok(entry) => transaction.drop_tree(entry.id)?,
                    // The index was dropped already, or not created yet.
                    Err(Error::NoTable(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })?;
        self.0.know(name, None);
        indices.iter().for_each(|name| self.0.know(name, None));
        Ok(())
    }

    /// Renames a table of either kind. Open handles of the table remain valid.
    ///
    /// # Errors
    /// [`Error::NoTable`], [`Error::TableExists`], [`Error::Indexed`], and those of a
    /// write.
    pub fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        let entry = self.0.atomically(|transaction| {
            let entry = self.0.shared.take_table(transaction, from)?;
            let is_index = indexed_table(&entry.types).is_some();
            if is_index || !self.0.shared.names_of_indices(from).is_empty() {
                return Err(Error::Indexed(from.to_owned()));
            }
            self.0.shared.name_table(transaction, to, &entry)?;
            Ok(entry)
        })?;
        self.0.know(from, None);
        self.0.know(to, Some(entry));
        Ok(())
    }

    /// Returns the present point, for [`rollback_to`](Self::rollback_to).
    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            mark: self.0.transaction.borrow().mark(),
            found: self.0.found.borrow().len(),
        }
    }

    /// Undoes everything since a savepoint. Locks are kept.
    ///
    /// # Errors
    /// Errors of the storage, after which the environment is poisoned.
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        self.0.found.borrow_mut().truncate(savepoint.found);
        let mark = savepoint.mark;
        self.0.transaction.borrow_mut().rollback_to(mark)
    }

    /// Commits, and waits as the environment's options demand.
    ///
    /// # Errors
    /// [`Error::Poisoned`] and errors of the storage. The outcome is then unknown until
    /// the environment is opened again.
    pub fn commit(self) -> Result<()> {
        let durability = self.0.shared.options.durability;
        self.commit_with(durability)
    }

    /// Commits with this durability.
    ///
    /// # Errors
    /// The same as [`commit`](Self::commit).
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        let durable = durability == Durability::Durable;
        let transaction = self.0.transaction.into_inner();
        let (names, gone) = (self.0.found.into_inner(), transaction.dropped().to_vec());
        transaction.commit(durable, |at| self.0.shared.commits(&names, &gone, at))
    }

    /// Undoes everything.
    ///
    /// # Errors
    /// Errors of the storage, after which the environment is poisoned and a restart
    /// undoes the transaction.
    pub fn abort(self) -> Result<()> {
        self.0.transaction.into_inner().abort()
    }
}

impl<'e> ReadTransaction<'e> {
    /// Opens a table.
    ///
    /// # Errors
    /// [`Error::NoTable`] and [`Error::WrongType`].
    pub fn open_table<K: crate::Key, V: crate::Value>(
        &self,
        definition: TableDefinition<K, V>,
    ) -> Result<ReadTable<'_, 'e, K, V>> {
        let id = self
            .0
            .table(definition.name(), &definition.types(), false)?;
        Ok(ReadTable::new(&self.0, id))
    }

    /// Opens an index.
    ///
    /// # Errors
    /// The same as [`open_table`](Self::open_table).
    pub fn open_index<I: Key, K: Key, V: Value>(
        &self,
        index: IndexDefinition<'_, I, K, V>,
    ) -> Result<Index<'_, 'e, I, K, V>> {
        let (id, table) = self.0.index(&index)?;
        Ok(Index::new(&self.0, id, table))
    }

    /// Opens a table of records by number.
    ///
    /// # Errors
    /// The same as [`open_table`](Self::open_table).
    pub fn open_records<V: crate::Value>(
        &self,
        definition: RecordsDefinition<V>,
    ) -> Result<ReadTable<'_, 'e, u64, V>> {
        let id = self
            .0
            .table(definition.name(), &definition.types(), false)?;
        Ok(ReadTable::new(&self.0, id))
    }
}
