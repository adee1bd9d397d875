//! Definitions of indices for an environment.

use super::typed::{TableDefinition, decoded};
use crate::codec::{Key, Value};
use crate::error::Result;
use crate::options::Options;
use crate::registered::{INDEX_OF, Registered};
use crate::types::Types;
use std::marker::PhantomData;
use std::sync::Arc;

/// The name of an index, its type, and its table.
#[derive(Debug)]
pub struct IndexDefinition<'n, I, K, V> {
    name: &'n str,
    table: TableDefinition<'n, K, V>,
    types: PhantomData<fn(I)>,
}

impl<I, K, V> Clone for IndexDefinition<'_, I, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, K, V> Copy for IndexDefinition<'_, I, K, V> {}

impl<'n, I, K, V> IndexDefinition<'n, I, K, V> {
    /// Returns the definition of an index of a table. Tables and indices share one set of
    /// names.
    pub const fn new(table: TableDefinition<'n, K, V>, name: &'n str) -> Self {
        IndexDefinition {
            name,
            table,
            types: PhantomData,
        }
    }

    /// Returns the name of the index.
    pub const fn name(&self) -> &'n str {
        self.name
    }

    /// Returns the table of the index.
    pub const fn table(&self) -> TableDefinition<'n, K, V> {
        self.table
    }
}

impl<I: Key, K: Key, V: Value> IndexDefinition<'_, I, K, V> {
    pub(crate) fn types(&self) -> Types {
        let of = format!("{INDEX_OF}{}: ", self.table.name());
        Types([of.into(), I::type_name(), "".into()])
    }
}

/// The keys under which an index lists a record: none, one, or several.
#[derive(Debug)]
pub struct IndexKeys<I>(Vec<Vec<u8>>, PhantomData<fn(I)>);

impl<I: Key> IndexKeys<I> {
    /// Adds a key of the record.
    pub fn add(&mut self, key: I::Ref<'_>) {
        let mut bytes = Vec::new();
        I::encode(key, &mut bytes);
        self.0.push(bytes);
    }
}

impl Options {
    /// Registers an index. `extract` adds the index keys of a record, and must always
    /// give the same ones for the same record. If the index is missing, it is created and
    /// filled when its table is opened for writing.
    ///
    /// ```
    /// use varve_tp::{IndexDefinition, Options, TableDefinition};
    ///
    /// const PEOPLE: TableDefinition<u32, &str> = TableDefinition::new("people");
    /// const BY_NAME: IndexDefinition<&str, u32, &str> =
    ///     IndexDefinition::new(PEOPLE, "people by name");
    ///
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path();
    /// let environment = Options::new()
    ///     .index(BY_NAME, |_number, name, keys| keys.add(name.as_str()))
    ///     .open(path)?;
    /// let transaction = environment.begin_write();
    /// let people = transaction.open_table(PEOPLE)?;
    /// people.insert(1, "Gray")?;
    /// people.insert(2, "Bernstein")?;
    /// people.insert(3, "Gray")?;
    /// transaction.commit()?;
    ///
    /// let transaction = environment.begin_read();
    /// let by_name = transaction.open_index(BY_NAME)?;
    /// let grays: Result<Vec<_>, _> = by_name.get("Gray")?.collect();
    /// assert_eq!(grays?, [(1, "Gray".to_owned()), (3, "Gray".to_owned())]);
    /// # Ok::<(), varve_tp::Error>(())
    /// ```
    pub fn index<I: Key, K: Key, V: Value>(
        &mut self,
        index: IndexDefinition<'_, I, K, V>,
        extract: impl Fn(&K::Owned, &V::Owned, &mut IndexKeys<I>) + Send + Sync + 'static,
    ) -> &mut Self {
        let over_bytes = move |key: &[u8], value: &[u8]| -> Result<Vec<Vec<u8>>> {
            let mut keys = IndexKeys(Vec::new(), PhantomData);
            extract(&decoded::<K>(key)?, &decoded::<V>(value)?, &mut keys);
            Ok(keys.0)
        };
        self.indices.push(Arc::new(Registered {
            name: index.name.to_owned(),
            table: index.table.name().to_owned(),
            types: index.types(),
            extract: Arc::new(over_bytes),
        }));
        self
    }
}
