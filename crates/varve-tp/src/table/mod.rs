//! Transactions and tables, as users have them.

mod range;
mod raw;
mod records;
mod typed;

pub use range::{Range, Row};
pub use records::{Records, RecordsDefinition};
pub(crate) use typed::decoded;
pub use typed::{ReadTable, Table, TableDefinition};

use crate::catalog::Entry;
use crate::environment::{Environment, Shared};
use crate::error::{Error, Result};
use crate::options::Durability;
use crate::transaction::{Mark, TableId, Transaction};
use std::cell::RefCell;

/// What both kinds of transactions share.
#[derive(Debug)]
pub(crate) struct Handle<'e> {
    shared: &'e Shared,
    transaction: RefCell<Transaction<'e>>,
    /// Tables that were found or made here.
    found: RefCell<Vec<(String, Entry)>>,
}

impl<'e> Handle<'e> {
    fn begin(shared: &'e Shared, reads: bool) -> Self {
        Handle {
            shared,
            transaction: RefCell::new(shared.transaction(reads)),
            found: RefCell::default(),
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

    /// What the catalog says of a table; made if `types` are given.
    fn entry(&self, name: &str, types: Option<&str>) -> Result<Entry> {
        let known = self.shared.table(name).or_else(|| {
            let found = self.found.borrow();
            found
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, entry)| entry.clone())
        });
        match known {
            Some(entry) => Ok(entry),
            None => {
                let entry = self.run(|t| self.shared.find_table(t, name, types))?;
                self.found
                    .borrow_mut()
                    .push((name.to_owned(), entry.clone()));
                Ok(entry)
            }
        }
    }

    fn table(&self, name: &str, types: &str, make: bool) -> Result<TableId> {
        let entry = self.entry(name, make.then_some(types))?;
        match entry.types == types {
            true => Ok(entry.id),
            false => Err(Error::WrongType {
                table: name.to_owned(),
                found: entry.types,
                wanted: types.to_owned(),
            }),
        }
    }
}

/// A transaction that reads and writes. Dropped without a commit, it is aborted.
///
/// Transactions are serializable: what one has read nobody changes until it has ended. So
/// one may have to wait for another, and if they wait for each other, one of them gets
/// [`Error::Deadlock`] and has to be aborted and tried again.
#[derive(Debug)]
pub struct WriteTransaction<'e>(Handle<'e>);

/// A transaction that only reads. It locks what it reads, so it may have to wait for
/// those who write, and they for it. What it answers is durable.
#[derive(Debug)]
pub struct ReadTransaction<'e>(Handle<'e>);

/// A place in a transaction to which it can go back.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint(Mark);

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
        WriteTransaction(Handle::begin(self.shared(), false))
    }

    /// Begins a transaction that only reads.
    pub fn begin_read(&self) -> ReadTransaction<'_> {
        ReadTransaction(Handle::begin(self.shared(), true))
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
        Ok(Table::new(&self.0, id))
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
        Records::open(&self.0, id)
    }

    /// Here, for [`rollback_to`](Self::rollback_to).
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.0.transaction.borrow().mark())
    }

    /// Undoes everything since a savepoint. What was locked stays locked.
    ///
    /// # Errors
    /// What the storage says; the environment is poisoned then.
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        // Tables may have been made since.
        self.0.found.borrow_mut().clear();
        self.0.transaction.borrow_mut().rollback_to(savepoint.0)
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
        self.0.transaction.into_inner().commit(durable)?;
        self.0.shared.committed(self.0.found.into_inner());
        Ok(())
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
