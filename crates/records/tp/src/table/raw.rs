//! Tables as bytes, whatever their types are: for tools that copy, and for those who
//! serve tables to others.
//!
//! Keys sort as their bytes do, so a table of any types is one of bytes with the name of
//! these types kept beside it.

use super::{ReadTable, ReadTransaction, Records, Table, WriteTransaction};
use crate::environment::Environment;
use crate::error::Result;
use crate::types::Types;
use varve_locks::OwnerId;

/// Bytes of any type.
type Bytes = &'static [u8];

impl Environment {
    /// The names of a committed table's types, as [`Value::type_name`](crate::Value) says
    /// them: `u32 -> [u8; 100]`, or `records of [u8]`.
    pub fn table_types(&self, name: &str) -> Option<String> {
        self.shared().table(name, None, |entry| entry.types.clone())
    }
}

impl<'e> ReadTransaction<'e> {
    /// Opens a table of these types as one of bytes.
    ///
    /// # Errors
    /// As [`open_table`](Self::open_table).
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
    /// As [`open_table`](Self::open_table), but for the types.
    pub fn open_raw(&self, name: &str) -> Result<ReadTable<'_, 'e, Bytes, Bytes>> {
        let id = self.0.any_table(name)?;
        Ok(ReadTable::new(&self.0, id))
    }
}

impl<'e> WriteTransaction<'e> {
    /// Who waits for its locks, now or later.
    pub(crate) fn owner(&self) -> OwnerId {
        self.0.transaction.borrow_mut().owner()
    }

    /// Opens a table of these types as one of bytes, and makes it if it is not there.
    /// That keys and values are of the types is the caller's business: who opens the
    /// table with its types later and finds others gets an error.
    ///
    /// # Errors
    /// As [`open_table`](Self::open_table).
    pub fn open_raw(&self, name: &str, types: &str) -> Result<Table<'_, 'e, Bytes, Bytes>> {
        let id = self.0.table(name, &Types::named(types), true)?;
        let indices = self.0.indices(name, id)?;
        Ok(Table::new(&self.0, id, indices))
    }

    /// Opens a file of records of these types as one of bytes, and makes it if it is
    /// not there.
    ///
    /// # Errors
    /// As [`open_table`](Self::open_table).
    pub fn open_raw_records(&self, name: &str, types: &str) -> Result<Records<'_, 'e, Bytes>> {
        let id = self.0.table(name, &Types::named(types), true)?;
        let indices = self.0.indices(name, id)?;
        Records::open(&self.0, id, indices)
    }
}
