//! Transactions and tables, as users have them.

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

/// What both kinds of transactions share.
#[derive(Debug)]
pub(crate) struct Handle<'e> {
    shared: &'e Shared,
    transaction: RefCell<Transaction<'e>>,
    /// Tables that were found or made here; without an entry those that are gone. The
    /// last one of a name counts, so that a roll-back cuts it.
    found: RefCell<Vec<(String, Option<Entry>)>>,
    /// A transaction that only reads.
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

    /// Does something; if the log is full, a checkpoint may make room.
    fn run<T>(&self, mut what: impl FnMut(&mut Transaction<'e>) -> Result<T>) -> Result<T> {
        for _ in 0..2 {
            match what(&mut self.transaction.borrow_mut()) {
                Err(Error::LogFull { .. }) => self.shared.checkpoint(true)?,
                other => return other,
            }
        }
        what(&mut self.transaction.borrow_mut())
    }

    /// Does something that consists of several changes, or none of it.
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

    /// Looks at a table that need not be looked for in the catalog. `None` if it must be,
    /// or is gone here.
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
        // What one who writes only looks at may be of an older snapshot: no name for others.
        if make || self.reads {
            self.know(name, Some(entry.clone()));
        }
        right(&entry)
    }

    /// A table, of whatever types.
    fn any_table(&self, name: &str) -> Result<TableId> {
        if let Some(id) = self.known(name, |entry| entry.id) {
            return Ok(id);
        }
        let entry = self.run(|t| self.shared.find_table(t, name, None))?;
        self.know(name, Some(entry.clone()));
        Ok(entry.id)
    }

    /// The indices of a table that is opened for writing: made and filled, if they are
    /// not there.
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
            // Its type may be another one's.
            self.table(&index.name, &index.types, false)?;
            Ok(indexed)
        };
        registered.into_iter().map(index).collect()
    }

    /// An index, and its table.
    fn index<I: Key, K: Key, V: Value>(
        &self,
        index: &IndexDefinition<'_, I, K, V>,
    ) -> Result<(TableId, TableId)> {
        let table = index.table();
        let id = self.table(index.name(), &index.types(), false)?;
        Ok((id, self.table(table.name(), &table.types(), false)?))
    }
}

/// A transaction that reads and writes. Dropped without a commit, it is aborted.
///
/// Transactions are serializable, unless begun at another level ([`Isolation`]): what one
/// has read nobody changes until it has ended. So one may have to wait for another, and if
/// they wait for each other, one of them gets [`Error::Deadlock`] and has to be aborted
/// and tried again.
#[derive(Debug)]
pub struct WriteTransaction<'e>(Handle<'e>);

/// A transaction that only reads: a snapshot, unless begun at another level
/// ([`Isolation`]). It waits for nobody who writes, and nobody waits for it. What it
/// answers is durable, if commits are: it may have to wait for the log's flush once.
#[derive(Debug)]
pub struct ReadTransaction<'e>(Handle<'e>);

/// A place in a transaction to which it can go back.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    mark: Mark,
    /// Tables found or made before.
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

    /// Begins a transaction that reads what is committed now, whatever others do
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

    /// Begins a transaction that only reads, at a level of isolation.
    pub fn begin_read_at(&self, isolation: Isolation) -> ReadTransaction<'_> {
        ReadTransaction(Handle::begin(self.shared(), isolation, true))
    }
}

impl<'e> WriteTransaction<'e> {
    /// Opens a table, and makes it if it is not there.
    ///
    /// # Errors
    /// [`Error::WrongType`], and whatever can befall a write.
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
    /// [`Error::NoTable`] if nobody has opened its table for writing yet, and
    /// [`Error::WrongType`].
    pub fn open_index<I: Key, K: Key, V: Value>(
        &self,
        index: IndexDefinition<'_, I, K, V>,
    ) -> Result<Index<'_, 'e, I, K, V>> {
        let (id, table) = self.0.index(&index)?;
        Ok(Index::new(&self.0, id, table))
    }

    /// Makes an index anew from its table, for when its function has changed. Answers how
    /// many entries it has.
    ///
    /// # Errors
    /// As [`open_table`](Self::open_table).
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
            // Another one may have rebuilt it meanwhile: what is locked now counts.
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

    /// Opens a file of records by number, and makes it if it is not there.
    ///
    /// # Errors
    /// As [`open_table`](Self::open_table).
    pub fn open_records<V: crate::Value>(
        &self,
        definition: RecordsDefinition<V>,
    ) -> Result<Records<'_, 'e, V>> {
        let id = self.0.table(definition.name(), &definition.types(), true)?;
        let indices = self.0.indices(definition.name(), id)?;
        Records::open(&self.0, id, indices)
    }

    /// Takes a table or a file of records away, and its indices. Its pages are free when this has
    /// committed and no snapshot needs them any more. The table is locked, and its
    /// leaves are read, for the values that have pages of their own.
    ///
    /// # Errors
    /// [`Error::NoTable`], and whatever can befall a write.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let indices = self.0.shared.names_of_indices(name);
        self.0.atomically(|transaction| {
            let entry = self.0.shared.take_table(transaction, name)?;
            transaction.drop_tree(entry.id)?;
            for index in &indices {
                match self.0.shared.take_table(transaction, index) {
                    Ok(entry) => transaction.drop_tree(entry.id)?,
                    // It was dropped itself, or not made yet.
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

    /// Gives a table or a file of records another name. Whoever has it open goes on with
    /// it.
    ///
    /// # Errors
    /// [`Error::NoTable`], [`Error::TableExists`], [`Error::Indexed`], and whatever can
    /// befall a write.
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

    /// Here, for [`rollback_to`](Self::rollback_to).
    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            mark: self.0.transaction.borrow().mark(),
            found: self.0.found.borrow().len(),
        }
    }

    /// Undoes everything since a savepoint. What was locked stays locked.
    ///
    /// # Errors
    /// What the storage says; the environment is poisoned then.
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        self.0.found.borrow_mut().truncate(savepoint.found);
        let mark = savepoint.mark;
        self.0.transaction.borrow_mut().rollback_to(mark)
    }

    /// Commits, and waits for what the environment's options say.
    ///
    /// # Errors
    /// [`Error::Poisoned`] and what the storage says: then nobody knows whether it is
    /// committed until the environment is opened again.
    pub fn commit(self) -> Result<()> {
        let durability = self.0.shared.options.durability;
        self.commit_with(durability)
    }

    /// Commits, and waits for this.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        let durable = durability == Durability::Durable;
        let transaction = self.0.transaction.into_inner();
        let (names, gone) = (self.0.found.into_inner(), transaction.dropped().to_vec());
        transaction.commit(durable, |at| self.0.shared.commits(&names, &gone, at))
    }

    /// Undoes everything.
    ///
    /// # Errors
    /// What the storage says; the environment is poisoned then, and a restart undoes it.
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
    /// As [`open_table`](Self::open_table).
    pub fn open_index<I: Key, K: Key, V: Value>(
        &self,
        index: IndexDefinition<'_, I, K, V>,
    ) -> Result<Index<'_, 'e, I, K, V>> {
        let (id, table) = self.0.index(&index)?;
        Ok(Index::new(&self.0, id, table))
    }

    /// Opens a file of records by number.
    ///
    /// # Errors
    /// As [`open_table`](Self::open_table).
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
