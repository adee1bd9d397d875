//! Nested transactions.

use super::WriteTransaction;
use crate::error::Result;
use crate::transaction::Outer;
use std::ops::Deref;

/// A transaction inside another one. When it commits, its changes and locks pass to the
/// parent; they become durable with the outermost commit. If it is dropped without a
/// commit, it is aborted: its changes are undone, and locks that only it owns are
/// released.
///
/// It dereferences to the transaction, through which tables are opened. The parent cannot
/// be used meanwhile.
///
/// ```
/// # use varve_tp::{Options, TableDefinition};
/// # const FRUIT: TableDefinition<&str, u64> = TableDefinition::new("fruit");
/// # let directory = tempfile::tempdir().unwrap();
/// # let environment = Options::new().open(directory.path())?;
/// let mut transaction = environment.begin_write();
/// transaction.open_table(FRUIT)?.insert("apples", 3)?;
/// let child = transaction.begin_nested();
/// child.open_table(FRUIT)?.insert("pears", 5)?;
/// child.abort()?;
/// let child = transaction.begin_nested();
/// child.open_table(FRUIT)?.insert("plums", 8)?;
/// child.commit()?;
/// transaction.commit()?;
/// let fruit = environment.begin_read();
/// let fruit = fruit.open_table(FRUIT)?;
/// assert_eq!((fruit.get("pears")?, fruit.get("plums")?), (None, Some(8)));
/// # Ok::<(), varve_tp::Error>(())
/// ```
#[derive(Debug)]
pub struct NestedTransaction<'t, 'e> {
    transaction: &'t mut WriteTransaction<'e>,
    outer: Option<Outer>,
    /// Number of tables found or created before.
    found: usize,
}

impl<'e> WriteTransaction<'e> {
    /// Begins a transaction inside this one.
    pub fn begin_nested(&mut self) -> NestedTransaction<'_, 'e> {
        let outer = self.0.transaction.get_mut().begin_child();
        let found = self.0.found.get_mut().len();
        NestedTransaction {
            transaction: self,
            outer: Some(outer),
            found,
        }
    }
}

impl<'e> Deref for NestedTransaction<'_, 'e> {
    type Target = WriteTransaction<'e>;

    fn deref(&self) -> &Self::Target {
        self.transaction
    }
}

impl<'e> NestedTransaction<'_, 'e> {
    /// Begins a transaction inside this one.
    pub fn begin_nested(&mut self) -> NestedTransaction<'_, 'e> {
        self.transaction.begin_nested()
    }

    /// Passes all changes and locks to the parent.
    ///
    /// # Errors
    /// [`Error::Ended`](crate::Error::Ended) if a rollback has failed.
    pub fn commit(mut self) -> Result<()> {
        self.outer = None;
        self.transaction.0.transaction.get_mut().commit_child()
    }

    /// Undoes the changes of this transaction, and none of its parent.
    ///
    /// # Errors
    /// Errors of the storage, after which the environment is poisoned.
    pub fn abort(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let Some(outer) = self.outer.take() else {
            return Ok(());
        };
        let handle = &mut self.transaction.0;
        handle.found.get_mut().truncate(self.found);
        handle.transaction.get_mut().abort_child(outer)
    }
}

impl Drop for NestedTransaction<'_, '_> {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!("a dropped nested transaction was not undone: {error}");
        }
    }
}
