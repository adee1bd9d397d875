//! Tables as bytes, for any types: for tools that copy, and for processes that serve
//! tables to others.
//!
//! Keys sort in the order of their bytes, so a table of any types is one of bytes, whose
//! catalog entry has the names of these types.

use super::{ReadTable, ReadTransaction, Records, Table, WriteTransaction};
use crate::environment::Environment;
use crate::error::Result;
use crate::types::Types;
use varve_locks::OwnerId;

/// Bytes of any type.
type Bytes = &'static [u8];

impl Environment {
    /// Returns the names of a committed table's types, as
    /// [`Value::type_name`](crate::Value) returns them: `u32 -> [u8; 100]`, or `records
    /// of [u8]`.
    pub fn table_types(&self, name: &str) -> Option<String> {
        self.shared().table(name, None, |entry| entry.types.clone())
    }
}

impl<'e> ReadTransaction<'e> {
    /// Opens a table of these types as one of bytes.
    ///
    /// # Errors
    /// The same as [`open_table`](Self::open_table).
    pub(crate) fn open_raw_as(
        &self,
        name: &str,
        types: &str,
    ) -> Result<ReadTable<'_, 'e, Bytes, Bytes>> {
        let id = self.0.table(name, &Types::named(types), false)?;
        Ok(ReadTable::new(&self.0, id))
    }

    /// Opens a table of any types as one of bytes.
    ///
    /// # Errors
    /// The same as [`open_table`](Self::open_table), except for the types.
    pub fn open_raw(&self, name: &str) -> Result<ReadTable<'_, 'e, Bytes, Bytes>> {
        let id = self.0.any_table(name)?;
        Ok(ReadTable::new(&self.0, id))
    }
}

impl<'e> WriteTransaction<'e> {
    /// Returns the owner of the transaction's lock waits.
    pub(crate) fn owner(&self) -> OwnerId {
        self.0.transaction.borrow_mut().owner()
    }

    /// Opens a table of these types as one of bytes; it is created if it is missing. The
    /// caller must store keys and values of these types; if it does not, reads through a
    /// typed table fail.
    ///
    /// # Errors
    /// The same as [`open_table`](Self::open_table).
    pub fn open_raw(&self, name: &str, types: &str) -> Result<Table<'_, 'e, Bytes, Bytes>> {
        let id = self.0.table(name, &Types::named(types), true)?;
        let indices = self.0.indices(name, id)?;
        Ok(Table::new(&self.0, id, indices))
    }

    /// Opens a table of records of these types as one of bytes; it is created if it is
    /// missing.
    ///
    /// # Errors
    /// The same as [`open_table`](Self::open_table).
    pub fn open_raw_records(&self, name: &str, types: &str) -> Result<Records<'_, 'e, Bytes>> {
        let id = self.0.table(name, &Types::named(types), true)?;
        let indices = self.0.indices(name, id)?;
        Records::open(&self.0, id, indices)
    }
}
