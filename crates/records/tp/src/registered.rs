//! An index as the environment uses it: a function over bytes.

use crate::error::Result;
use crate::types::Types;
use std::fmt;
use std::sync::Arc;

pub(crate) type Extract = dyn Fn(&[u8], &[u8]) -> Result<Vec<Vec<u8>>> + Send + Sync;

/// An index with its function over bytes.
#[derive(Clone)]
pub(crate) struct Registered {
    pub name: String,
    pub table: String,
    /// Types in the form of the catalog.
    pub types: Types,
    pub extract: Arc<Extract>,
}

impl fmt::Debug for Registered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.name, self.types.text())
    }
}

impl Registered {
    /// Returns the index keys of a record, without duplicates.
    pub(crate) fn keys(&self, key: &[u8], value: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut keys = (self.extract)(key, value)?;
        keys.sort();
        keys.dedup();
        Ok(keys)
    }
}

/// Prefix of the indexed table's name in the types that the catalog has for an index.
pub(crate) const INDEX_OF: &str = "index of ";

/// Returns the table of an index from its types as [`Environment::table_types`] returns
/// them; `None` if they are not those of an index.
///
/// [`Environment::table_types`]: crate::Environment::table_types
pub fn indexed_table(types: &str) -> Option<&str> {
    let (table, _) = types.strip_prefix(INDEX_OF)?.rsplit_once(": ")?;
    Some(table)
}
